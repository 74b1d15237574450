"""What `--help` shows: a value only behind an option that takes one, and no types of Python."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption


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
    return parameters


def _tell_none(ctx: Any) -> None:
    """Return no type."""
