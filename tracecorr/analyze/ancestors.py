"""Which ioctl encloses a row?"""

from __future__ import annotations

import numpy as np
import polars as pl


def find_enclosing_ioctls(events: pl.DataFrame) -> pl.DataFrame:
    """Return, per row, the nearest ioctl that encloses it.

    Args:
        events: rows with event, parent and layer (text); a parent that is not among them ends the climb.

    Returns: event, ioctl (an event); rows without one, and ioctls themselves, are left out.
    """
    places = events.select("event").with_row_index("place")
    above = events.select("event", "parent", top=pl.col("layer") == "ioctl").join(
        places, left_on="parent", right_on="event", how="left", maintain_order="left"
    )
    here = np.arange(events.height)
    top = above["top"].fill_null(False).to_numpy()
    parents = np.where(top, here, above["place"].cast(pl.Int64).fill_null(-1).to_numpy())
    parents = np.where(parents < 0, here, parents)
    # Each round doubles the height climbed; an ioctl and a root point at themselves.
    for _ in range(64):
        higher = parents[parents]
        if np.array_equal(higher, parents):
            break
        parents = higher
    found = top[parents] & (parents != here)
    names = events["event"].to_numpy()
    return pl.DataFrame(
        {"event": names[found], "ioctl": names[parents[found]]}, schema={"event": pl.Int64, "ioctl": pl.Int64}
    )
