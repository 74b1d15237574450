"""From the text of a record's body to named fields, one regular expression per form of an event."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

# How a key is told from its value: what ends a key, and what a value may hold.
_QUOTED = re.compile(r'"[^"]*"')
KEYS = {
    "syscall": re.compile(r"(?:^ *|, )(?:[\w *]+ \**)?(\w+)(: ?|=)"),
    "equals": re.compile(r"(?:^|[\s,])([A-Za-z_]\w*)(=)"),
    "sched": re.compile(r"(?:^|[\s,])((?:hw )?job count|client_id|dependencies|[A-Za-z_]\w*(?==))([:=])"),
}
# Any of these keys, as the regular expressions of polars write it.
_ANY_KEY = {style: key.pattern.replace("(?==))([:=])", "=)") for style, key in KEYS.items()}
_VALUES = {
    "syscall": r'((?:[^",]|"[^"]*")*)',
    "equals": r'((?:[^"=]|"[^"]*")*?)',
    "sched": r"(.*?)",
}
# Forms of one event tried in a block before the rest is kept as text.
_MAX_FORMS = 12
_HASHED = ("entity", "fence", "depends_fence", "bo", "list", "bo_list", "prev", "next")


def split_fields(frame: pl.DataFrame, style: str, text: str = "rest") -> Iterator[tuple[list[str], pl.DataFrame]]:
    """Yield (keys, rows) per form found in column `text`; rows carry one String column per key.

    Rows that fit no form come with an empty list of keys.
    """
    for _ in range(_MAX_FORMS):
        if frame.is_empty():
            return
        keys, pattern = _form(frame[text][0], style)
        if not keys:
            # The records after it may have some: only those without any go with it.
            keyed = _has_key(frame[text], style)
            yield [], pl.concat([frame.head(1), frame.tail(-1).filter(~keyed.tail(-1))])
            frame = frame.tail(-1).filter(keyed.tail(-1))
            continue
        fields = frame[text].str.extract_groups(pattern).struct.rename_fields(["lead", *keys]).struct.unnest()
        # A line with more fields than the sample has another form: none of them may be lost before its first.
        fits = fields[keys[0]].is_not_null() & ~_has_key(fields["lead"], style)
        if not fits.any():
            yield [], frame.head(1)
            frame = frame.tail(-1)
            continue
        yield keys, pl.concat([frame, fields.drop("lead")], how="horizontal").filter(fits)
        frame = frame.filter(~fits)
    if frame.height:
        yield [], frame


def _has_key(texts: pl.Series, style: str) -> pl.Series:
    """Return which texts hold a key outside of quotes; null holds none."""
    return texts.str.replace_all(_QUOTED.pattern, '""').str.contains(_ANY_KEY[style]).fill_null(value=False)


def _form(sample: str, style: str) -> tuple[list[str], str]:
    """Return the keys of `sample` (made unlike any column name) and the pattern of its form."""
    bare = _QUOTED.sub(lambda m: '"' + "_" * (len(m[0]) - 2) + '"', sample)
    found = KEYS[style].findall(bare)
    keys: list[str] = []
    pattern = r"(?s)^(?P<lead>.*?[\s,])??"
    for i, (key, sign) in enumerate(found):
        name = "f_" + key.replace(" ", "_")
        keys.append(name if name not in keys else f"{name}_{i}")
        pattern += (r",?\s+(?:[\w *]+ \**)??" if style == "syscall" else r",?\s+") if i else ""
        pattern += re.escape(key) + (r"(?:: ?|=)" if style == "syscall" else sign) + _VALUES[style]
    return keys, pattern + r"\s*$"


def number(value: pl.Expr, *, hashed: bool = False) -> pl.Expr:
    """Return texts as u64 (two's complement): 0x.. as hexadecimal, digits as decimal, others null."""
    is_hex = value.str.contains(r"^0x[0-9a-fA-F]+$")
    digits = value.str.strip_prefix("0x")
    if hashed:
        is_hex = is_hex | value.str.contains(r"^[0-9a-f]{16}$")
    signed = value.str.to_integer(dtype=pl.Int64, strict=False)
    unsigned = value.str.to_integer(dtype=pl.UInt64, strict=False)
    return (
        pl.when(is_hex)
        .then(digits.str.to_integer(base=16, dtype=pl.UInt64, strict=False))
        .otherwise(pl.coalesce(unsigned, signed.reinterpret(signed=False)))
    )


def typed_fields(keys: list[str], *, plain_hex: bool = False, hexadecimal: tuple[str, ...] = ()) -> list[pl.Expr]:
    """Return for each key the expressions `u_KEY` (u64) and `t_KEY` (text where it is no number)."""
    exprs = []
    for key in keys:
        col = pl.col(key)
        value = bare_hex(col) if plain_hex or key[2:] in hexadecimal else number(col, hashed=key[2:] in _HASHED)
        text = pl.when(value.is_null()).then(col.str.strip_suffix('"').str.strip_prefix('"'))
        exprs += [value.alias("u_" + key[2:]), text.alias("t_" + key[2:])]
    return exprs


def bare_hex(value: pl.Expr) -> pl.Expr:
    """Return texts as u64, hexadecimal with or without 0x."""
    return value.str.strip_prefix("0x").str.to_integer(base=16, dtype=pl.UInt64, strict=False)
