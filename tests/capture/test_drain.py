"""The drain moves whole pages as they fill and rests in between, also where the kernel always says "ready"."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracecorr.capture.drain import Drain, list_cpus
from tracecorr.capture.owner import PREFIX, new_token
from tracecorr.capture.tracefs import Tracefs

_SECONDS = 0.5


@pytest.fixture
def instance(tracefs: Tracefs) -> Iterator[Tracefs]:
    """Return an instance whose buffers are ready from their first record on, as those of older kernels are."""
    made = tracefs.instance(f"{PREFIX}{new_token()}_drain")
    made.root.mkdir()
    if not made.has("buffer_percent"):
        made.root.rmdir()
        pytest.skip("this kernel has no buffer_percent")
    made.write("buffer_percent", "0")
    made.write("tracing_on", "1")
    yield made
    made.root.rmdir()


def test_a_buffer_that_is_ready_without_a_whole_page_is_not_asked_again_and_again(
    instance: Tracefs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    splice = os.splice

    def counted(*words: Any, **named: Any) -> int:
        asked.append(time.monotonic())
        return splice(*words, **named)

    monkeypatch.setattr(os, "splice", counted)
    drain = Drain({"x": instance.root}, lambda _, cpu: (tmp_path / f"{cpu}").open("wb", buffering=0))
    instance.write("trace_marker", "half a page")
    start = time.monotonic()
    drain.start()
    time.sleep(_SECONDS)
    drain.stop()
    took = time.monotonic() - start
    drain.close()
    cpus = list_cpus(instance.root)
    assert sum((tmp_path / f"{cpu}").read_bytes().count(b"half a page") for cpu in cpus) == 1
    # Once per sweep and CPU, and once per pause for the one that is ready.
    assert len(asked) < (took / 0.2 + 2) * len(cpus) + took / 0.01 + 10


def test_all_that_fills_a_buffer_while_it_rests_is_written(instance: Tracefs, tmp_path: Path) -> None:
    instance.write("buffer_size_kb", "1024")
    drain = Drain({"x": instance.root}, lambda _, cpu: (tmp_path / f"{cpu}").open("wb", buffering=0))
    drain.start()
    for number in range(2000):
        instance.write("trace_marker", f"mark {number:06} " + "x" * 200)
    drain.stop()
    drain.close()
    data = b"".join((tmp_path / f"{cpu}").read_bytes() for cpu in list_cpus(instance.root))
    assert [number for number in range(2000) if b"mark %06d " % number not in data] == []
