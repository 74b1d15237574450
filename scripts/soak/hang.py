"""Let `tracecorr hang` judge each scene of tests/rigs/test_hang.py many times on the null GPU, and count right answers.

Needs root, TRACECORR_RIGS and NULLGPU_CACHE, as those tests do. A wrong answer is printed, and ends with status 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

_REPO = Path(__file__).resolve().parents[2]
_TIMES = 20


def main(words: list[str]) -> int:
    """Judge; return 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(prog="scripts/soak/run hang", description=__doc__)
    parser.add_argument("--times", type=int, default=_TIMES, help=f"rounds of each scene; default {_TIMES}")
    parser.add_argument("--scene", help="only this one")
    options = parser.parse_args(words)
    sys.path.insert(0, str(_REPO / "tests" / "rigs"))
    from rig import NullGpu
    from test_hang import SCENES, judge_scene_once

    rig = NullGpu(Path(os.environ["TRACECORR_RIGS"]) / "nullgpu", Path(os.environ["NULLGPU_CACHE"]))
    is_wrong = False
    for name in SCENES if options.scene is None else [options.scene]:
        right = 0
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(options.times):
                fault = judge_scene_once(rig, name, Path(folder))
                right += not fault
                if fault:
                    print(f"{name}: {fault}", file=sys.stderr)
        print(f"{name}: {right} of {options.times}", flush=True)
        is_wrong |= right < options.times
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
