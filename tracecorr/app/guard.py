"""Who may talk to the page: a token that becomes a strict cookie, own host and origin only, tight headers."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from flask import Flask, Request, Response, abort, redirect, request

from tracecorr.app import ids

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def new_token() -> str:
    """Return a fresh secret for one run of the server."""
    return secrets.token_urlsafe(24)


def content_policy(script_hashes: Sequence[str]) -> str:
    """Return the Content-Security-Policy: own files only, no eval, no frames."""
    scripts = " ".join(["'self'", *script_hashes])
    return (
        f"default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; frame-ancestors 'none'; "
        "base-uri 'none'; object-src 'none'; form-action 'none'"
    )


def protect(server: Flask, token: str, policy: str, hosts: list[str]) -> None:
    """Install the checks of every request and the headers of every answer."""
    server.config["TRUSTED_HOSTS"] = hosts

    @server.before_request
    def check() -> Any:
        first = _same(request.args.get("token", ""), token)
        _check_origin(request, may_come_from_elsewhere=first)
        if first:
            return _with_cookie(request, token)
        if not _same(request.cookies.get(name_cookie(request.host), ""), token):
            abort(403, "open the URL that tracecorr serve printed")
        if request.method not in ("GET", "HEAD") and request.path != ids.NOTES:
            abort(405, "only notes can be sent")  # Dash would take more, of which this page uses nothing
        return None

    @server.after_request
    def harden(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        for name, value in _HEADERS.items():
            response.headers[name] = value
        return response


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def name_cookie(host: str) -> str:
    """Return the name of the cookie: browsers keep one jar for all ports of a host, and each may have its server.

    >>> name_cookie("127.0.0.1:8051"), name_cookie("[::1]:8050"), name_cookie("localhost")
    ('tracecorr_token_8051', 'tracecorr_token_8050', 'tracecorr_token_80')
    """
    return f"{ids.COOKIE}_{urlsplit(f'//{host}').port or 80}"


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
    answer.set_cookie(name_cookie(asked.host), token, httponly=True, samesite="Strict")
    assert isinstance(answer, Response)
    return answer
