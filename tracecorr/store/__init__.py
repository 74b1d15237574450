"""The capture folder: raw files, parts and tables on disk."""

from tracecorr.store.capture import Capture, list_captures, named_folder, newest_capture, write_info, write_tables

__all__ = ["Capture", "list_captures", "named_folder", "newest_capture", "write_info", "write_tables"]
