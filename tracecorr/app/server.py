"""The page: Dash gives the frame and the stores, scripts in assets/ draw, plain routes deliver."""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from traceback import format_exception
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import dash
from dash import dcc, html
from flask import Flask, Request, Response, abort, redirect, request
from markdown_it import MarkdownIt
from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer, create_server
from werkzeug.exceptions import HTTPException

from tracecorr.app import ids
from tracecorr.app.captures import CaptureLike
from tracecorr.app.library import Library
from tracecorr.app.routes import add_routes
from tracecorr.bundled import list_topics, read_topic
from tracecorr.model.errors import InputError, TracecorrError
from tracecorr.model.printable import printable

_COOKIE = "tracecorr_token"  # and the port, see `_name_cookie`

_DOCUMENTS = "/help"

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def _new_token() -> str:
    """Return a fresh secret for one run of the server."""
    return secrets.token_urlsafe(24)


def _content_policy(script_hashes: Sequence[str]) -> str:
    """Return the Content-Security-Policy: own files only, no eval, no frames."""
    scripts = " ".join(["'self'", *script_hashes])
    return (
        f"default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; frame-ancestors 'none'; "
        "base-uri 'none'; object-src 'none'; form-action 'none'"
    )


def _protect(server: Flask, token: str, policy: str, hosts: list[str]) -> None:
    """Install the checks of every request and the headers of every answer."""
    server.config["TRUSTED_HOSTS"] = hosts

    @server.before_request
    def check() -> Any:
        first = _same(request.args.get("token", ""), token)
        _check_origin(request, may_come_from_elsewhere=first)
        if first:
            return _with_cookie(request, token)
        if not _same(request.cookies.get(_name_cookie(request.host), ""), token):
            abort(403, "open the URL that tracecorr serve printed")
        if request.method not in ("GET", "HEAD") and request.path != ids.NOTES:
            abort(405, "only notes can be sent")  # Dash would accept more, which this page does not use
        return None

    @server.after_request
    def harden(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        for name, value in _HEADERS.items():
            response.headers[name] = value
        return response


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _name_cookie(host: str) -> str:
    """Return the name of the cookie: browsers keep one jar for all ports of a host, and each may have its server.

    >>> _name_cookie("127.0.0.1:8051"), _name_cookie("[::1]:8050"), _name_cookie("localhost")
    ('tracecorr_token_8051', 'tracecorr_token_8050', 'tracecorr_token_80')
    """
    return f"{_COOKIE}_{urlsplit(f'//{host}').port or 80}"


def _check_origin(asked: Request, *, may_come_from_elsewhere: bool) -> None:
    origin = asked.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != asked.host:
        abort(403, "foreign origin")
    foreign = asked.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
    if foreign and not may_come_from_elsewhere:
        abort(403, "foreign site")


def _with_cookie(asked: Request, token: str) -> Response:
    rest = [(k, v) for k, v in asked.args.items(multi=True) if k != "token"]
    path = quote("/" + asked.path.lstrip("/"))  # no line break for a header, no host after a second slash
    answer = redirect(path + (f"?{urlencode(rest)}" if rest else ""))
    answer.set_cookie(_name_cookie(asked.host), token, httponly=True, samesite="Strict")
    assert isinstance(answer, Response)
    return answer


_THREADS = 8
# Connections that have not sent a whole request: who opens more loses the oldest ones; others do not wait.
_MOST_WAITING = 64
_LIMITS = {"connection_limit": 512, "channel_timeout": 30, "cleanup_interval": 5, "asyncore_use_poll": True}
_log = logging.getLogger(__name__)
# Dash's own, with the one module that it cannot load: it takes every script of the assets for a plain one.
_INDEX = """<!DOCTYPE html>
<html lang="en">
  <head>{%metas%}<title>{%title%}</title>{%favicon%}{%css%}<script type="module" src="/assets/start.js"></script></head>
  <body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body>
</html>"""


def make_app(captures: Mapping[str, CaptureLike], token: str | None = None, host: str = "127.0.0.1") -> dash.Dash:
    """Return the page for some captures.

    Args:
        captures: captures by the name under which `?capture=` selects them; the first is shown first.
        token: secret that the first request must carry (`?token=`); a fresh one when None.
        host: name or address under which the page is reached, besides the local ones.
    """
    app = dash.Dash(
        "tracecorr",
        assets_folder=str(Path(__file__).parent / "assets"),
        title="tracecorr",
        update_title="",
        serve_locally=True,
        index_string=_INDEX,
        assets_ignore=r".*\.js$",  # they are modules: the page loads start.js, which imports the others
        suppress_callback_exceptions=True,
    )
    app.layout = _layout()
    secret = token or _new_token()
    app.server.config["TRACECORR_TOKEN"] = secret
    hosts = list(dict.fromkeys(["127.0.0.1", "localhost", "[::1]", host]))
    _protect(app.server, secret, _content_policy(app.csp_hashes()), hosts)
    library = Library(captures)
    add_routes(app.server, library)
    app.server.add_url_rule(f"{_DOCUMENTS}/<topic>", "document", _show_document)
    app.server.register_error_handler(Exception, _plain_error)
    return app


def serve(
    captures: Mapping[str, CaptureLike],
    host: str = "127.0.0.1",
    port: int = 8050,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the page until interrupted.

    Args:
        captures: captures by name.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        on_ready: called with the URL (token included) once the port is open.
    """
    app = make_app(captures, host=host)
    sockets: dict[int, Any] = {}
    server = create_server(
        app.server, map=sockets, host=host, port=port, threads=_THREADS, ident=None,
        max_request_body_size=ids.MAX_NOTES_BYTES, **_LIMITS,
    )  # fmt: skip
    for one in [s for s in sockets.values() if isinstance(s, BaseWSGIServer)]:
        one.channel_class = _Channel
    shown = f"[{host}]" if ":" in host else host
    if on_ready is not None:
        on_ready(f"http://{shown}:{server.effective_port}/?token={app.server.config['TRACECORR_TOKEN']}")
    try:
        server.run()
    finally:
        server.close()


class _Channel(HTTPChannel):  # type: ignore[misc]
    """One connection; too many that wait for the rest of a request push out the oldest of their kind."""

    def __init__(self, server: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(server, *arguments, **options)
        waiting = [c for c in server.active_channels.values() if not c.requests and not c.will_close]
        if len(waiting) > _MOST_WAITING:
            min(waiting, key=lambda channel: channel.last_activity).will_close = True


def _named(label: str) -> dict[str, Any]:
    return {"aria-label": label}


def _layout() -> html.Div:
    """Return the frame of the page; the scripts fill it."""
    return html.Div(
        [
            # The scripts know these ids, too (assets/start.js, `IDS`).
            dcc.Store(id="tl-selection"),
            html.Header(id="tl-toolbar"),
            html.Nav(html.Div(id="tl-tabs")),
            html.Div(id="tl-findings"),
            html.Div(
                [
                    html.Aside(id="tl-side", tabIndex=-1, **_named("filters")),
                    html.Main(id="tl-canvas-host"),
                    html.Div(id="tl-card", role="region", **_named("range or lane")),
                ],
                id="tl-middle",
            ),
            html.Div(id="tl-page", role="main"),
            html.Div(id="tl-detail"),
            html.Section(id="tl-status", **_named("legend and messages")),
            html.Div(id="tl-help", role="dialog", **_named("documents and keys")),
        ],
        id="tl-root",
    )


_DOCUMENT = """<!DOCTYPE html>
<html lang="en" data-theme="{theme}">
  <head><meta charset="utf-8"><title>{topic} · tracecorr</title><link rel="stylesheet" href="/assets/style.css"></head>
  <body class="tl-document"><main>{text}</main></body>
</html>"""


def _show_document(topic: str) -> str:
    """Answer a document of the package; its links to others lead to these as they are served here."""
    try:
        text = read_topic(topic)
    except InputError as problem:
        abort(404, str(problem))
    theme = "dark" if request.args.get("theme") == "dark" else "light"
    for name, path in list_topics().items():
        text = re.sub(rf"\]\([./\w]*\b{re.escape(Path(path).name)}", f"]({name}?theme={theme}", text)
    text = re.sub(r"\[([^]]*)\]\([./\w]*\.md\)", r"\1", text)  # of the checkout alone
    shown = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    shown = shown.replace("<pre>", '<pre tabindex="0">')  # scrolled by keys, too
    return _DOCUMENT.format(theme=theme, topic=topic, text=shown)


def _plain_error(problem: Exception) -> Response:
    """Answer with one line of text, never with a traceback."""
    if isinstance(problem, HTTPException):
        return Response(f"{problem.description}\n", problem.code or 500, mimetype="text/plain")
    if isinstance(problem, TracecorrError):
        said = "\n".join(filter(None, (problem.what, problem.next_step)))
        return Response(f"{said}\n", 409, mimetype="text/plain")
    if isinstance(problem, dash.exceptions.DependencyException):
        return Response("no such file\n", 404, mimetype="text/plain")
    _log.error("request failed: %s", printable("".join(format_exception(problem)), keep="\n"))
    return Response("tracecorr failed to answer; the server's log says why\n", 500, mimetype="text/plain")
