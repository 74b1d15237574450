"""The order of the work on a cluster: ranges of logs, then the tables of each capture, then the dataset.

A worker gets paths and places, and gives back where it wrote the rows.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tracecorr.model.errors import ClusterError, InputError, MachineError, TracecorrError, quote_path
from tracecorr.pipeline import correlate
from tracecorr.read.amdlog.blocks import BLOCK_BYTES
from tracecorr.store import Capture
from tracecorr.store.fleet import Member, begin_fleet, finish_fleet, plan_fleet, write_member
from tracecorr.store.log_ranges import LogFile, StartedLog, Submit, finish_log, list_long_logs, start_log
from tracecorr.store.parts import StoredPart

if TYPE_CHECKING:
    from distributed import Client


def _build_capture(capture: Path, ready: dict[int, list[StoredPart]]) -> list[str]:
    """Build the tables of a capture from what was read of its logs, and return the warnings."""
    return correlate(capture, ready=ready)


def _write_node(stage: Path, member: Member) -> str:
    """Write the tables of a node into a dataset, and return its name."""
    write_member(stage, member)
    return member.node


def _find_missing(paths: list[Path]) -> list[str]:
    """Return the paths that this process does not see."""
    return [str(path) for path in paths if not (path / "capture.json").is_file()]


_LOCAL = "local"
_CONNECT_S = 10
_Say = Callable[[str], None]


def correlate_on_cluster(
    address: str,
    paths: Sequence[Path],
    out: Path | None,
    say: _Say,
    *,
    force: bool = False,
    block_bytes: int = BLOCK_BYTES,
) -> dict[Path, list[str]]:
    """Build the tables of captures on the workers of a cluster.

    Args:
        address: of a Dask scheduler, or `local` for one worker process for each CPU of this machine.
        paths: capture folders, on a file system that all workers see under the same path.
        out: dataset of all of them to make; None = none.
        say: called with a line of progress.
        force: replace `out`.
        block_bytes: about how many bytes of a log a reader takes at once.

    Returns: the warnings of each capture.

    Raises:
        InputError: there is no scheduler, or a worker does not see a capture.
        MachineError: Dask is not installed; nothing was done.
        ClusterError: the cluster failed.
        CaptureError: a folder is no capture, or `out` is one of them or exists.
    """
    places = [path.resolve() for path in paths]
    captures = [Capture.open(place) for place in places]
    stage = begin_fleet(places, out, force=force) if out is not None else None
    try:
        with _connect(address) as client:
            _check_workers(client, places)
            warnings = _build_captures(client, captures, say, block_bytes)
            if stage is not None and out is not None:
                _write_dataset(client, places, stage, out, say)
    finally:
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)
        for place in places:
            shutil.rmtree(_parts_folder(place), ignore_errors=True)
    return dict(zip(paths, warnings, strict=True))


@contextmanager
def _connect(address: str) -> Iterator[Client]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MachineError(
            "the package distributed (Dask) is not installed",
            f"install it: {quote_path(Path(sys.executable))} -m pip install distributed",
        ) from error
    if address == _LOCAL:
        with LocalCluster(threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            yield client
        return
    try:
        client = Client(address, timeout=_CONNECT_S)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"there is no Dask scheduler at {address}: {error}", "start one with `dask scheduler`, and workers for it"
        ) from error
    with client:
        yield client


def _check_workers(client: Client, places: list[Path]) -> None:
    if not client.scheduler_info()["workers"]:
        raise InputError("the cluster has no workers", f"start some: dask worker {client.scheduler_info()['address']}")
    with _told_failures():
        missing = client.run(_find_missing, places)
    for worker, paths in missing.items():
        if paths:
            raise InputError(
                f"worker {worker} does not see {paths[0]}", "put the captures where all workers see the same path"
            )


@contextmanager
def _told_failures() -> Iterator[None]:
    """Turn what a worker failed with into an error that says where; ours pass as they are."""
    try:
        yield
    except TracecorrError:
        raise
    except Exception as error:
        raise ClusterError(
            f"a worker failed: {type(error).__name__}: {error}",
            "look at the worker's own messages; it needs this version of tracecorr, and memory for a whole capture",
        ) from error


def _build_captures(client: Client, captures: list[Capture], say: _Say, block_bytes: int) -> list[list[str]]:
    threads = sum(worker["nthreads"] for worker in client.scheduler_info()["workers"].values())
    submit = partial(client.submit, pure=False)
    # All ranges are handed out first, so that no worker waits while borders of one log are compared.
    logs = [
        [start_log(submit, log, threads, block_bytes) for log in _list_logs(capture, 4 * block_bytes)]
        for capture in captures
    ]
    building = []
    for capture, own in zip(captures, logs, strict=True):
        with _told_failures():
            ready = {started.log.file: _finish(submit, started, say) for started in own}
            building.append(submit(_build_capture, capture.path, ready))
    with _told_failures():
        out = []
        for capture, future in zip(captures, building, strict=True):
            out.append(list(future.result()))
            say(f"{capture.path}: tables built")
        return out


def _list_logs(capture: Capture, least_bytes: int) -> list[LogFile]:
    """Return the logs of a capture that are long enough for ranges; others are read where the tables are built."""
    parts = _parts_folder(capture.path)
    found = list_long_logs(capture.path, capture.info["files"], parts, least_bytes)
    if found:
        parts.mkdir(exist_ok=True)
    return found


def _parts_folder(capture: Path) -> Path:
    return capture / ".cluster-parts"


def _finish(submit: Submit, started: StartedLog, say: _Say) -> list[StoredPart]:
    parts, again = finish_log(submit, started)
    say(f"{started.log.path.name}: {len(parts)} ranges, {again} of them read again behind an open call")
    return parts


def _write_dataset(client: Client, places: list[Path], stage: Path, out: Path, say: _Say) -> None:
    members = plan_fleet(places)
    with _told_failures():
        futures = [client.submit(_write_node, stage, member, pure=False) for member in members]
        for node in client.gather(futures):
            say(f"{out}: node {node} written")
    finish_fleet(stage, out, members)
