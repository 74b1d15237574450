"""Which row of a kind encloses a row?"""

from __future__ import annotations

import numpy as np
import polars as pl


def find_enclosing(events: pl.DataFrame, layer: str) -> pl.DataFrame:
    """Return, per row, the nearest row of `layer` that encloses it.

    Args:
        events: rows with event, parent and layer (text); a parent that is not among them ends the climb.
        layer: layer of the rows wanted.

    Returns: event, enclosing (an event of `layer`); rows without one, and rows of `layer` itself, are left out.
    """
    places = events.select("event").with_row_index("place")
    above = events.select("event", "parent", top=pl.col("layer") == layer).join(
        places, left_on="parent", right_on="event", how="left", maintain_order="left"
    )
    here = np.arange(events.height)
    top = above["top"].fill_null(False).to_numpy()
    parents = np.where(top, here, above["place"].cast(pl.Int64).fill_null(-1).to_numpy())
    parents = np.where(parents < 0, here, parents)
    # Each round doubles the height climbed; a row of `layer` and a root point at themselves.
    for _ in range(64):
        higher = parents[parents]
        if np.array_equal(higher, parents):
            break
        parents = higher
    found = top[parents] & (parents != here)
    names = events["event"].to_numpy()
    return pl.DataFrame(
        {"event": names[found], "enclosing": names[parents[found]]}, schema={"event": pl.Int64, "enclosing": pl.Int64}
    )
