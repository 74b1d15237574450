"""Frames that stages hand to each other are what they are declared as."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.model import frames
from tracecorr.model.frames import FRAMES, gives

_PACKAGE = Path(frames.__file__).parents[1]


def test_what_a_function_gives_has_the_declared_columns_and_types() -> None:
    @gives(frames.QUEUES_OF_EVENTS)
    def find(found: pl.DataFrame) -> pl.DataFrame:
        return found

    given = find(pl.DataFrame({"queue": [7], "more": ["x"], "event": [3]}))
    assert given.schema == frames.QUEUES_OF_EVENTS.schema
    assert given.rows() == [(3, 7)]
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        find(pl.DataFrame({"event": [3]}))


def test_every_declared_frame_is_given_by_some_function() -> None:
    code = "".join(path.read_text() for path in _PACKAGE.rglob("*.py") if path.name != "frames.py")
    names = [name for name, value in vars(frames).items() if any(value is frame for frame in FRAMES)]
    assert len(names) == len({frame.name for frame in FRAMES}) == len(FRAMES)
    unused = [n for n in names if not any(text in code for text in (f"gives(frames.{n})", f"gives({n})", f"{n}.take("))]
    assert unused == []
