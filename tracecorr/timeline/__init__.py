"""What the timeline draws, kept in the capture (`views/`): lanes, drawn records, and their levels of detail."""

from tracecorr.timeline.build import Views, build_views, list_drawn_columns
from tracecorr.timeline.files import drop_views, read_views, write_views

__all__ = ["Views", "build_views", "drop_views", "list_drawn_columns", "read_views", "write_views"]
