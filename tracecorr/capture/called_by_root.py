"""How root calls the tracecorr that runs."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

# Where sudo searches on Debian and Ubuntu (`secure_path` of sudoers), whatever the PATH of the user says.
_SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def call_as_root(words: str) -> str:
    """Return the command line that calls tracecorr with some words as root; in full where sudo would not find it."""
    if shutil.which("tracecorr", path=_SEARCHED):
        return f"sudo tracecorr {words}"
    called = Path(sys.argv[0])
    if called.name == "tracecorr" and called.exists():
        return f"sudo {shlex.quote(str(called.absolute()))} {words}"
    return f"sudo {shlex.quote(sys.executable)} -m tracecorr {words}"
