"""HAND-MADE files of one process, or of two with one pid: which of them are one log."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.packets.signals import drop_ended
from tracecorr.link.packets.split_logs import drop_between_logs, number_logs


def files(*indexes: list[int], process: int = 0, counted: bool = False, queues: int = 1) -> pl.DataFrame:
    """Return packets of files that follow each other, on each of some queues."""
    rows = [
        {"process": process, "file": file, "queue": queue, "packet_index": index, "index_counted": counted,
         "ts_ns": 1000 * file + n}
        for file, part in enumerate(indexes) for n, index in enumerate(part) for queue in range(queues)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"file": pl.UInt16, "process": pl.UInt32, "queue": pl.UInt32})


@pytest.mark.parametrize(
    ("packets", "logs"),
    [
        pytest.param(files([0, 1], [2, 3], [4]), [0, 0, 0], id="goes on"),
        pytest.param(files([0, 1], [0, 1], [2]), [0, 1, 1], id="begins anew"),
        pytest.param(files([0, 1], [3, 4]), [0, 1], id="a packet is missing between them"),
        pytest.param(files([0, 1], [2, 3], counted=True), [0, 1], id="counted only"),
        pytest.param(files([0, 1], [2], queues=2), [0, 0], id="two queues"),
        pytest.param(
            pl.concat([files([0, 1], [2]), files([0, 1], [3]).with_columns(queue=pl.lit(1, pl.UInt32))]), [0, 1],
            id="only one of two queues goes on",
        ),
        pytest.param(files([0, 1], [2]).with_columns(ts_ns=pl.col("packet_index") // 2), [0, 0], id="at one time"),
        pytest.param(files([0, 1], [2]).with_columns(ts_ns=-pl.col("packet_index")), [0, 1], id="before it"),
        pytest.param(files([0, 1], [2]).with_columns(queue=pl.col("file").cast(pl.UInt32)), [0, 1], id="other queues"),
        pytest.param(files([0, 1], [2]).with_columns(ts_ns=0), [0, 0], id="within one microsecond"),
        pytest.param(files([0, 1], [2]).with_columns(file=1 - pl.col("file")), [1, 1], id="read in another order"),
        pytest.param(
            # 0 to 1000 and 600 to 1600.
            files([0, 1, 2], [3, 4]).with_columns(
                ts_ns=pl.when(file=0).then(pl.col("packet_index") * 500).otherwise(pl.col("packet_index") * 1000 - 2400)
            ), [0, 1], id="while the other one is still written",
        ),
        pytest.param(
            files([0, 1], [0, 1]).with_columns(packet_index=pl.lit(None, pl.Int64)), [0, 1], id="no index is known",
        ),
    ],
)  # fmt: skip
def test_files_are_one_log_where_all_indexes_go_on(packets: pl.DataFrame, logs: list[int]) -> None:
    assert number_logs(packets).sort("file")["log"].to_list() == logs


def test_a_file_of_several_processes_is_a_log_of_its_own() -> None:
    both = pl.concat([files([0, 1], [2]), files([0, 1], [2], process=1)])
    assert number_logs(both).is_empty()


def test_what_waits_in_one_log_waits_for_nothing_of_another_one() -> None:
    """Files 0 and 1 are one log, as is file 2; file 3 is known to be part of none."""
    logs = pl.DataFrame({"file": [0, 1, 2], "log": [0, 0, 2]}, schema={"file": pl.UInt16, "log": pl.UInt16})
    of_events = pl.Series("file", [0, 1, 2, 3], dtype=pl.UInt16)
    pairs = pl.DataFrame({"from_event": [0, 1, 2, 3, 0], "to_event": [1, 2, 2, 3, 3]})
    found = drop_between_logs(pairs, of_events, logs, ("from_event", "to_event"))
    assert found.rows() == [(0, 1), (2, 2), (3, 3)]


def test_a_gpu_time_behind_the_end_of_its_command_is_another_packets() -> None:
    found = pl.DataFrame({"event": [1, 2, 3], "gpu_event": [11, 12, 13], "gpu_start_ns": [9_000, 9_000, 9_000]})
    launches = pl.DataFrame({"event": [1, 2, 3], "complete_ns": [9_500, 6_500, None]})
    for error, kept in ((0, [1, 3]), (2_000, [1, 2, 3])):
        errors = pl.Series([error] * 3, dtype=pl.UInt32)
        times = pl.DataFrame({"event": [11, 12, 13], "err_lo_ns": errors})
        assert drop_ended(found, launches, times)["event"].to_list() == kept
