"""The verb `help`: the documents that come with the package."""

from __future__ import annotations

from typing import Annotated

import typer

from tracecorr.bundled import list_titles, read_topic
from tracecorr.cli.console import show, show_markdown


def help_verb(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="Document to show; without it, all topics are listed.")
    ] = None,
) -> None:
    """Show the documents: capture, import, report, recipes, SQL, and more.

    `tracecorr VERB --help` shows the options of a verb.
    """
    if topic is not None:
        show_markdown(read_topic(topic))
        return
    titles = list_titles()
    width = max(map(len, titles))
    for name, title in titles.items():
        show(f"{name:{width}}  {title}")
    show("tracecorr help TOPIC shows one")
