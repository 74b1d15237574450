"""The page of all commands and options, made from the command line itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from typing import Any

import typer

from tracecorr.analyze.examples import EXAMPLES
from tracecorr.analyze.verdicts import CLAIMS, Thresholds

_HEAD = """# Commands

Made by `scripts/make_commands_page` from the command line itself. Results go to stdout, progress and messages to
stderr. Verbs that read a capture use the newest `*.tracecorr` in the current folder if you name none.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | tracecorr failed |
| 2 | wrong usage or bad input |
| 3 | this machine cannot do it; nothing was started or changed |
| 4 | `report --check`, `experiment --check`: a verdict is FAIL; `hang`: something hangs |
| 5 | `report --check --strict`, `experiment --check`: a verdict is UNKNOWN; `hang`: it cannot be decided |
| 130, 141 | 130: ended by Ctrl-C; 141: the reader of its output closed the pipe (as `head` does) |
| 125, 126, 127 | `capture`: tracecorr failed, COMMAND cannot run, COMMAND not found; else the status of COMMAND |
"""


def render_commands(app: typer.Typer) -> str:
    """Return the page (Markdown): every verb with its arguments and options, verdicts, thresholds, example queries."""
    root = typer.main.get_command(app)
    lines = [_HEAD, "## tracecorr\n", *_parameters(root)]
    for name, command in list_commands(root):
        lines += ["", f"## tracecorr {name}\n", *_paragraphs(command.help or ""), *_parameters(command)]
    return "\n".join([*lines, "", *_verdicts(), "", *_examples()]).rstrip() + "\n"


def list_commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield name and command of every verb; of a group of verbs those in it."""
    for name, command in getattr(group, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from list_commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


def _parameters(command: Any) -> Iterator[str]:
    shown = [p for p in command.params if p.name != "help" and not getattr(p, "hidden", False)]
    if shown:
        yield "| argument or option | meaning | default |\n|---|---|---|"
    yield from (f"| {_spell(p)} | {_plain(getattr(p, 'help', None))} | {_default(p)} |" for p in shown)


def _spell(parameter: Any) -> str:
    metavar = parameter.metavar or ""
    if parameter.param_type_name == "argument":
        shown = metavar or str(parameter.name).upper()
        if not parameter.required and not shown.startswith("["):
            shown = f"[{shown}]{'...' if parameter.nargs == -1 else ''}"
        return f"`{shown}`".replace("|", "\\|")
    names = ", ".join(f"`{o}`" for o in (*parameter.opts, *parameter.secondary_opts))
    choices = type(parameter.default) if isinstance(parameter.default, Enum) else ()
    value = metavar or " / ".join(str(choice.value) for choice in choices)
    return f"{names} {value}".strip().replace("|", "\\|")


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or value is False or value == () or callable(value) or value is ...:
        return ""
    return f"`{getattr(value, 'value', value)}`"


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help; one that keeps its lines (behind \\b) as they are, in a block of its own."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        kept = paragraph.removeprefix("\b\n")
        yield from (_plain(paragraph), "") if kept == paragraph else ("```", kept, "```", "")


def _plain(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _verdicts() -> Iterator[str]:
    yield "## Verdicts of `tracecorr report`\n\n| verdict | claim |\n|---|---|"
    yield from (f"| `{claim.name}` | {_plain(claim.text)} |" for claim in CLAIMS)
    yield "\n| threshold (`--threshold NAME=VALUE`) | default |\n|---|---|"
    yield from (f"| `{f.name}` | `{getattr(Thresholds, f.name)!r}` |" for f in fields(Thresholds))


def _examples() -> Iterator[str]:
    yield "## Queries of `tracecorr query --example`\n\n| name | what it answers |\n|---|---|"
    yield from (f"| `{name}` | {_plain(answers)} |" for name, (answers, _) in EXAMPLES.items())
