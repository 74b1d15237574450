"""Every name that Python and the scripts in assets/ share: element ids, routes, limits, colours."""

from __future__ import annotations

# Elements of the page. The scripts use the same literals (assets/start.js, `IDS`).
ROOT = "tl-root"
TOOLBAR = "tl-toolbar"
CANVAS_HOST = "tl-canvas-host"
DETAIL = "tl-detail"
STATUS = "tl-status"
TABS = "tl-tabs"
FINDINGS_BAR = "tl-findings"
MIDDLE = "tl-middle"
PAGE = "tl-page"
SIDE = "tl-side"
CARD = "tl-card"
HELP = "tl-help"
SELECTION = "tl-selection"  # dcc.Store: the selected event, for callbacks of other panels

CAPTURES, META, SPANS = "/api/captures", "/api/meta", "/api/spans"
EVENT, APART, SEARCH, TICKS = "/api/event", "/api/apart", "/api/search", "/api/ticks"
PAGE_DATA, EXPORT, LIVE = "/api/page", "/api/export", "/api/live"
FILTER, COUNT, STEP, BRIEF, NOTES = "/api/filter", "/api/count", "/api/step", "/api/brief", "/api/notes"
SAME, FINDINGS, LIST = "/api/same", "/api/findings", "/api/list"
TABLE, SQL = "/api/table", "/api/sql"
DOCUMENTS = "/help"

COOKIE = "tracecorr_token"  # and the port, see `guard.name_cookie`

MAX_WIDTH_PX = 8000
MAX_LANES = 20_000
MAX_FILTER_CHARS = 2000
MAX_NOTES_BYTES = 1_500_000
MAX_QUERY_CHARS = 200
MAX_PATH_CHARS = 5000
MAX_LANE_CHARS = 40_000
MAX_STAGES = 500
MAX_STREAMS = 2000
MAX_LISTED = 1000
MAX_SQL_CHARS = 4000
MAX_RAW_STAGES = 60
MAX_BANKS = 16  # registers of one queue: one bank on each XCC
MAX_RAW_BYTES = 6000
