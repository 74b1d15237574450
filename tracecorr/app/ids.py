"""Every name that Python and the scripts in assets/ share: element ids, routes, limits, colours."""

from __future__ import annotations

# Elements of the page. The scripts use the same literals (assets/start.js, `IDS`).
ROOT = "tl-root"
TOOLBAR = "tl-toolbar"
CANVAS_HOST = "tl-canvas-host"
DETAIL = "tl-detail"
STATUS = "tl-status"
TABS = "tl-tabs"
MIDDLE = "tl-middle"
PAGE = "tl-page"
SIDE = "tl-side"
CARD = "tl-card"
HELP = "tl-help"
SELECTION = "tl-selection"  # dcc.Store: the selected event, for callbacks of other panels

CAPTURES, META, SPANS, CHAIN = "/api/captures", "/api/meta", "/api/spans", "/api/chain"
EVENT, SEARCH, TICKS = "/api/event", "/api/search", "/api/ticks"
PAGE_DATA, EXPORT, LIVE = "/api/page", "/api/export", "/api/live"
FILTER, COUNT, STEP, BRIEF, NOTES = "/api/filter", "/api/count", "/api/step", "/api/brief", "/api/notes"
SAME = "/api/same"

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
MAX_RAW_STAGES = 60
MAX_BANKS = 16  # registers of one queue: one bank on each XCC
MAX_RAW_BYTES = 6000

# Okabe-Ito and shades of it: safe for colour-blind readers.
COLOURS = {
    "hip": "#0072B2",
    "command": "#56B4E9",
    "signal": "#8F8A2E",
    "memory": "#6F7F94",
    "hsa": "#3A8FC2",
    "syscall": "#7A7A7A",
    "ioctl": "#D55E00",
    "kfd": "#A84A00",
    "mqd": "#CC79A7",
    "doorbell": "#E6A817",
    "aql": "#009E73",
    "gpu": "#00795A",
    "copy": "#56B4E9",
    "depth": "#4C8F7C",
    "sample": "#6E7FA8",
    "scheduler": "#B5651D",
    "drm_wait": "#C79AB2",
    "drm_run": "#9A4F78",
    "drm_sched": "#9A4F78",
    "amdgpu": "#8C6D1F",
    "hqd": "#5A5AA8",
    "smi": "#B22222",
    "sched": "#9AA0A6",
    "marker": "#B8A800",
    "other": "#8A8A8A",
}
