"""What the page shows: a capture, a dataset of many nodes, or two captures on one axis of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from tracecorr.store import Capture
from tracecorr.store.fleet import KEYS, count_keys, move_table

# What of the two captures is put at the same time.
ANCHORS = {"start": "the first events", "packet": "the first packets"}


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
        """Return the line number (from 1) of an offset; None if the file has no lines."""
        ...


class Nodes(Capture):
    """Show a dataset of many nodes: the owners of its lanes name their node.

    Args:
        capture: the dataset.
    """

    def __init__(self, capture: Capture) -> None:
        super().__init__(capture.path, capture.info)

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table; owners of lanes have their node as `side`, and the number that they have in its capture."""
        key = next((key for key, table in KEYS.items() if table == name), None)
        if key is None:
            return super().table(name)
        used = {str(node["node"]): int(node["used"][name]) for node in self.info["nodes"]}
        before = pl.col("node").replace_strict(used, return_dtype=pl.Int64)
        rows = self.table_by_node(name).with_columns(own=pl.col(key).cast(pl.Int64) - before)
        return rows.rename({"node": "side"})


class Pair:
    """Show two captures as one (see `source.CaptureLike`); A keeps its times."""

    def __init__(self, first: CaptureLike, second: CaptureLike, anchor: str) -> None:
        """Put B beside A.

        Args:
            first: capture A.
            second: capture B.
            anchor: one of `ANCHORS`.

        Raises:
            ValueError: there is no such anchor.
        """
        if anchor not in ANCHORS:
            raise ValueError(f"captures are put together at {', '.join(ANCHORS)}")
        self._sides = (first, second)
        self._anchor = anchor

    @property
    def name(self) -> str:
        """Return the name shown to the user."""
        return f"A {self._sides[0].name} + B {self._sides[1].name}"

    @property
    def path(self) -> Path:
        """Return a path that does not exist: nothing of a pair is stored."""
        return self._sides[0].path / "pair"

    @property
    def info(self) -> Mapping[str, Any]:
        """Return the warnings of both."""
        sides = zip("AB", self._sides, strict=True)
        warnings = [f"{side}: {text}" for side, c in sides for text in c.info.get("warnings") or []]
        return {"warnings": warnings}

    def table(self, name: str) -> pl.LazyFrame:
        """Return the rows of A, then those of B with keys and times moved; owners of lanes name their side."""
        first, second = (capture.table(name) for capture in self._sides)
        frames = [first, move_table(second, name, self._sizes, self._shift)]
        if name in KEYS.values():
            key = next(k for k, table in KEYS.items() if table == name)
            own = [f.select(pl.col(key).alias("own")) for f in (first, second)]
            frames = [
                pl.concat([f, o], how="horizontal").with_columns(side=pl.lit(side))
                for f, o, side in zip(frames, own, "AB", strict=True)
            ]
        both = pl.concat(frames, how="vertical")
        return both.sort("ts_ns", maintain_order=True) if name == "samples" else both

    def table_by_node(self, name: str) -> pl.LazyFrame:
        """Return the rows of A, then those of B, with their side, and node if it is a dataset, as `node`."""
        first, second = (capture.table_by_node(name) for capture in self._sides)
        sided = []
        frames = (first, move_table(second, name, self._sizes, self._shift))
        for side, rows in zip("AB", frames, strict=True):
            node = ["node"] if "node" in rows.collect_schema() else []
            sided.append(rows.with_columns(node=pl.concat_str(pl.lit(side), *node, separator=" ")))
        return pl.concat(sided, how="vertical")

    def tables_of_nodes(self) -> Mapping[str, Callable[[str], pl.LazyFrame]]:
        """Return nothing: the sides of a pair are no nodes."""
        return {}

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """Return by table the first free key of A."""
        return count_keys(self._sides[0].table)

    @cached_property
    def _shift(self) -> int:
        """Return the ns to add to the times of B."""
        a, b = (self._anchor_of(capture) for capture in self._sides)
        return 0 if a is None or b is None else a - b

    def _anchor_of(self, capture: CaptureLike) -> int | None:
        packets = capture.table("launches").select(pl.col("packet_ns").min()).collect().item()
        return int(packets) if self._anchor == "packet" and packets is not None else _first_ns(capture)

    def begins_with(self) -> str:
        """Return the side whose first event is the first of the pair: A, B, or both."""
        a, b = (_first_ns(capture) for capture in self._sides)
        if a is None or b is None:
            return "A" if b is None else "B"
        return "both" if a == b + self._shift else min((a, "A"), (b + self._shift, "B"))[1]

    def moved_ns(self) -> pl.Expr:
        """Return the ns by which the time of each row of `events` is moved here from its own capture's."""
        return pl.when(pl.col("event") >= self._sizes["events"]).then(self._shift).otherwise(0)

    def raw(self, file: int, offset: int, length: int) -> bytes:
        """Return exactly the bytes behind a row."""
        capture, own = self._owner(file)
        return capture.raw(own, offset, length)

    def record_text(self, file: int, record: bytes) -> str:
        """Return a binary record with the names of its event and fields; "" where no format tells them."""
        capture, own = self._owner(file)
        return capture.record_text(own, record)

    def file_path(self, file: int) -> str:
        """Return the path of a raw file inside its capture, after the letter of the side."""
        capture, own = self._owner(file)
        # By number, not by capture: a capture may stand beside itself.
        side = "A" if file < self._sizes["files"] else "B"
        return f"{side}: {capture.file_path(own)}"

    def line_number(self, file: int, offset: int) -> int | None:
        """Return the line number (from 1) of an offset; None if the file has no lines."""
        capture, own = self._owner(file)
        return capture.line_number(own, offset)

    def _owner(self, file: int) -> tuple[CaptureLike, int]:
        free = self._sizes["files"]
        return (self._sides[0], file) if file < free else (self._sides[1], file - free)


def _first_ns(capture: CaptureLike) -> int | None:
    first = capture.table("events").select(pl.col("ts_ns").min()).collect().item()
    return None if first is None else int(first)


def tell_zero(capture: CaptureLike) -> str:
    """Return what is at 0 on the axis of time: the start, of a pair that of the side that begins first."""
    return f"start of {capture.begins_with()}" if isinstance(capture, Pair) else "start"


def tell_own_times(capture: CaptureLike) -> pl.Expr:
    """Return what `ts_ns` of each row of `events` is on its own host's clock."""
    return pl.col("ts_ns") - capture.moved_ns() if isinstance(capture, Pair) else pl.col("ts_ns")
