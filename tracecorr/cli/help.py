"""What `--help` shows: a value only behind an option that takes one."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption


class Verb(TyperCommand):
    """Show no type behind a flag: a word there would be taken for an argument."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags without a value."""
        return _strip_flags(super().get_params(ctx))


class Verbs(TyperGroup):
    """Show no type behind a flag of the program itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags without a value."""
        return _strip_flags(super().get_params(ctx))


def _strip_flags(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
    return parameters
