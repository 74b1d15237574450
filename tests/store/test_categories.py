"""Categories are read by the dictionaries of their file as polars reads them row by row."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from tracecorr.model.columns import CAT
from tracecorr.store import parquet
from tracecorr.store.parquet import read_categories


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write each frame as a group of rows."""
    monkeypatch.setattr(parquet, "_GROUP_ROWS", 1)


@pytest.mark.parametrize(
    "groups", [
        pytest.param([["a", "b"], ["c", "a", "a"]], id="other texts in each group"),
        pytest.param([["a", None], [None, None], ["b", "a"]], id="a group without any"),
        pytest.param([[None, "a"], ["a"]], id="one text, and nulls"),
        pytest.param([["", "x" * 300], [""]], id="an empty text"),
        pytest.param([[f"name {n}" for n in range(2000)]] * 2, id="many texts"),
    ],
)  # fmt: skip
def test_categories_are_those_that_were_written(tmp_path: Path, groups: list[list[str | None]]) -> None:
    files = [_write(tmp_path / f"{n}.parquet", part) for n, part in enumerate((groups[:1], groups[1:]))]
    expected = pl.Series("name", [text for group in groups for text in group], CAT)
    found = read_categories([pq.ParquetFile(file) for file in files], "name")
    assert isinstance(found, pl.Series)
    assert found.dtype == CAT
    assert found.n_chunks() == 1
    assert found.equals(expected, check_dtypes=True, check_names=True)


@pytest.mark.parametrize(
    ("groups", "value"), [([["a", "a"], ["a"]], "a"), ([[None], [None, None]], None), ([[]], None)]
)
def test_one_value_throughout_takes_no_memory(
    tmp_path: Path, groups: list[list[str | None]], value: str | None
) -> None:
    found = read_categories([pq.ParquetFile(_write(tmp_path / "one.parquet", groups))], "name")
    assert isinstance(found, pl.Expr)
    rows = pl.DataFrame(height=3).with_columns(found)
    assert rows.schema == {"name": CAT}
    assert rows["name"].to_list() == [value] * 3


def _write(path: Path, groups: list[list[str | None]]) -> Path:
    with parquet.FrameWriter(path) as writer:
        for group in groups:
            writer.write(pl.DataFrame({"name": group}, schema={"name": CAT}))
    return path
