"""The verb `help`: the documents that come with the package."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

import typer

from tracecorr.cli.console import show, show_markdown
from tracecorr.model.errors import InputError

# Where a topic is not in `docs/`.
_ELSEWHERE = {"commands": "cli/COMMANDS.md", "tables": "model/TABLES.md"}


def list_topics() -> dict[str, str]:
    """Return the topics: name -> path of its page (Markdown) in the package."""
    pages = sorted(page.name for page in files("tracecorr").joinpath("docs").iterdir() if page.name.endswith(".md"))
    return {page.removesuffix(".md"): f"docs/{page}" for page in pages} | _ELSEWHERE


def read_topic(topic: str) -> str:
    """Return the page of a topic (Markdown).

    Raises:
        InputError: there is no such topic.
    """
    topics = list_topics()
    if topic not in topics:
        raise InputError(f"there is no topic {topic!r}", f"topics are: {', '.join(topics)}")
    return files("tracecorr").joinpath(topics[topic]).read_text()


def help_verb(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="What to read about; none lists the topics.")
    ] = None,
) -> None:
    """Read the documents: capture, import, report, recipes, SQL, and more.

    `tracecorr VERB --help` tells the options of a verb.
    """
    if topic is not None:
        show_markdown(read_topic(topic))
        return
    titles = {name: read_topic(name).partition("\n")[0].lstrip("# ") for name in list_topics()}
    width = max(map(len, titles))
    for name, title in titles.items():
        show(f"{name:{width}}  {title}")
    show("tracecorr help TOPIC shows one")
