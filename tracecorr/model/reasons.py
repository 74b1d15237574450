"""The reasons of the ledger: why bytes of a file are no rows, and whether a record is lost with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tracecorr.model.kinds import UNKNOWN_FORM


class Lost(StrEnum):
    """Tell what is lost with the bytes that a reason names."""

    NOTHING = "no"
    COUNTED = "yes, as many as `records` counts"
    UNTOLD = "yes, an unknown number"


@dataclass(frozen=True)
class _Reason:
    """Hold what a reason means.

    Args:
        meaning: what the bytes are.
        lost: whether records were there that could not be read.
        at_end: whether these lie behind the last record of the file that was read.
    """

    meaning: str
    lost: Lost = Lost.NOTHING
    at_end: bool = False


PROGRAM_OUTPUT, BLANK_LINE, CONTINUATION = "program_output", "blank_line", "continuation"
BROKEN_RECORD, TORN_RECORD, NUL_BYTES = "broken_record", "torn_record", "nul_bytes"
BEHIND_NULS = "behind_nul_bytes"
TORN_LINE, UNKNOWN_EVENT_ID = "torn_line", "unknown_event_id"
MISSING_BYTES = "missing_bytes"

_SKIPPED = {
    PROGRAM_OUTPUT: "HIP log: text of the program, or the rest of a record that cannot surely be told to be one",
    BLANK_LINE: "HIP log, kernel log: only blanks",
    CONTINUATION: "HIP log: a further line of a message of the compiler, or of the source text given to it",
    BEHIND_NULS: "HIP log: the end of a record after NULs; the missing part is counted with the NULs",
    "no_record_prefix": "text of a kernel trace: lines before the first record",
    "duplicate_sample": "perf: the same hit of a probe, seen by a second event",
    "range_not_chosen": "kernel trace: a roctx range that --range did not choose",
    "wrong_endianness_mark": "trace.dat: a mark that its pages contradict",
    "header": "rocprof: names of the columns",
    "empty line": "rocprof: nothing",
    "line of another table": "rocprof: not the columns of the first line",
    "description of the trace": "rocprof: JSON that is not an event",
    "names and description": "rocprof: JSON around the records",
    "no times": "rocprof: sums of a statistic",
    "in another file of rocprof, too": "rocprof: an earlier file of the capture holds the record",
    "tables, indexes and names of the database": "rocprof: what the records refer to",
    "no_line_of_a_dump": "dump of the KFD: a line that the driver does not print",
    "mqds_of_other_queues": "dump of the KFD: memory that the driver prints behind an MQD",
    "registers_did_not_answer": "dump of the KFD: registers that are all zeros or all ones, as of a device that is off",
    "no_message_of_the_gpu": "kernel log: a message of another driver or of the kernel",
    "not_of_the_kernel": "kernel log: a message that a program wrote",
    "no_line_of_a_kernel_log": "kernel log: a line in another form than the others",
    "journal_heading": "kernel log: what journalctl and dmesg print around the records",
    UNKNOWN_FORM: "HIP log: used; only the beginning of the message is known",
    "no_line_of_smi_events": "SMI events: a line that the driver does not print",
    "unknown_event": "SMI events: a kind of event that is not known here, as newer kernels may have",
}
_COUNTED = {
    BROKEN_RECORD: "text: a line like a record whose time or prefix cannot be read, or of two records",
    UNKNOWN_EVENT_ID: "pages: a record of an event without a format",
    "short_record": "pages: a record without room for its event and thread",
    "record_unlike_its_format": "pages: a record shorter than the fields of its event",
    "damaged object": "rocprof: an event of JSON that cannot be read",
    "heading_without_registers": "dump of the KFD: a queue whose registers do not follow",
    "registers_without_heading": "dump of the KFD: registers of an unknown queue",
    "queue_of_unknown_type": "dump of the KFD: a queue of a type that has no layout here",
    "not_the_56_registers_of_gfx9_to_gfx12": "dump of the KFD: a queue whose registers have no layout here, or are cut",
    "no_compute_mqd_of_gfx9_to_gfx12": "dump of the KFD: an MQD that has no layout here",
    "sdma_block_cut_short": "dump of the KFD: an SDMA queue with missing registers",
    "mqd_cut_short": "dump of the KFD: an MQD with missing words",
    "unknown_fields": "SMI events: a known event with other fields",
    "no_line_of_polls": "polled counters: a line that cannot be read",
}
_UNTOLD = {
    NUL_BYTES: "HIP log: NULs where bytes were never stored",
    "bad_page_head": "pages: a page that says it holds more than it can",
    "broken_page_data": "pages: the rest of a page behind a record that cannot be one",
    "damaged_section": "trace.dat: a part of its description that cannot be read",
    "overlapping_page_data": "trace.dat: pages of one CPU that are said to lie in those of another",
    "unknown_kind_of_trace_data": "trace.dat: data of a kind that is not known here",
    "file_ends_in_its_description": "trace.dat: it ends before its pages",
    "damaged or cut JSON": "rocprof: what is after the damage",
    "damaged database: nothing behind the damage is read": "rocprof: what is after the damage",
}
_AT_END = {
    TORN_RECORD: "HIP log, perf: the record in which the file ends; its end is missing",
    TORN_LINE: "text: the line that the file ends in, without its line end",
    "torn_page": "pages: the file ends inside of a page",
    MISSING_BYTES: "the raw file is shorter than when the capture was made: its folder was not copied whole",
}
# Reasons of what is lost and has no bytes: the readers tell its spans themselves.
_TOLD = {
    "ring_buffer_overrun": "kernel trace: it says that records were lost",
    "file_cut_off": "trace.dat: it names more pages than it has",
}
REASONS = {
    **{reason: _Reason(meaning) for reason, meaning in (_SKIPPED | _TOLD).items()},
    **{reason: _Reason(meaning, Lost.COUNTED) for reason, meaning in _COUNTED.items()},
    **{reason: _Reason(meaning, Lost.UNTOLD) for reason, meaning in _UNTOLD.items()},
    **{reason: _Reason(meaning, Lost.UNTOLD, at_end=True) for reason, meaning in _AT_END.items()},
}


def list_lossy(lost: Lost | None = None) -> list[str]:
    """Return the reasons with which records are lost: all, or those of one kind."""
    return [name for name, reason in REASONS.items() if (reason.lost == lost if lost else reason.lost != Lost.NOTHING)]


def render_reasons() -> Iterator[str]:
    """Yield the lines of the list of reasons (Markdown)."""
    yield "## Reasons of `ledger`\n"
    yield "What a capture itself lost has reasons of its own; the table `losses` has its spans.\n"
    yield "| reason | what the bytes are | records lost with them |\n|---|---|---|"
    for name, reason in sorted(REASONS.items()):
        yield f"| {name} | {reason.meaning} | {'its span is in `losses`' if name in _TOLD else reason.lost} |"
