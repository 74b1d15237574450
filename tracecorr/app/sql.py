"""SQL of the page: in a process of its own, with limits of time and memory, so that no query can stop the server."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl

from tracecorr.analyze.examples import EXAMPLES, find_example
from tracecorr.app.library import Opened
from tracecorr.model.errors import InputError

_SECONDS = 60
_MEMORY = 8 << 30  # bytes
_ANSWER = 64 << 20  # bytes
_one = threading.Lock()


def ask_sql(path: Path, text: str) -> pl.DataFrame:
    """Return the rows of a query, as `tracecorr query` gives them.

    Args:
        path: the capture folder.
        text: a statement that reads.

    Raises:
        InputError: the query is wrong, or asks for too much.
    """
    command = [sys.executable, "-m", "tracecorr", "query", "--format", "json", "--", str(path), text]
    if not text.strip():
        raise InputError("the query has no SQL", "write one, or choose an example")
    with _one, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        resource.prlimit(child.pid, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        limit = threading.Timer(_SECONDS, child.kill)
        limit.start()
        try:
            told = _read(child)
        finally:
            limit.cancel()
    return pl.DataFrame(json.loads(told), infer_schema_length=None)


def _read(child: subprocess.Popen[bytes]) -> bytes:
    assert child.stdout is not None and child.stderr is not None
    told = child.stdout.read(_ANSWER + 1)
    if len(told) > _ANSWER:
        child.kill()
        raise InputError(f"the answer has more than {_ANSWER >> 20} MiB", "ask for less, such as with LIMIT 1000")
    said = child.stderr.read(1 << 16).decode(errors="replace").strip()
    status = child.wait()
    if status < 0:
        raise InputError(
            f"the query was stopped: it took more than {_SECONDS} s or {_MEMORY >> 30} GiB",
            "ask for less (LIMIT), or run it with tracecorr query",
        )
    if status:
        what, _, rest = said.partition("\n")
        raise InputError(what.removeprefix("error: "), rest.strip().removeprefix("next step: "))
    return told


def list_examples(opened: Opened) -> list[tuple[str, str, str]]:
    """Return name, what it answers, and SQL of each example for a capture."""
    by_node = bool(opened.index.capture.tables_of_nodes())
    return [(name, answers, find_example(name, by_node=by_node)) for name, (answers, _) in EXAMPLES.items()]
