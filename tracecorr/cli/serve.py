"""The verb `serve`: the timeline of captures in a browser."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracecorr.cli.console import open_capture, say
from tracecorr.model.errors import InputError

if TYPE_CHECKING:
    from tracecorr.store import Capture

DEFAULT_PORT = 8050

PortOption = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help=f"Port; 0 = any free one. Without it {DEFAULT_PORT}, or a free one near it."),
]
HostOption = Annotated[str, typer.Option(help="Address to listen at; the default serves this machine only.")]
NoBrowserOption = Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")]


def serve_verb(
    names: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[NAME...]", help="Capture folders; without them the newest in the current folder."),
    ] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    no_browser: NoBrowserOption = False,
) -> None:
    """Show the timeline of one capture or more in the browser, until Ctrl-C."""
    captures = [open_capture(name) for name in names] if names else [open_capture(None)]
    run_server(captures, host, port, no_browser)


def run_server(captures: list[Capture], host: str, port: int | None, no_browser: bool) -> None:
    """Serve captures until the user stops it."""
    free = _choose_port(host, port)

    from tracecorr.app import serve

    def on_ready(url: str) -> None:
        typer.echo(f"serving {', '.join(named)} at {url}")
        sys.stdout.flush()
        say("stop with Ctrl-C")
        if not no_browser and _has_desktop():
            webbrowser.open(url)

    named = _name_captures(captures)
    serve(named, host, free, on_ready)


def _name_captures(captures: list[Capture]) -> dict[str, Capture]:
    """Return the captures by name; those that share a name go by their path."""
    names = [c.name for c in captures]
    return {c.name if names.count(c.name) == 1 else str(c.path): c for c in captures}


def _choose_port(host: str, port: int | None) -> int:
    """Return a port that is free now: the wanted one, else the default or one of the next ten."""
    if port == 0:
        return 0
    for candidate in [port] if port else range(DEFAULT_PORT, DEFAULT_PORT + 11):
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
        except PermissionError:
            return False
        except OSError as error:
            if isinstance(error, socket.gaierror):
                raise InputError(f"--host {host} is no address of this machine", "leave --host out") from error
            return False
    return True


def _has_desktop() -> bool:
    """Tell whether a browser would open a window: without a display it may take over the terminal."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
