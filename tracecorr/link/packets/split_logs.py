"""Split logs: which files are the parts of one process's log, though another process may have had its pid before."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import span_groups


def number_logs(packets: pl.DataFrame) -> pl.DataFrame:
    """Return which log each file is a part of: file, log (the number of its first file).

    A file goes on with the log of another one of its process where it begins when the other has ended, and on all
    queues that both show the printed indexes go on without a gap. The next process with the same pid begins its queues
    anew.

    Args:
        packets: packets of the log: process, file, queue, packet_index, index_counted, ts_ns.
    """
    spans = span_groups(packets, ["process", "file"], "ts_ns", "ts_ns").rename({"first": "begin", "last": "end"})
    files = spans.drop_nulls("process").sort("process", "begin", "file")
    before = pl.col("file", "end").shift(1).over("process").name.suffix("_before")
    pairs = files.with_columns(before).drop_nulls("file_before").filter(pl.col("begin") >= pl.col("end_before"))
    columns = ("process", "file", "queue", "packet_index", "index_counted")
    mine = packets.select(columns).filter(pl.col("process").is_in(pairs["process"].unique().implode()))
    goes_on = _list_unbroken(mine, pairs).with_columns(goes_on=pl.lit(value=True))
    logs = files.join(goes_on, on=["process", "file"], how="left", maintain_order="left")
    begins = pl.when(pl.col("goes_on").is_null()).then("file").forward_fill().over("process")
    # A file that shows several processes, as children that inherited it, is a log of its own.
    single = pl.len().over("file") == 1
    return logs.with_columns(log=begins).filter(single).select("file", "log")


def drop_between_logs(pairs: pl.DataFrame, files: pl.Series, logs: pl.DataFrame, ends: tuple[str, str]) -> pl.DataFrame:
    """Leave out pairs of rows of two logs: signals of one process are nothing to the next one with its pid.

    Args:
        pairs: events in both columns `ends`.
        files: the file of each event.
        logs: as `number_logs` returns them; a file that is not among them is a log of its own.
        ends: columns of `pairs`.
    """
    log, other = (files.gather(pairs[end]).replace(logs["file"], logs["log"]) for end in ends)
    return pairs.filter(log == other)


def _list_unbroken(packets: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs (process, file) whose queues' indexes go on where those of the file before end."""
    printed = packets.filter(~pl.col("index_counted")).drop_nulls(["queue", "packet_index"])
    ranges = printed.group_by("process", "file", "queue").agg(
        low=pl.col("packet_index").min(), high=pl.col("packet_index").max()
    )
    own = pairs.select("process", "file", "file_before").join(ranges, on=["process", "file"])
    earlier = ranges.select("process", "queue", "high", file_before="file")
    both = own.drop("high").join(earlier, on=["process", "file_before", "queue"])
    goes_on = (pl.col("low") == pl.col("high") + 1).all()
    return both.group_by("process", "file").agg(goes_on=goes_on).filter("goes_on").select("process", "file")
