"""Packet indexes by doorbells: what threads stored, where the log prints no index and packets could not be counted."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import IS_PACKET, attach_columns

_WRITER, _RING = ["process", "thread", "ring"], ["process", "ring"]
_COLUMNS = ("stamp_ns", "file", "offset", "packet_index", "layer", "name", *_WRITER)


def check_indexes(records: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with the packet indexes that doorbell stores tell, and without those that they disprove.

    A thread stores each packet's index to the ring's doorbell in the order in which it prints the packets. Where it
    stored as often as it printed between two packets whose stores are known, each store is that of one packet. Where it
    stored an index that it has no packet of, packets of the ring were lost: none of its counts holds, nor any of its
    log's rings whose stores are not known; nor do these where a thread stored to unknown rings more often than it
    printed packets that may be there. No clock is needed. A ring that was made again tells no
    further index.

    Args:
        records: part events with `source`, `process`, `thread`, `index_counted`, and the ring of doorbell stores.
    """
    if not (records["layer"] == "doorbell").any():
        return records
    rows = records.select(*_COLUMNS, "source", "index_counted").with_row_index("_row").drop_nulls(["process", "thread"])
    lines = rows.filter(IS_PACKET & (pl.col("source") == "amd_log")).drop_nulls("ring")
    stores = rows.filter(pl.col("layer") == "doorbell").drop_nulls("packet_index")
    asked = lines.filter(pl.col("index_counted") | pl.col("packet_index").is_null()).select(_RING).unique()
    if asked.is_empty() or stores.is_empty():
        return records
    overstored = _list_overstored(lines, stores)
    lines, stores = lines.join(asked, on=_RING, how="semi"), stores.join(asked, on=_RING, how="semi")
    short = _list_short(lines, stores)
    wrong = _list_miscounted(lines, stores, short, overstored)
    whole = lines.join(short, on=_RING, how="anti")
    told = _lay_beside(whole.sort("file", "offset"), stores.sort("stamp_ns", maintain_order=True))
    none, found = wrong.select("_row", stored=pl.lit(None, pl.Int64)), told.cast({"stored": pl.Int64})
    return _set_indexes(records, pl.concat([none, found]))


def _set_indexes(records: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    if found.is_empty():
        return records
    joined = attach_columns(records, found.with_columns(is_set=pl.lit(value=True)), "_row")
    is_set = pl.col("is_set").is_not_null()
    return joined.with_columns(
        packet_index=pl.when(is_set).then("stored").otherwise("packet_index"),
        index_counted=pl.when(is_set).then(pl.col("stored").is_not_null()).otherwise("index_counted"),
    ).drop("stored", "is_set")


def _list_short(lines: pl.DataFrame, stores: pl.DataFrame) -> pl.DataFrame:
    """Return the rings (process, ring) on which a thread stored more indexes than it has packets for."""
    known = [*_WRITER, "packet_index"]
    bare = stores.join(lines.select(known), on=known, how="anti").group_by(_WRITER).agg(stores=pl.len())
    open_lines = lines.group_by(_WRITER).agg(free=pl.col("packet_index").is_null().sum())
    found = bare.join(open_lines, on=_WRITER, how="left")
    return found.filter(pl.col("stores") > pl.col("free").fill_null(0)).select(_RING).unique()


def _list_overstored(lines: pl.DataFrame, stores: pl.DataFrame) -> pl.Series:
    """Return the files whose threads stored to doorbells of unknown rings more often than packets of theirs explain.

    These are packets without an index, or on rings of which no store is known.
    """
    unknown = stores.filter(pl.col("ring").is_null()).group_by("thread").agg(stores=pl.len())
    free = lines.join(stores.drop_nulls("ring").select(_RING).unique(), on=_RING, how="anti")
    free = pl.concat([free, lines.filter(pl.col("packet_index").is_null())]).unique("_row")
    packets = free.group_by("thread").agg(packets=pl.len())
    threads = unknown.join(packets, on="thread", how="left")
    threads = threads.filter(pl.col("stores") > pl.col("packets").fill_null(0))
    return lines.join(threads, on="thread", how="semi")["file"].unique()


def _list_miscounted(
    lines: pl.DataFrame, stores: pl.DataFrame, short: pl.DataFrame, overstored: pl.Series
) -> pl.DataFrame:
    """Return the packets whose counted index does not hold: of rings that lack packets, or that may lack some.

    Where one ring lacks packets, or files are `overstored`, the log lost lines. Another one of it that has no stores is
    counted right only up to its last packet that prints an index.
    """
    lossy = pl.concat([lines.join(short, on=_RING, how="semi")["file"], overstored]).unique()
    known = lines.filter(~pl.col("index_counted") & pl.col("packet_index").is_not_null())
    last = known.group_by(_RING).agg(last=pl.col("offset").max())
    open_rings = lines.filter("index_counted", pl.col("file").is_in(lossy.implode())).join(stores, on=_RING, how="anti")
    unproven = open_rings.join(last, on=_RING, how="left").filter(pl.col("offset") > pl.col("last").fill_null(-1))
    disproved = lines.filter("index_counted").join(short, on=_RING, how="semi")
    return pl.concat([disproved, unproven.select(disproved.columns)])


def _lay_beside(lines: pl.DataFrame, stores: pl.DataFrame) -> pl.DataFrame:
    """Return _row, stored: the values of the stores that lie beside packets without an index.

    Args:
        lines: packets, in the order of the log.
        stores: in the order of the trace.
    """
    place, rising = pl.int_range(pl.len()).over(_WRITER), (pl.col("packet_index").diff() > 0).over(_WRITER)
    stores = stores.with_columns(at=place, rises=rising.fill_null(value=True))
    stores = stores.filter(pl.col("rises").all().over(_WRITER))
    # Signed: of packets before the trace begins there are no stores.
    count = pl.len().cast(pl.Int64)
    sizes = stores.group_by(_WRITER).agg(stores=count)
    lines = lines.with_columns(nth=place, lines=count.over(_WRITER)).join(sizes, on=_WRITER, maintain_order="left")
    known = stores.select(*_WRITER, "packet_index", "at")
    lines = lines.join(known, on=[*_WRITER, "packet_index"], how="left", maintain_order="left")
    # By how much a packet's place among its thread's is another one than its store's: equal on both sides of a stretch
    # in which neither lacks one. The ends of both are such places, too.
    shift = pl.col("at") - pl.col("nth")
    before, after = shift.forward_fill().over(_WRITER), shift.backward_fill().over(_WRITER)
    lines = lines.with_columns(
        before=before.fill_null(0), after=pl.coalesce(after, pl.col("stores") - pl.col("lines")),
        stretch=pl.col("at").is_not_null().cum_sum().over(_WRITER),
    ).with_columns(at=pl.col("nth") + pl.col("before"))  # fmt: skip
    told = lines.filter(pl.col("before") == pl.col("after")).join(
        stores.select(*_WRITER, "at", stored="packet_index"), on=[*_WRITER, "at"]
    )
    # A packet whose index is known must be beside the store of that index.
    wrong = told.filter(pl.col("packet_index") != pl.col("stored")).select(*_WRITER, "stretch")
    told = told.join(wrong, on=[*_WRITER, "stretch"], how="anti").filter(pl.col("packet_index").is_null())
    twice = pl.len().over("process", "ring", "stored") > 1
    return told.filter(~twice).select("_row", "stored")
