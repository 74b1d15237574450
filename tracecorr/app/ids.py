"""Names that several modules and the scripts in assets/ share: routes and limits."""

from __future__ import annotations

CAPTURES, META, SPANS = "/api/captures", "/api/meta", "/api/spans"
EVENT, APART, SEARCH, TICKS = "/api/event", "/api/apart", "/api/search", "/api/ticks"
PAGE_DATA, EXPORT, LIVE = "/api/page", "/api/export", "/api/live"
FILTER, COUNT, STEP, BRIEF, NOTES = "/api/filter", "/api/count", "/api/step", "/api/brief", "/api/notes"
SAME, FINDINGS, LIST = "/api/same", "/api/findings", "/api/list"
TABLE, SQL = "/api/table", "/api/sql"


MAX_NOTES_BYTES = 1_500_000
MAX_STAGES = 500
