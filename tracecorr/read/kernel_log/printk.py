"""Records of a kernel log as events of layer `kernel`: dmesg, /dev/kmsg and the journal, which message each is.

printk stamps with local_clock (kernel/printk/printk.c, Linux 6.1 to 7.3): clock `printk` here, in microseconds.
`dmesg` prints it as `[   12.345678]`, /dev/kmsg as its third number, the journal as `_SOURCE_MONOTONIC_TIMESTAMP`,
which is also what `journalctl -o short-monotonic` prints for lines of the kernel (systemd, logs-show.c). Wall clocks
(`dmesg -T`, `--time-format iso`, `journalctl -o short`, `short-iso`) are computed or of the reception: clock
`realtime`, without a stamp where the year is not printed. Lines of an earlier boot have clock `earlier_boot`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.read.kernel_log.catalogue import DRIVER_MESSAGE, HEXADECIMAL, MESSAGES
from tracecorr.read.kfd.ioctls import result_text

_PRINTK, _REALTIME, _EARLIER_BOOT = "printk", "realtime", "earlier_boot"
# What became of a line that is no record of the kernel.
_BLANK, _HEADING, _FOREIGN, _OF_PROGRAM = (
    "blank_line",
    "journal_heading",
    "no_line_of_a_kernel_log",
    "not_of_the_kernel",
)

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
        pl.when(pl.col("line").str.strip_chars() == "").then(pl.lit(_BLANK))
        .when(pl.col("line").str.contains(r"^-- .* --$")).then(pl.lit(_HEADING))
        .when(pl.col("text").is_null()).then(pl.lit(_FOREIGN))
        .when(of_program.fill_null(value=False)).then(pl.lit(_OF_PROGRAM))
    )  # fmt: skip
    earlier = pl.col("boot") < pl.col("boot").max()
    clock = pl.when(earlier).then(pl.lit(_EARLIER_BOOT)).when(stamp.is_not_null()).then(pl.lit(_PRINTK))
    return read.select(
        "offset", "length", "size", reason=reason, stamp_ns=pl.coalesce(stamp, _wall_ns(read)),
        clock=clock.otherwise(pl.lit(_REALTIME)), received_ns=pl.lit(None, pl.Int64),
        level=pl.coalesce(pri % 8, level), pci="pci",
        # A line without any form may still be one that was copied without its stamp.
        text=pl.coalesce("text", "line"), seq=pl.col("seq").cast(pl.Int64, strict=False),
    ).cast(_RECORD)  # fmt: skip


def _wall_ns(read: pl.DataFrame) -> pl.Series:
    """Return wall clock times (ns since 1970), null if the year is not printed."""
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


_SOURCE = "kernel_log"
_LAYER = "kernel"
# A record of the kernel that is neither of amdgpu or amdkfd nor in the catalogue.
_OTHER = "no_message_of_the_gpu"

# What amdgpu, amdkfd and DRM put before a message (Linux 4.x to 7.3): device, `amdgpu:`, function, `*ERROR*`.
_PCI = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
_PREFIX = (
    rf"^(?:(?:amdgpu|kfd|amdkfd) (?:(?<pci>{_PCI})|kfd): )?(?<driver>amdgpu: |kfd: )?"
    r"(?:\[drm(?::(?<function>[\w.]+)(?: \[amdgpu\])?)?[^\]]*\] )?(?:\*ERROR\* )?"
)
_OF_DRIVER = rf"^(?:(?:amdgpu|kfd|amdkfd)(?: {_PCI}| kfd)?: |\[drm:[^\]]*\[amdgpu\]\] )"
_GROUP = re.compile(r"\(\?<(\w+)>")


def read_kernel_log(chunks: Iterable[bytes], file: int) -> Iterator[Block]:
    """Yield the one block of a kernel log: a row for each record of amdgpu or amdkfd, or of the catalogue.

    The events are of layer `kernel`, named by the catalogue, or `driver_message`. Their args hold `text`, `pci`,
    `printk_level`, and what the text names: `pid`, `doorbell`, `kfd_queue`, `ring`, ...

    Args:
        chunks: its decompressed bytes.
        file: key of its file.
    """
    records = read_records(b"".join(chunks))
    named = name_messages(records)
    # A line without a stamp is believed only if it is a known message: anything may be copied beside a log.
    is_used = pl.col("name").is_not_null() & (pl.col("reason").is_null() | (pl.col("reason") == _FOREIGN))
    known = pl.col("name") != DRIVER_MESSAGE
    used = named.filter(is_used & (pl.col("reason").is_null() | known))
    events = used.select(
        "stamp_ns", "clock", "offset", "length", layer=pl.lit(_LAYER), name="name", file=pl.lit(file),
        result=result_text(pl.col("ret"), pl.lit(value=False)),
    )  # fmt: skip
    yield Block(
        events=schema.PART_EVENTS.conform(events), args=_list_args(used, file), ledger=_count(named, used, file),
        losses=_list_overwritten(records),
    )  # fmt: skip


def name_messages(records: pl.DataFrame) -> pl.DataFrame:
    """Return records with their message and what it names.

    Args:
        records: a column `text`, and perhaps `pci`.

    Returns:
        The same rows and columns, and `name` (of the catalogue, `driver_message` for others of the driver, null for
        records of others), `function` (that printed it), and a text column for each group of the catalogue; the
        numbers among them, `pid`, `tid`, `pasid`, `doorbell`, `kfd_queue`, `ret`, ..., are integers.
    """
    text = pl.col("text")
    heads = text.str.extract_groups(_PREFIX)
    told = [heads.struct.field("function").alias("function")]
    own = heads.struct.field("pci")
    told.append((pl.coalesce(own, "pci") if "pci" in records.columns else own).alias("pci"))
    rows = records.with_columns(
        *told, body=text.str.replace(_PREFIX, ""), of_driver=text.str.contains(_OF_DRIVER)
    ).with_row_index("row")
    pieces, left = [], rows
    for message in MESSAGES:
        is_it = left["body"].str.contains(message.pattern).fill_null(value=False)
        if is_it.any():
            pieces.append(_read_groups(left.filter(is_it), message.name, message.pattern))
            left = left.filter(~is_it)
    others = left.with_columns(name=pl.when("of_driver").then(pl.lit(DRIVER_MESSAGE)))
    empty = {name: pl.lit(None, kind) for name, kind in _NAMED_GROUPS.items()}
    whole = pl.concat([others, *pieces], how="diagonal").sort("row").drop("row", "body", "of_driver")
    return whole.with_columns(**{name: value for name, value in empty.items() if name not in whole.columns})


def _read_groups(rows: pl.DataFrame, name: str, pattern: str) -> pl.DataFrame:
    """Return the records of one message with its groups; alternatives of one group are told apart by `_`."""
    columns: dict[str, pl.Expr] = {}
    for group in dict.fromkeys(_GROUP.findall(pattern)):
        key, value = group.rstrip("_").removesuffix("_hex"), pl.col("found").struct.field(group)
        if _NAMED_GROUPS[key] == pl.Int64:
            value = _to_number(value, hexadecimal=key in HEXADECIMAL or group.endswith("_hex"))
        columns[key] = pl.coalesce(columns[key], value) if key in columns else value
    found = rows.with_columns(found=pl.col("body").str.extract_groups(pattern))
    return found.with_columns(name=pl.lit(name), **columns).drop("found")


def _to_number(text: pl.Expr, *, hexadecimal: bool) -> pl.Expr:
    digits = text.str.replace("^0x", "")
    is_hex = text.str.starts_with("0x") | hexadecimal
    decimal = text.str.to_integer(base=10, strict=False)
    return pl.when(is_hex).then(digits.str.to_integer(base=16, strict=False)).otherwise(decimal)


_TEXTS = frozenset({
    "cause", "kind", "task", "thread", "ring", "request", "detail_text", "outcome", "what", "hub", "retry",
    "client_name", "client_number", "die", "field", "block", "status_text", "owner", "lock", "soft",
})  # fmt: skip
# Groups of all patterns: numbers but for those that hold names.
_NAMED_GROUPS: dict[str, type[pl.DataType]] = {
    key: pl.String if key in _TEXTS else pl.Int64
    for message in MESSAGES
    for key in (group.rstrip("_").removesuffix("_hex") for group in _GROUP.findall(message.pattern))
}


def list_fields(named: pl.DataFrame) -> list[tuple[str, pl.Series, pl.Series]]:
    """Return what records name: key of `args`, numbers (u64) and texts; one of the two is null throughout.

    Args:
        named: as `name_messages` returns it.
    """
    no_numbers, no_texts = pl.Series([None], dtype=pl.UInt64), pl.Series([None], dtype=pl.String)
    found = []
    for key, column in {
        "printk_level": "level",
        **{name: name for name in ("received_ns", "text", "pci", "function", *_NAMED_GROUPS)},
    }.items():
        if column not in named.columns or key == "ret" or named[column].null_count() == named.height:
            continue
        values = named[column]
        if values.dtype == pl.String:
            found.append((key, no_numbers.new_from_index(0, named.height), values))
        else:
            found.append((key, values.reinterpret(signed=False), no_texts.new_from_index(0, named.height)))
    return found


def _list_args(used: pl.DataFrame, file: int) -> pl.DataFrame:
    rows = [
        pl.select(used["offset"], key=pl.lit(key, pl.String), u64=numbers, text=texts).filter(
            pl.col("u64").is_not_null() | pl.col("text").is_not_null()
        )
        for key, numbers, texts in list_fields(used)
    ]
    args = pl.concat(rows).sort("offset", maintain_order=True) if rows else schema.PART_ARGS.empty().drop("file")
    return schema.PART_ARGS.conform(args.with_columns(file=pl.lit(file)))


def _list_overwritten(records: pl.DataFrame) -> pl.DataFrame:
    """Return the losses: spans between two records of /dev/kmsg whose numbers do not follow each other."""
    numbered = records.drop_nulls("seq").select(
        from_ns=pl.col("stamp_ns").shift(), to_ns="stamp_ns", count=pl.col("seq").diff() - 1
    )
    gaps = numbered.filter(pl.col("count") > 0)
    return schema.PART_LOSSES.conform(gaps.with_columns(source=pl.lit(_SOURCE)))


def _count(named: pl.DataFrame, used: pl.DataFrame, file: int) -> pl.DataFrame:
    """Return the ledger: bytes of used records, and of others by what they are."""
    is_used = pl.col("offset").is_in(used["offset"].implode())
    reason = pl.when(is_used).then(pl.lit("")).otherwise(pl.coalesce("reason", pl.lit(_OTHER)))
    counted = named.group_by(reason.alias("reason")).agg(
        records=pl.when(pl.col("reason").is_in([_BLANK]).fill_null(value=False)).then(0).otherwise(1).sum(),
        bytes=pl.col("size").sum(),
    )
    outcome = pl.when(pl.col("reason") == "").then(pl.lit("used")).otherwise(pl.lit("skipped"))
    rows = counted.with_columns(file=pl.lit(file), source=pl.lit(_SOURCE), outcome=outcome)
    return schema.LEDGER.conform(rows.sort("reason"))
