"""What the argument parser does not do: options with many values, flags in any place, times with a unit, and a
plain `--help`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from tracecorr.model.errors import InputError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
# Options of `import` that take every word up to the next option: `--amd-log *.log`.
_GREEDY = ("--amd-log", "--ftrace", "--hqd", "--rocprof", "--kernel-log")


def expand_greedy(words: list[str]) -> list[str]:
    """Return `words` of the verb `import` with `--amd-log A B` written as `--amd-log A --amd-log B`.

    The verb has no positional arguments, so a word after such an option can mean nothing else.
    """
    if not words or words[0] != "import":
        return words
    return [words[0], *_repeat_options(words[1:])]


def _repeat_options(words: list[str]) -> Iterator[str]:
    option, values = "", 0
    for word in words:
        if word.startswith("-") and word != "-":
            option, values = (word if word in _GREEDY else ""), 0
        elif option:
            values += 1
            if values > 1:
                yield option
        yield word


def take_flag(words: list[str], flag: str) -> tuple[list[str], bool]:
    """Return `words` without `flag`, and whether it was there; words after `--` are not looked at."""
    end = words.index("--") if "--" in words else len(words)
    head = [word for word in words[:end] if word != flag]
    return head + words[end:], len(head) < end


def read_time(option: str, text: str) -> float:
    """Return the seconds of a time such as `500ms`, `30s`, `2m` or `30`.

    Raises:
        InputError: it is none, or nothing.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text.strip())
    if not found or not float(found[1]):
        raise InputError(f"{option} {text!r} is not a time", "write a number with ms, s, m or h: 500ms, 30s")
    return float(found[1]) * _UNITS[found[2] or "s"]


class Verb(TyperCommand):
    """Show no type behind a flag, where a word would be taken for an argument, nor behind an argument."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags without a value and arguments without a type."""
        return _strip_types(super().get_params(ctx))


class Verbs(TyperGroup):
    """Show no type behind a flag of the program itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags without a value and arguments without a type."""
        return _strip_types(super().get_params(ctx))


def _strip_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
        elif isinstance(parameter, TyperArgument):
            argument: Any = parameter
            # `list[Path]` beside its name says nothing to a user.
            argument.display_type_rich = _tell_none
            metavar = parameter.metavar or ""
            if parameter.required or "..." in metavar:
                # Else the usage line shows `{A}` and `[[--] COMMAND...]...`.
                argument.get_usage_pieces = partial(_show_as_named, metavar)
    return parameters


def _show_as_named(metavar: str, _: Any) -> list[str]:
    """Return what the usage line shows for an argument."""
    return [metavar]


def _tell_none(ctx: Any) -> None:
    """Return no type."""
