"""What the page needs of a capture: a protocol, so that the page never depends on how it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import polars as pl


class CaptureLike(Protocol):
    """Describe a capture as the page sees it."""

    @property
    def name(self) -> str:
        """Return the name shown to the user."""
        ...

    @property
    def path(self) -> Path:
        """Return the capture folder."""
        ...

    @property
    def info(self) -> Mapping[str, Any]:
        """Return the contents of capture.json."""
        ...

    def table(self, name: str) -> pl.LazyFrame:
        """Return the table `name` of `model.schema.TABLES` (empty when the capture has none)."""
        ...

    def table_by_node(self, name: str) -> pl.LazyFrame:
        """Return a table with the column `node` where it is of several captures: their nodes, or sides of a pair."""
        ...

    def tables_of_nodes(self) -> Mapping[str, Callable[[str], pl.LazyFrame]]:
        """Return, by node of a dataset, what gives the node's rows of a table; nothing for a capture."""
        ...

    def raw(self, file: int, offset: int, length: int) -> bytes:
        """Return exactly the bytes behind a row."""
        ...

    def record_text(self, file: int, record: bytes) -> str:
        """Return a binary record with the names of its event and fields; "" where no format tells them."""
        ...

    def file_path(self, file: int) -> str:
        """Return the path of a raw file inside the capture folder."""
        ...

    def line_number(self, file: int, offset: int) -> int | None:
        """Return the line number (from 1) of an offset; None where the file has no lines."""
        ...
