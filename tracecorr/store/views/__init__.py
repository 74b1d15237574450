"""What the timeline draws, kept in the capture (`views/`): lanes, drawn records, and their levels of detail."""

from tracecorr.store.views.build import DRAWN_COLUMNS, Views, build_views
from tracecorr.store.views.files import drop_views, read_views, write_views

__all__ = ["DRAWN_COLUMNS", "Views", "build_views", "drop_views", "read_views", "write_views"]
