"""From the text of a record's body to named fields: one pattern per form of an event, made from its first record."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

_QUOTED = re.compile(r'"[^"]*"')
# How a key is told from its value, and what a value with blanks may hold.
_KEYS = {
    "syscall": re.compile(r"(?:^ *|, )(?:[\w *]+ \**)?(\w+)(: ?|=)"),
    "equals": re.compile(r"(?:^|[\s,])([A-Za-z_]\w*)(=)"),
    "sched": re.compile(r"(?:^|[\s,])((?:hw )?job count|client_id|dependencies|[A-Za-z_]\w*(?==))([:=])"),
}
# Any of these keys, as the regular expressions of polars write it.
_ANY_KEY = {style: key.pattern.replace("(?==))([:=])", "=)") for style, key in _KEYS.items()}
_VALUES = {
    "syscall": r'((?:[^",]|"[^"]*")*)',
    "equals": r'((?:[^"=]|"[^"]*")*?)',
    "sched": r"(.*?)",
}
# A value without blanks. With values of this kind alone a pattern takes one pass.
_PLAIN, _IS_PLAIN = r'("[^"]*"|[^\s,"]*)', re.compile(r'"[^"]*"|[^\s,"]*')
# Forms of one event tried in a block before the rest is kept as text.
_MAX_FORMS = 12
# Pointers that the kernel prints as 16 hexadecimal digits.
_HASHED = ("entity", "fence", "depends_fence", "bo", "list", "bo_list", "prev", "next")


def split_fields(frame: pl.DataFrame, style: str, text: str = "rest") -> Iterator[tuple[list[str], pl.DataFrame]]:
    """Yield (keys, rows) per form found in column `text`; rows carry one String column `f_KEY` per key.

    Rows that fit no form come with an empty list of keys.
    """
    for _ in range(_MAX_FORMS):
        if frame.is_empty():
            return
        keys, pattern = _form(frame[text][0], style)
        if not keys:
            # The records after it may have some: only those without any go with it.
            keyed = frame[text].str.replace_all(_QUOTED.pattern, '""').str.contains(_ANY_KEY[style])
            keyed = keyed.fill_null(value=False)
            yield [], pl.concat([frame.head(1), frame.tail(-1).filter(~keyed.tail(-1))])
            frame = frame.tail(-1).filter(keyed.tail(-1))
            continue
        fields = frame[text].str.extract_groups(pattern).struct.rename_fields(keys).struct.unnest()
        if not fields[keys[0]].null_count():
            yield [k[2:] for k in keys], pl.concat([frame, fields], how="horizontal")
            return
        fits = fields[keys[0]].is_not_null()
        if not fits.any():
            yield [], frame.head(1)
            frame = frame.tail(-1)
            continue
        yield [k[2:] for k in keys], pl.concat([frame, fields], how="horizontal").filter(fits)
        frame = frame.filter(~fits)
    if frame.height:
        yield [], frame


def _form(sample: str, style: str) -> tuple[list[str], str]:
    """Return the keys of `sample` (made unlike any column name) and the pattern of its form."""
    bare = _QUOTED.sub(lambda m: '"' + "_" * (len(m[0]) - 2) + '"', sample)
    found = list(_KEYS[style].finditer(bare))
    keys: list[str] = []
    pattern, done = "(?s)^", 0
    for i, match in enumerate(found):
        name = "f_" + match[1].replace(" ", "_")
        keys.append(name if name not in keys else f"{name}_{i}")
        start = found[i + 1].start() if i + 1 < len(found) else len(sample)
        value = sample[match.end() : start].rstrip().removesuffix(",")
        if i == 0 and match.start() > 0:
            pattern += r"(?:.*?[\s,])??"
            done = match.start(1)
        pattern += re.escape(sample[done : match.end()])
        pattern += _PLAIN if _IS_PLAIN.fullmatch(value) else _VALUES[style]
        done = match.end() + len(value)
    return keys, pattern + r"\s*$"


def to_numbers(texts: pl.Series, *, base: int = 10) -> pl.Series:
    """Return texts as u64 (two's complement): `0x..`, and bare digits of the base; null for all others."""
    name, frame = texts.name, texts.to_frame()
    return frame.select(_number(name, base, frame.select(pl.col(name).str.starts_with("0x").all()).item()))[name]


def _number(name: str, base: int, is_marked: bool, *, hashed: bool = False) -> pl.Expr:
    """Return the numbers in column `name`, all of which begin with 0x if `is_marked`."""
    text = pl.col(name)
    marked = text.str.strip_prefix("0x").str.to_integer(base=16, dtype=pl.UInt64, strict=False)
    if is_marked or base == 16:
        return marked
    is_hex = text.str.contains("^0x|^[0-9a-f]{16}$") if hashed else text.str.starts_with("0x")
    bare = text.str.to_integer(dtype=pl.UInt64, strict=False)
    negative = text.str.to_integer(dtype=pl.Int64, strict=False).reinterpret(signed=False)
    return pl.when(is_hex).then(marked).otherwise(pl.coalesce(bare, negative))


def typed_fields(rows: pl.DataFrame, keys: list[str], *, base: int = 10, hexadecimal: tuple[str, ...] = ()
                 ) -> pl.DataFrame:  # fmt: skip
    """Return the rows with `u_KEY` (u64) for each key, and `t_KEY` for those that print text in some record.

    Args:
        rows: with `f_KEY` (`split_fields`).
        keys: the fields.
        base: of numbers without 0x.
        hexadecimal: fields that print hexadecimal digits without 0x.
    """
    if not keys:
        return rows
    marked = rows.select(pl.col(f"f_{key}").str.starts_with("0x").all() for key in keys).row(0)
    rows = rows.with_columns(
        _number(f"f_{key}", 16 if key in hexadecimal else base, is_marked, hashed=key in _HASHED).alias(f"u_{key}")
        for key, is_marked in zip(keys, marked, strict=True)
    )
    return rows.with_columns(
        pl.when(pl.col(f"u_{key}").is_null())
        .then(pl.col(f"f_{key}").str.strip_suffix('"').str.strip_prefix('"'))
        .alias(f"t_{key}")
        for key in keys
        if rows[f"u_{key}"].null_count()
    )
