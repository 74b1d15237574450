"""Every notebook runs from top to bottom: on the bundled sample, the comparison on two recorded runs."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tracecorr import open_sample
from tracecorr.pipeline import correlate, import_files, make_dataset

NOTEBOOKS = ("first-look", "queues", "path-of-a-launch", "compare", "clock-quality", "custom-analyses")


# What a reader of the notebook must be told when the capture has no log.
SAID_OF_A_TRACE = {
    "first-look": "ftrace:unknown is the only clock",
    "queues": "no packet of the log prints both indexes",
    "clock-quality": "no clock has bounds",
    "custom-analyses": "no thread launched twice",
    "path-of-a-launch": "This capture has no dispatch",
}


def run(path: Path) -> str:
    """Run a notebook and return the text that its cells gave, its charts as their data."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra notebooks)")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (extra notebooks)")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (extra notebooks)")
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    ).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    data = [output.get("data", {}) for output in outputs]
    texts = [told.get("text/plain") or told.get("application/vnd.plotly.v1+json", "") for told in data]
    return "\n".join(str(o.get("text") or text) for o, text in zip(outputs, texts, strict=True))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache folder of its own for the sample."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, cache: Path, repo: Path) -> None:
    """Let the notebooks use this checkout and this cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("PYTHONPATH", str(repo))
    for name in ("TRACECORR_CAPTURE", "TRACECORR_A", "TRACECORR_B"):
        monkeypatch.delenv(name, raising=False)


def test_all_notebooks_are_tested(repo: Path) -> None:
    assert sorted(p.stem for p in (repo / "notebooks").glob("*.ipynb")) == sorted(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_saved_with_what_its_cells_give(name: str, repo: Path) -> None:
    """So that a reader of the repository sees it: `scripts/make_notebooks.py` writes them."""
    text = (repo / "notebooks" / f"{name}.ipynb").read_text()
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert all(cell["outputs"] for cell in cells) and not [o for o in outputs if o["output_type"] == "error"]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    assert str(repo) not in text and "/tmp/" not in text and len(text) < 400_000


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_from_top_to_bottom(name: str, repo: Path) -> None:
    assert run(repo / "notebooks" / f"{name}.ipynb")


def test_comparison_of_recorded_runs(
    repo: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for side, name in (("A", "caseA-1stream"), ("B", "caseB-4streams")):
        folder = data_folder / "captures" / name
        made = import_files(tmp_path / f"{name}.tracecorr", [folder / "amd.log"], [folder / "ftrace.txt"])
        correlate(made.path)
        monkeypatch.setenv(f"TRACECORR_{side}", str(made.path))
    text = run(repo / "notebooks" / "compare.ipynb")
    assert "queues with dispatches: 1 in A, 4 in B" in text
    assert "packet to observed completion" in text and "│ … " not in text  # no row is left out


@pytest.mark.parametrize("name", list(SAID_OF_A_TRACE))
def test_a_trace_without_a_log(
    repo: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made = import_files(tmp_path / "x.tracecorr", [], [data_folder / "captures/t1-local-clock/ftrace.txt"])
    correlate(made.path)
    monkeypatch.setenv("TRACECORR_CAPTURE", str(made.path))
    assert SAID_OF_A_TRACE[name] in run(repo / "notebooks" / f"{name}.ipynb")


def test_verdicts_are_shown_whole(repo: Path) -> None:
    """All of them, and their reasons to the end."""
    shown = " ".join(run(repo / "notebooks" / "first-look.ipynb").replace("┆", "").split())
    verdicts = open_sample().verdicts()
    assert len(verdicts) > 10 and all(f"│ {v.name} {v.outcome.value} " in shown for v in verdicts)
    assert "… │" not in shown


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name != "custom-analyses"])
def test_no_column_is_left_out(repo: Path, name: str) -> None:
    """Polars leaves out those in the middle of more than eight: of the queues those that say how long it took."""
    shown = run(repo / "notebooks" / f"{name}.ipynb")
    assert "┆ … ┆" not in shown and "shape: (" in shown


def test_the_ioctl_that_creates_a_queue_is_shown(repo: Path) -> None:
    """Hundreds of rows follow its line in the call that makes the first queue: polars shows the first and last five."""
    shown = run(repo / "notebooks" / "queues.ipynb")
    assert "AMDKFD_IOC_CREATE_QUEUE" in shown and "queue_created" in shown


def test_raw_records_of_a_launch_can_be_read(repo: Path) -> None:
    """A store is recorded in binary."""
    shown = run(repo / "notebooks" / "path-of-a-launch.ipynb")
    assert "hipModuleLaunchKernel (" in shown and " doorbell: __probe_ip=0x" in shown


def test_a_dataset_of_two_nodes(repo: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = []
    for name in ("hip-7.2.4", "hip-6.4.3"):
        made = import_files(tmp_path / f"{name}.tracecorr", [data_folder / "captures" / name / "amd.log"], [])
        correlate(made.path)
        nodes.append(made.path)
    monkeypatch.setenv("TRACECORR_CAPTURE", str(make_dataset(nodes, tmp_path / "fleet.tracecorr").path))
    assert "times of different nodes are not comparable" in run(repo / "notebooks" / "first-look.ipynb")
    assert "hip-6.4.3" in run(repo / "notebooks" / "clock-quality.ipynb")
    assert "0x" in run(repo / "notebooks" / "queues.ipynb")  # As the log prints it.


def test_a_launch_whose_call_was_cut_off(
    repo: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (data_folder / "captures/hip-7.2.4/amd.log").read_bytes().splitlines(keepends=True)
    log = tmp_path / "amd.log"
    log.write_bytes(b"".join(line for line in whole if b"LaunchKernel: Returned" not in line))
    made = import_files(tmp_path / "x.tracecorr", [log], [])
    correlate(made.path)
    launches = made.table("launches").filter(pl.col("kind") == "dispatch").collect()
    assert launches.height and launches["return_ns"].count() == 0
    monkeypatch.setenv("TRACECORR_CAPTURE", str(made.path))
    assert run(repo / "notebooks" / "path-of-a-launch.ipynb")
