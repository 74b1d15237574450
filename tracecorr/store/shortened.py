"""Raw files that are shorter than they were when the capture was made: its folder was not copied whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tracecorr.model import schema
from tracecorr.model.reasons import MISSING_BYTES
from tracecorr.store.raw import find_compression


def list_missing_bytes(root: Path, files: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Return a row of `ledger` for each raw file whose end is not there any more.

    A compressed one is left out: it does not decompress without its end.

    Args:
        root: the capture folder.
        files: the entries `files` of capture.json.
    """
    paths = [(entry, root / entry["path"]) for entry in files]
    rows = [
        {"file": entry["file"], "source": entry["source"], "bytes": entry["size"] - path.stat().st_size}
        for entry, path in paths
        if path.is_file() and not find_compression(path)
    ]
    found = pl.DataFrame(rows, schema={"file": pl.Int64, "source": pl.String, "bytes": pl.Int64})
    lacking = found.filter(pl.col("bytes") > 0)
    return schema.LEDGER.conform(lacking.with_columns(outcome=pl.lit("lost"), reason=pl.lit(MISSING_BYTES), records=0))
