"""The capture folder: raw files, parts and tables on disk.

All but the names of folders is imported when it is first used, so that the command line starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tracecorr.store.folder_names import list_captures, named_folder, newest_capture

if TYPE_CHECKING:
    from tracecorr.store.capture import Capture, write_info, write_tables

__all__ = ["Capture", "list_captures", "named_folder", "newest_capture", "write_info", "write_tables"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("tracecorr.store.capture"), name)
