"""A dataset of many nodes on the page: the owners of its lanes name their node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tracecorr.store import Capture
from tracecorr.store.keys import KEYS


class Nodes:
    """Show a dataset of many nodes (see `source.CaptureLike`).

    Args:
        capture: the dataset.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    @property
    def name(self) -> str:
        """Return the name shown to the user."""
        return self._capture.name

    @property
    def path(self) -> Path:
        """Return the dataset's folder."""
        return self._capture.path

    @property
    def info(self) -> Mapping[str, Any]:
        """Return the contents of capture.json."""
        return self._capture.info

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table; owners of lanes have their node as `side`, and the number that they have in its capture."""
        key = next((key for key, table in KEYS.items() if table == name), None)
        if key is None:
            return self._capture.table(name)
        used = {str(node["node"]): int(node["used"][name]) for node in self._capture.info["nodes"]}
        before = pl.col("node").replace_strict(used, return_dtype=pl.Int64)
        rows = self._capture.table_by_node(name).with_columns(own=pl.col(key).cast(pl.Int64) - before)
        return rows.rename({"node": "side"})

    def table_by_node(self, name: str) -> pl.LazyFrame:
        """Return a table with the column `node`."""
        return self._capture.table_by_node(name)

    def tables_of_nodes(self) -> Mapping[str, Callable[[str], pl.LazyFrame]]:
        """Return, by node, what gives the node's rows of a table."""
        return self._capture.tables_of_nodes()

    def raw(self, file: int, offset: int, length: int) -> bytes:
        """Return exactly the bytes behind a row."""
        return self._capture.raw(file, offset, length)

    def record_text(self, file: int, record: bytes) -> str:
        """Return a binary record with the names of its event and fields; "" where no format tells them."""
        return self._capture.record_text(file, record)

    def file_path(self, file: int) -> str:
        """Return the path of a raw file behind its capture's."""
        return self._capture.file_path(file)

    def line_number(self, file: int, offset: int) -> int | None:
        """Return the line number (from 1) of an offset; None where the file has no lines."""
        return self._capture.line_number(file, offset)
