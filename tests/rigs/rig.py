"""The null GPU rig: run captures of its programs, and read what its model says it retired."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tracecorr.store import Capture

REPO = Path(__file__).resolve().parents[2]
# The model's packets and the log's words for them.
KINDS = {"dispatch": "dispatch", "barrier": "barrier_and", "vendor": "barrier_value"}
_COLUMNS = ["pid", "gpu", "ring", "index", "type", "kernel", "signal", "start_ns", "end_ns", "bytes"]
_SECONDS = 900  # only what hangs takes that long


@dataclass(frozen=True)
class Ended:
    """What became of a command."""

    status: int
    out: str
    err: str


# Runs a command in a root of its own, which shows what the whole machine has.
_IN_JAIL = 'mount --rbind / "$1" && cd "$PWD" && exec chroot "$1" env --chdir="$PWD" "${@:2}"'


def run_verb(*words: str | Path, cwd: Path, env: Mapping[str, str] | None = None, jail: Path | None = None) -> Ended:
    """Run `tracecorr` as a user would, in a process of its own; in a root of its own where an empty folder is given."""
    command = [sys.executable, "-m", "tracecorr", *map(str, words)]
    if jail is not None:
        command = ["unshare", "--mount", "bash", "-c", _IN_JAIL, "_", str(jail), *command]
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, "PYTHONPATH": str(REPO), **(env or {})}, timeout=_SECONDS,
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def run_in_terminal(words: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Run `tracecorr` in a terminal of its own; return its exit status and what the terminal showed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        whole = {**os.environ, "PYTHONPATH": str(REPO), **env}
        os.execve(sys.executable, [sys.executable, "-m", "tracecorr", *map(str, words)], whole)
    shown = bytearray()
    with os.fdopen(terminal, "rb", buffering=0) as stream, contextlib.suppress(OSError):  # EIO at its end
        while piece := stream.read(4096):
            shown += piece
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode(errors="replace")


@dataclass(frozen=True)
class NullGpu:
    """The rig: its folder and the cache that `build.sh` filled."""

    folder: Path
    cache: Path

    def environment(self, work: Path, gpus: int = 1, *, known: bool = True) -> dict[str, str]:
        """Return the variables of a run in `work`.

        Args:
            work: folder of the capture; its path is the same inside the rig's root.
            gpus: number of GPUs of the model.
            known: whether tracecorr can find the runtime before it is loaded, through ROCM_PATH.
        """
        rocm = work / "rocm"
        rocm.mkdir(exist_ok=True)
        if not (rocm / "lib").exists():
            (rocm / "lib").symlink_to(self.cache / "root/usr/lib/x86_64-linux-gnu")
        return {
            "NULLGPU_CACHE": str(self.cache), "NULLGPU_BIND": f"{work}:{work}", "NULLGPU_GPUS": str(gpus),
            "NULLGPU_KERNEL_NS": "30000", "NULLGPU_TRUTH": str(work / "truth.csv"),
            **({"ROCM_PATH": str(rocm)} if known else {}),
        }  # fmt: skip

    def command(self, *words: str) -> list[str]:
        """Return the command that runs a program of the rig."""
        return [str(self.folder / "run.sh"), *words]


@dataclass(frozen=True)
class Run:
    """A capture of a run, and the truth of it."""

    ended: Ended
    capture: Capture
    truth: pl.DataFrame

    @property
    def info(self) -> dict[str, Any]:
        """Return capture.json."""
        return self.capture.info

    def table(self, name: str) -> pl.DataFrame:
        """Return a table."""
        return self.capture.table(name).collect()


def capture_run(
    rig: NullGpu, work: Path, program: Sequence[str], options: Sequence[str] = (), gpus: int = 1, *, known: bool = True,
    jail: Path | None = None, shown: bool = True,
) -> Run:  # fmt: skip
    """Capture a program of the rig on the host.

    Args:
        jail: an empty folder, to run tracecorr in a root of its own.
        shown: whether the capture folder is there in the root of the program.
    """
    environment = rig.environment(work, gpus, known=known)
    if not shown:
        environment["NULLGPU_BIND"] = ""
    ended = run_verb("capture", "-o", "x", *options, "--", *rig.command(*program), cwd=work, env=environment, jail=jail)
    assert (work / "x.tracecorr").is_dir(), ended.err
    return Run(ended, Capture.open(work / "x.tracecorr"), read_truth(work / "truth.csv"))


def read_truth(path: Path) -> pl.DataFrame:
    """Return what the model retired, rings as numbers; nothing where no runtime was loaded."""
    if not path.stat().st_size:
        return pl.DataFrame(schema=_COLUMNS)
    frame = pl.read_csv(path, has_header=False, new_columns=_COLUMNS, schema_overrides={"ring": pl.String})
    return frame.with_columns(pl.col("ring").str.strip_prefix("0x").str.to_integer(base=16, dtype=pl.UInt64))


def check_packets(run: Run) -> None:
    """Compare packets, queues and doorbells of a capture with the model's; pids are those of the log."""
    queues, processes = run.table("queues"), run.table("processes")
    launches = run.table("launches").filter(pl.col("packet_index").is_not_null())
    launches = launches.join(queues.select("queue", ring="hwq"), on="queue", how="left")
    launches = launches.join(processes.select("process", log="log_pid"), on="process", how="left")
    found = launches.select(
        pl.col("log").cast(pl.Int64).alias("pid"), "ring", pl.col("packet_index").alias("index"),
        pl.col("kind").cast(pl.String),
    )  # fmt: skip
    logged = queues.drop_nulls("hwq").join(processes.select("process", log="log_pid"), on="process")
    rings = logged.select(pl.col("log").cast(pl.Int64).alias("pid"), pl.col("hwq").alias("ring")).unique()
    packets = run.truth.filter(pl.col("type").is_in(list(KINDS)))
    true = packets.select("pid", "ring", "index", kind=pl.col("type").replace(KINDS))
    expected = true.join(rings, on=["pid", "ring"], how="semi")
    assert found.height > 0
    assert found.sort(found.columns).rows() == expected.sort(expected.columns).rows()
    # ROCr's own queue has barrier-value packets only, and no line in the log.
    hidden = true.join(rings, on=["pid", "ring"], how="anti")
    assert set(hidden["kind"].unique()) <= {"barrier_value"}
    created = run.truth.filter(pl.col("type").is_in(["queue_create", "sdma_queue_create"]))
    assert queues.height == created.height
    assert rings.join(created.select("pid", "ring"), on=["pid", "ring"], how="anti").is_empty()
    check_doorbells(run, launches)


def check_doorbells(run: Run, launches: pl.DataFrame) -> None:
    """Every packet has its own recorded store, or (in a graph's batch) follows from a later one of its ring."""
    stores = run.table("events").filter(pl.col("layer").cast(pl.String) == "doorbell")
    stores = stores.select("event", pl.col("packet_index").alias("value"), pl.col("queue").alias("store_queue"))
    joined = launches.join(stores, left_on="doorbell_event", right_on="event", how="left")
    assert joined["value"].null_count() == 0
    assert (joined["store_queue"] == joined["queue"]).all()
    recorded = joined["doorbell_evidence"].cast(pl.String) == "recorded"
    assert joined.filter(recorded).select((pl.col("value") == pl.col("packet_index")).all()).item()
    batched = joined.filter(~recorded)
    assert set(batched["doorbell_evidence"].cast(pl.String).unique()) <= {"derived"}
    assert (batched["value"] > batched["packet_index"]).all()
    assert batched.height < launches.height // 10


def check_threads(run: Run) -> None:
    """Every thread of the log is one of the kernel's, as the C library registered or its lines were written."""
    threads = run.table("threads").filter(pl.col("log_tid").is_not_null())
    assert threads.height > 0
    assert threads["tid"].null_count() == 0
    assert threads["tid"].n_unique() == threads.height
    assert set(threads["how"].cast(pl.String).unique()) <= {"set_robust_list", "write"}


def list_leftovers(run: Run) -> list[str]:
    """Return instances and probes that a capture left in tracefs."""
    root = Path("/sys/kernel/tracing")
    names = [path.name for path in (root / "instances").iterdir()] + (root / "uprobe_events").read_text().split()
    return [name for name in names if f"tracecorr_{run.info['recorder']['pid']}_" in name]
