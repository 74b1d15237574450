"""The verb `info`: what a capture contains and where it comes from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tracecorr.cli.console import NameArgument, open_capture, show
from tracecorr.model.errors import quote_path

if TYPE_CHECKING:
    from tracecorr.store import Capture


def info_verb(
    name: NameArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a capture holds, how it was recorded, and what is in its tables; --json prints all of capture.json."""
    capture = open_capture(name, tables=False)
    from tracecorr.analyze.evidence import Evidence, list_partial
    from tracecorr.analyze.report.brief import describe_contents
    from tracecorr.analyze.run_facts import describe_run
    from tracecorr.store.recording import count_read, describe_state

    rows = _count_rows(capture)
    if as_json:
        found = {"name": capture.name, "path": str(capture.path), "info": capture.info, "rows": rows}
        typer.echo(json.dumps(found, indent=2, default=str))
        return
    show(f"{capture.name} ({capture.path})")
    evidence = Evidence(capture.table, info=capture.info, nodes=capture.tables_of_nodes())
    for line in describe_contents(evidence) if rows else ():
        show(line)
    read = count_read(capture.table("ledger").collect()) if rows else None
    for line in describe_run(capture.info, describe_state(capture.info), read):
        show(line)
    for line in list_partial(evidence) if rows else ():
        show(line)
    counts = ", ".join(f"{table} {count}" for table, count in rows.items() if count)
    told = f"{counts} (rows)" if rows else f"none yet; build them: tracecorr correlate {quote_path(capture.path)}"
    show(f"tables: {told}")


def _count_rows(capture: Capture) -> dict[str, int]:
    from polars import len as row_count

    from tracecorr.model import schema

    if not capture.has_tables() or capture.is_outdated():
        return {}
    return {table: int(capture.table(table).select(row_count()).collect().item()) for table in schema.TABLES}
