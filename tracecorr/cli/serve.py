"""The verb `serve`: the timeline of captures in a browser."""

from __future__ import annotations

import errno
import os
import socket
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracecorr.cli.console import complete_captures, ended_in_order, open_capture, say
from tracecorr.model.errors import CaptureError, InputError
from tracecorr.store.folder_names import list_captures, newest_capture
from tracecorr.threads import begin_polars

if TYPE_CHECKING:
    from tracecorr.store import Capture

_DEFAULT_PORT = 8050

PortOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="PORT",
        help=f"Port; 0: any free port; default: {_DEFAULT_PORT}, or a free one near it.",
    ),
]
HostOption = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Address to listen on; the default serves only this machine.")
]
NoBrowserOption = Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")]


def serve_verb(
    names: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="NAME",
            help="Capture folders; default: all in the current folder.",
            autocompletion=complete_captures,
        ),
    ] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    no_browser: NoBrowserOption = False,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow a --host address that other machines can reach.")
    ] = False,
    allow_root: Annotated[
        bool, typer.Option("--allow-root", help="With --allow-remote: allow it even as root.")
    ] = False,
) -> None:
    """Show the timeline of captures in the browser until Ctrl-C."""
    if not _is_local(host):
        _check_remote(host, port, allow_remote=allow_remote, allow_root=allow_root)
    captures = [open_capture(name, tables=False) for name in names] if names else _captures_here()
    run_server(captures, host, port, no_browser)


def _captures_here() -> list[Capture]:
    """Return the captures in the current folder, the newest first; links that lead out of it are left out.

    Raises:
        CaptureError: there is none.
    """
    here = Path.cwd().resolve()
    newest_capture(here)
    begin_polars()
    from tracecorr.store import Capture

    inside = [path for path in list_captures(here) if path.resolve().is_relative_to(here)]
    inside.sort(key=lambda path: (path / "capture.json").stat().st_mtime_ns, reverse=True)
    captures = []
    for path in inside:
        try:
            captures.append(Capture.open(path))
        except CaptureError as problem:
            say(f"warning: {problem}")
    if not captures:
        raise CaptureError(f"no capture in {here} can be read", "name one")
    return captures


def _is_local(host: str) -> bool:
    return host in ("127.0.0.1", "localhost", "::1")


def _check_remote(host: str, port: int | None, *, allow_remote: bool, allow_root: bool) -> None:
    """Refuse to serve other machines unless the user insists: raw logs and traces are shown to whoever has the token.

    Raises:
        InputError: `--allow-remote`, or as root `--allow-root`, is missing.
    """
    number = port or _DEFAULT_PORT
    tunnel = (
        f"from the other machine: ssh -L {number}:127.0.0.1:{number} {socket.gethostname()}, "
        f"with `tracecorr serve --port {number}` here"
    )
    if not allow_remote:
        raise InputError(f"--host {host} would serve other machines", f"{tunnel}; or add --allow-remote")
    if os.geteuid() == 0 and not allow_root:
        raise InputError(f"--host {host} would serve other machines as root", f"{tunnel}; or add --allow-root")


def run_server(captures: list[Capture], host: str, port: int | None, no_browser: bool) -> None:
    """Serve captures until the user stops it; print the address on a line of its own."""
    free = _choose_port(host, port)

    from tracecorr.app.server import serve

    def on_ready(url: str) -> None:
        if os.geteuid() == 0:
            say("warning: this runs as root; any user who can read the capture can serve it")
        say(f"serving {', '.join(named)}; stop with Ctrl-C")
        typer.echo(url)
        sys.stdout.flush()
        if not no_browser and _has_desktop():
            webbrowser.open(url)

    named = _name_captures(captures)
    with ended_in_order():
        serve(named, host, free, on_ready)


def _name_captures(captures: list[Capture]) -> dict[str, Capture]:
    """Return the captures by name; those that share a name go by their path."""
    names = [c.name for c in captures]
    return {c.name if names.count(c.name) == 1 else str(c.path): c for c in captures}


def _choose_port(host: str, port: int | None) -> int:
    """Return a port that is free now: the wanted one, else the default or one of the next ten."""
    if port == 0:
        return 0
    for candidate in [port] if port else range(_DEFAULT_PORT, _DEFAULT_PORT + 11):
        if _is_free(host, candidate):
            return candidate
    if port is None:
        return 0
    raise InputError(f"port {port} of {host} is in use", "choose another one with --port, or --port 0 for any free one")


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError as error:
            raise InputError(
                f"no right to listen on port {port}: {error.strerror}", "choose one of 1024 or more, or --port 0"
            ) from error
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                raise InputError(f"--host {host} is not an address of this machine", "leave --host out") from error
            return False
    return True


def _has_desktop() -> bool:
    """Tell whether a browser would open a window: without a display it may take over the terminal."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
