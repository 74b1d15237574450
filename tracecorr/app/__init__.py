"""The timeline in the browser: a Dash page around one canvas, fed by a binary route."""

from tracecorr.app.captures import CaptureLike
from tracecorr.app.server import make_app, serve

__all__ = ["CaptureLike", "make_app", "serve"]
