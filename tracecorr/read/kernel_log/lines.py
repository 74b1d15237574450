"""The forms in which a kernel log is handed on: dmesg, /dev/kmsg and the journal, as records with their stamps.

printk stamps with local_clock (kernel/printk/printk.c, Linux 6.1 to 7.3): clock `printk` here, in microseconds.
`dmesg` prints it as `[   12.345678]`, /dev/kmsg as its third number, the journal as `_SOURCE_MONOTONIC_TIMESTAMP`,
which is also what `journalctl -o short-monotonic` prints for lines of the kernel (systemd, logs-show.c). Wall clocks
(`dmesg -T`, `--time-format iso`, `journalctl -o short`, `short-iso`) are computed or of the reception: clock
`realtime`, without a stamp where the year is not printed. Lines of an earlier boot have clock `earlier_boot`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

_PRINTK, _REALTIME, _EARLIER_BOOT = "printk", "realtime", "earlier_boot"
# What became of a line that is no record of the kernel.
BLANK, _HEADING, FOREIGN, _OF_PROGRAM = "blank_line", "journal_heading", "no_line_of_a_kernel_log", "not_of_the_kernel"

_RECORD = pl.Schema({
    "offset": pl.Int64, "length": pl.Int64, "size": pl.Int64, "reason": pl.String, "stamp_ns": pl.Int64,
    "clock": pl.String, "received_ns": pl.Int64, "level": pl.Int64, "pci": pl.String, "text": pl.String,
    "seq": pl.Int64,
})  # fmt: skip

_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_LEVEL = r"(?:(?<facility>[a-z]+\d?)\s*:(?<level>[a-z]+)\s*: )?"
_STAMP = r"\[\s*(?<seconds>\d+)\.(?<micros>\d{6})\](?:\[\s*[TC]\d+\])? ?"
_HOST = r"(?:\S+ (?<program>[\w.-]+)(?:\[\d+\])?: )"
_MONTH_DAY = r"(?<wall>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{6})?)"
# Lines of text, the more special form first. `-x` of dmesg puts facility and level before the stamp; rsyslog keeps
# the stamp of printk behind `kernel:`.
_FORMS = {
    "kmsg": r"^(?<pri>\d{1,6}),(?<seq>\d+),(?<micros>\d+),[^;]*;(?<text>.*)$",
    "monotonic": rf"^{_STAMP}\S+ (?<program>kernel): (?<text>.*)$",
    "dmesg": rf"^{_LEVEL}{_STAMP}(?<text>.*)$",
    "ctime": rf"^{_LEVEL}\[(?<wall>[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d \d{{4}})\] (?<text>.*)$",
    "iso": rf"^{_LEVEL}(?<wall>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{{6}})?[+-]\d\d:?\d\d) {_HOST}?(?<text>.*)$",
    "syslog": rf"^{_MONTH_DAY} {_HOST}(?:{_STAMP})?(?<text>.*)$",
}
_GROUPS = ("facility", "level", "pri", "seq", "seconds", "micros", "program", "wall", "text")
_KMSG_DEVICE = r"^ DEVICE=\+pci:(?<pci>\S+)$"
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")
_BOOT_LINE = r"^-- (?:Boot [0-9a-f]{32}|Reboot) --$"
_SEARCHED_LINES = 2_000


def looks_like_kernel_log(head: bytes) -> bool:
    """Tell whether the first bytes of a file are those of a kernel log that names the kernel or the GPU's driver."""
    if b"amdgpu" not in head and b"kernel" not in head and b"kfd" not in head and b'"msg"' not in head:
        return False
    return _find_form(head) != ""


def read_records(data: bytes) -> pl.DataFrame:
    """Return the records of a kernel log in the order of the file; their `size` adds up to that of the file.

    Args:
        data: its decompressed bytes.

    Returns:
        Columns of `_RECORD`: `reason` is null for a record of the kernel, else why the bytes are none; `length` is
        without the line end; `received_ns` is CLOCK_MONOTONIC at its reception by the journal; `pci` is the address
        of the device that the record names beside its text; `seq` is the kernel's number of a record of /dev/kmsg.
    """
    form = _find_form(data[: 1 << 20])
    if form == "dmesg_json":
        return _fill_gaps(_read_dmesg_json(data), data)
    if form == "journal_json":
        return _fill_gaps(_read_journal_json(data), data)
    if form == "journal_export":
        return _fill_gaps(_read_journal_export(data), data)
    return _read_text(data, form)


def _find_form(head: bytes) -> str:
    """Return the form that most of the first lines have; empty if none does."""
    stripped = head.lstrip()
    if re.match(rb'\{\s*"dmesg"\s*:', stripped):
        return "dmesg_json"
    if (stripped.startswith(b"{") and b'"__CURSOR"' in head) or (stripped.startswith(b"{") and b'"MESSAGE"' in head):
        return "journal_json"
    if re.match(rb"(__CURSOR|__REALTIME_TIMESTAMP)=", stripped):
        return "journal_export"
    lines = pl.Series([line.decode(errors="replace") for line in head.split(b"\n")[:_SEARCHED_LINES]], dtype=pl.String)
    found = {name: int(lines.str.contains(form).sum()) for name, form in _FORMS.items()}
    best = max(found, key=lambda name: found[name])
    return best if found[best] else ""


# --- text --------------------------------------------------------------------------------------------


def _read_text(data: bytes, form: str) -> pl.DataFrame:
    """Return the records of a text of lines; a line in another form than most is no record of the kernel."""
    pieces = data.split(b"\n")
    last = pieces.pop()
    sizes = [len(piece) + 1 for piece in pieces] + ([len(last)] if last else [])
    texts = [piece.removesuffix(b"\r").decode(errors="replace") for piece in (*pieces, *([last] if last else []))]
    lines = pl.DataFrame({"line": texts, "size": sizes}, schema={"line": pl.String, "size": pl.Int64})
    line, ends = pl.col("line"), pl.col("size").cum_sum()
    told = line.str.extract_groups(_FORMS[form]) if form else pl.struct(text=pl.lit(None, pl.String))
    read = lines.with_columns(
        told.alias("told"), offset=ends - pl.col("size"),
        boot=line.str.contains(_BOOT_LINE).cum_sum(), pci=line.str.extract(_KMSG_DEVICE),
    )  # fmt: skip
    inner = [f.name for f in read.schema["told"].fields]  # type: ignore[attr-defined]
    groups = [
        pl.col("told").struct.field(n).alias(n) if n in inner else pl.lit(None, pl.String).alias(n) for n in _GROUPS
    ]
    read = read.with_columns(*groups, length=line.str.len_bytes().cast(pl.Int64)).drop("told")
    return _settle_text(_join_continued(read) if form == "kmsg" else read)


def _join_continued(read: pl.DataFrame) -> pl.DataFrame:
    """Return the lines of /dev/kmsg with the ` KEY=VALUE` lines behind a record in its size."""
    is_more = pl.col("line").str.starts_with(" ") & pl.col("text").is_null()
    grouped = read.with_columns(group=(~is_more).cum_sum()).group_by("group", maintain_order=True)
    first = [pl.col(name).first() for name in read.columns if name not in ("size", "pci", "length")]
    whole = grouped.agg(
        *first, pl.col("size").sum(), pci=pl.col("pci").drop_nulls().first(),
        length=pl.col("size").sum() - pl.col("size").last() + pl.col("length").last(),
    )  # fmt: skip
    unescaped = pl.col("text").map_elements(_unescape, return_dtype=pl.String)
    return whole.drop("group").with_columns(
        text=pl.when(pl.col("text").str.contains("\\x", literal=True)).then(unescaped).otherwise("text")
    )


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _settle_text(read: pl.DataFrame) -> pl.DataFrame:
    """Return the lines as `_RECORD`: stamps on their clock, levels as numbers, and the reason why a line is none."""
    micros = pl.col("seconds").cast(pl.Int64, strict=False).fill_null(0) * 1_000_000
    stamp = (micros + pl.col("micros").cast(pl.Int64, strict=False)) * 1000
    pri = pl.col("pri").cast(pl.Int64, strict=False)
    level = pl.col("level").replace_strict(
        {name: number for number, name in enumerate(_LEVELS)}, default=None, return_dtype=pl.Int64
    )
    of_program = (
        (pri // 8 != 0)
        | (pl.col("facility").is_not_null() & (pl.col("facility") != "kern"))
        | (pl.col("program").is_not_null() & (pl.col("program") != "kernel"))
    )
    reason = (
        pl.when(pl.col("line").str.strip_chars() == "").then(pl.lit(BLANK))
        .when(pl.col("line").str.contains(r"^-- .* --$")).then(pl.lit(_HEADING))
        .when(pl.col("text").is_null()).then(pl.lit(FOREIGN))
        .when(of_program.fill_null(value=False)).then(pl.lit(_OF_PROGRAM))
    )  # fmt: skip
    earlier = pl.col("boot") < pl.col("boot").max()
    clock = pl.when(earlier).then(pl.lit(_EARLIER_BOOT)).when(stamp.is_not_null()).then(pl.lit(_PRINTK))
    return read.select(
        "offset", "length", "size", reason=reason, stamp_ns=pl.coalesce(stamp, _wall_ns(read)),
        clock=clock.otherwise(pl.lit(_REALTIME)), received_ns=pl.lit(None, pl.Int64),
        level=pl.coalesce(pri % 8, level), pci="pci",
        # A line without any form may still be one that somebody copied without its stamp.
        text=pl.coalesce("text", "line"), seq=pl.col("seq").cast(pl.Int64, strict=False),
    ).cast(_RECORD)  # fmt: skip


def _wall_ns(read: pl.DataFrame) -> pl.Series:
    """Return wall clock times (ns since 1970), null where the year is not printed."""
    wall = read["wall"].str.replace(",", ".", literal=True)
    iso = wall.str.replace(r"([+-]\d\d):?(\d\d)$", "$1:$2")
    zoned = iso.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", time_unit="ns", time_zone="UTC", strict=False)
    plain = wall.str.to_datetime("%a %b %e %H:%M:%S %Y", time_unit="ns", strict=False)
    return zoned.to_physical().fill_null(plain.to_physical())


# --- JSON and export -----------------------------------------------------------------------------------


def _read_dmesg_json(data: bytes) -> pl.DataFrame:
    """Return the records of `dmesg --json` (util-linux 2.38): `pri` is the level for lines of the kernel."""
    rows = []
    for offset, length, record in _scan_objects(data, data.find(b"[") + 1):
        seconds, pri = record.get("time"), record.get("pri")
        if not isinstance(record.get("msg"), str):
            continue
        stamp = round(float(seconds) * 1e6) * 1000 if isinstance(seconds, int | float) else None
        rows.append(_row(offset, length, stamp, _PRINTK, pri, str(record["msg"])))
    return _rows_frame(rows)


def _read_journal_json(data: bytes) -> pl.DataFrame:
    """Return the records of `journalctl -o json`."""
    return _rows_of_entries((offset, length, entry) for offset, length, entry in _scan_objects(data, 0))


def _scan_objects(data: bytes, start: int) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield where each JSON object is, its bytes and its fields; what is no object ends it."""
    # Of Latin-1 each character is a byte: places are those of the file.
    text, decoder = data.decode("latin-1"), json.JSONDecoder()
    while (at := text.find("{", start)) >= 0:
        try:
            record, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            start = at + 1
            continue
        if isinstance(record, dict):
            yield at, end - at, record
        start = end


def _read_journal_export(data: bytes) -> pl.DataFrame:
    """Return the records of `journalctl -o export`: `KEY=VALUE` lines, entries apart by an empty line."""
    return _rows_of_entries(_scan_entries(data))


def _scan_entries(data: bytes) -> Iterator[tuple[int, int, dict[str, Any]]]:
    at, begin, entry = 0, 0, dict[str, Any]()
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line, after = data[at:end], end + 1
        if not line:
            if entry:
                yield begin, at - 1 - begin, entry
            begin, entry = after, {}
        elif b"=" in line:
            key, _, value = line.partition(b"=")
            entry[key.decode("latin-1")] = value.decode("latin-1")
        else:
            # Text with control characters: its size (little endian, 8 bytes), the bytes, a line end.
            size = int.from_bytes(data[after : after + 8], "little")
            entry[line.decode("latin-1")] = data[after + 8 : after + 8 + size].decode("latin-1")
            after = after + 8 + size + 1
        at = after
    if entry:
        yield begin, len(data.rstrip(b"\n")) - begin, entry


def _rows_of_entries(entries: Iterator[tuple[int, int, dict[str, Any]]]) -> pl.DataFrame:
    """Return the records of the journal's entries; those of another boot than the last are of an earlier one."""
    rows, boots = [], []
    for offset, length, entry in entries:
        if not isinstance(entry.get("MESSAGE"), str):
            continue
        stamp = _micros(entry.get("_SOURCE_MONOTONIC_TIMESTAMP"))
        row = _row(offset, length, stamp, _PRINTK, entry.get("PRIORITY"), entry["MESSAGE"])
        row["received_ns"] = _micros(entry.get("__MONOTONIC_TIMESTAMP"))
        row["pci"] = str(entry.get("_KERNEL_DEVICE", "")).removeprefix("+pci:") or None
        row["reason"] = None if entry.get("_TRANSPORT", "kernel") == "kernel" else _OF_PROGRAM
        rows.append(row)
        boots.append(entry.get("_BOOT_ID"))
    for row, boot in zip(rows, boots, strict=True):
        row["clock"] = _PRINTK if boot == boots[-1] else _EARLIER_BOOT
    return _rows_frame(rows)


def _row(offset: int, length: int, stamp: int | None, clock: str, level: Any, text: str) -> dict[str, Any]:
    number = int(level) if str(level).isdigit() else None
    decoded = text.encode("latin-1", errors="replace").decode(errors="replace")
    return {
        "offset": offset, "length": length, "stamp_ns": stamp, "clock": clock,
        "level": number if number is None or number < len(_LEVELS) else None, "text": decoded,
    }  # fmt: skip


def _micros(value: Any) -> int | None:
    return int(value) * 1000 if str(value).isdigit() and len(str(value)) < 16 else None


def _rows_frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=_RECORD, infer_schema_length=None) if rows else pl.DataFrame(schema=_RECORD)


def _fill_gaps(records: pl.DataFrame, data: bytes) -> pl.DataFrame:
    """Return the records with `size`, and a row for the bytes between them: what JSON and export put around them."""
    begins = records["offset"].to_list()
    ends = [0, *(begin + length for begin, length in zip(begins, records["length"].to_list(), strict=True))]
    sized = records.with_columns(size="length")
    gaps = [(end, begin - end) for end, begin in zip(ends, [*begins, len(data)], strict=True) if begin > end]
    others = [{"offset": at, "length": size, "size": size, "reason": _HEADING} for at, size in gaps]
    return pl.concat([sized, pl.DataFrame(others, schema=_RECORD)]).sort("offset")
