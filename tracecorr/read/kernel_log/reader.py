"""Records of a kernel log as events of layer `kernel`: which message each is, and what it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.read.kernel_log.catalogue import DRIVER_MESSAGE, HEXADECIMAL, MESSAGES
from tracecorr.read.kernel_log.lines import BLANK, FOREIGN, read_records
from tracecorr.read.kfd.fields import result_text

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
    is_used = pl.col("name").is_not_null() & (pl.col("reason").is_null() | (pl.col("reason") == FOREIGN))
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
    empty = {name: pl.lit(None, kind) for name, kind in _GROUPS.items()}
    whole = pl.concat([others, *pieces], how="diagonal").sort("row").drop("row", "body", "of_driver")
    return whole.with_columns(**{name: value for name, value in empty.items() if name not in whole.columns})


def _read_groups(rows: pl.DataFrame, name: str, pattern: str) -> pl.DataFrame:
    """Return the records of one message with its groups; alternatives of one group are told apart by `_`."""
    columns: dict[str, pl.Expr] = {}
    for group in dict.fromkeys(_GROUP.findall(pattern)):
        key, value = group.rstrip("_").removesuffix("_hex"), pl.col("found").struct.field(group)
        if _GROUPS[key] == pl.Int64:
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
_GROUPS: dict[str, type[pl.DataType]] = {
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
        **{name: name for name in ("received_ns", "text", "pci", "function", *_GROUPS)},
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
        records=pl.when(pl.col("reason").is_in([BLANK]).fill_null(value=False)).then(0).otherwise(1).sum(),
        bytes=pl.col("size").sum(),
    )
    outcome = pl.when(pl.col("reason") == "").then(pl.lit("used")).otherwise(pl.lit("skipped"))
    rows = counted.with_columns(file=pl.lit(file), source=pl.lit(_SOURCE), outcome=outcome)
    return schema.LEDGER.conform(rows.sort("reason"))
