"""Record and read what really happens between a HIP call and AMD GPU hardware.

    cap = tracecorr.open_capture("gemm.tracecorr")
    cap.launches.filter(...).collect()      # lazy frames of all tables
    cap.chain(event)                        # the path of one launch
    cap.figure.timeline(0, 20_000_000)      # charts

Everything is imported when it is first used, so that the command line starts quickly.
"""

from __future__ import annotations

from importlib import import_module

# Without the module `typing`, which takes longer to load than all this: Ctrl-C shows a traceback until it is done.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tracecorr.api import Capture, open_capture, open_sample
    from tracecorr.model.errors import CaptureError, InputError, MachineError, TracecorrError

__version__ = "0.1.0"

__all__ = [
    "Capture",
    "CaptureError",
    "InputError",
    "MachineError",
    "TracecorrError",
    "__version__",
    "open_capture",
    "open_sample",
]

_HOMES = {"Capture": "tracecorr.api", "open_capture": "tracecorr.api", "open_sample": "tracecorr.api"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tracecorr' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "tracecorr.model.errors")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
