"""The verb `correlate`: build the tables of a capture folder again."""

from __future__ import annotations

import typer

from tracecorr.cli.console import NameArgument, find_capture, say, say_warnings


def correlate_verb(name: NameArgument = None) -> None:
    """Build the tables of a capture again from its raw files, which stay as they are."""
    path = find_capture(name)

    from tracecorr.pipeline import correlate

    say_warnings(correlate(path, progress=say))
    say(f"next step: tracecorr report {path}")
    typer.echo(path)
