"""Every notebook runs from top to bottom: on the bundled sample, the comparison on two recorded runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from tracecorr import open_sample
from tracecorr.pipeline import correlate, import_files, make_dataset
from tracecorr.store import Capture

NOTEBOOKS = ("first-look", "queues", "path-of-a-launch", "compare", "clock-quality", "custom-analyses")


# What a reader of the notebook must be told when the capture has no log.
SAID_OF_A_TRACE = {
    "first-look": "ftrace:unknown is the only clock",
    "queues": "no packet of the log prints both indexes",
    "clock-quality": "no clock has bounds",
    "custom-analyses": "no thread launched twice",
    "path-of-a-launch": "This capture has no dispatch",
}


def run_in_kernel(path: Path) -> str:
    """Run a notebook as Jupyter does and return the text that its cells gave, its charts as their data."""
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


def run(path: Path) -> str:
    """Run a notebook in this process, which has imported what it needs, and return the text that its cells gave."""
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="ipykernel is not installed (extra notebooks)")
    capture = pytest.importorskip("IPython.utils.capture", reason="ipykernel is not installed (extra notebooks)")
    shell = shells.InteractiveShell(colors="nocolor", history_load_length=0)
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    told = []
    with pl.Config():
        for cell in cells:
            with capture.capture_output() as shown:
                done = shell.run_cell("".join(cell["source"]))
            done.raise_error()
            told += [shown.stdout, *(str(output.data) for output in shown.outputs)]
    return "\n".join(told)


@pytest.fixture(autouse=True, scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, repo: Path) -> Iterator[None]:
    """Let the notebooks use this checkout and a cache of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        patch.setenv("PYTHONPATH", str(repo))
        for name in ("TRACECORR_CAPTURE", "TRACECORR_A", "TRACECORR_B"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def shown(environment: None, repo: Path) -> dict[str, str]:
    """Return what each notebook shows of the bundled sample."""
    del environment
    return {name: run(repo / "notebooks" / f"{name}.ipynb") for name in NOTEBOOKS}


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


def test_a_notebook_runs_in_a_kernel_of_jupyter(repo: Path) -> None:
    """The one that shows a chart by `display`, tables and text."""
    told = run_in_kernel(repo / "notebooks" / "path-of-a-launch.ipynb")
    assert "hipModuleLaunchKernel" in told and "shape: (" in told and "'layout'" in told


def test_comparison_of_recorded_runs(
    repo: Path, recorded: Callable[..., Capture], monkeypatch: pytest.MonkeyPatch
) -> None:
    for side, name in (("A", "caseA-1stream"), ("B", "caseB-4streams")):
        monkeypatch.setenv(f"TRACECORR_{side}", str(recorded(f"captures/{name}").path))
    text = run(repo / "notebooks" / "compare.ipynb")
    assert "queues with dispatches: 1 in A, 4 in B" in text
    assert "packet to observed completion" in text and "│ … " not in text  # no row is left out


@pytest.mark.parametrize("name", list(SAID_OF_A_TRACE))
def test_a_trace_without_a_log(
    repo: Path, recorded: Callable[..., Capture], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    capture = recorded("captures/t1-local-clock", log=False, samples=False)
    monkeypatch.setenv("TRACECORR_CAPTURE", str(capture.path))
    assert SAID_OF_A_TRACE[name] in run(repo / "notebooks" / f"{name}.ipynb")


def test_verdicts_are_shown_whole(shown: dict[str, str]) -> None:
    """All of them, and their reasons to the end."""
    first = " ".join(shown["first-look"].replace("┆", "").split())
    verdicts = open_sample().verdicts()
    assert len(verdicts) > 10 and all(f"│ {v.name} {v.outcome.value} " in first for v in verdicts)
    assert "… │" not in first


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name != "custom-analyses"])
def test_no_column_is_left_out(shown: dict[str, str], name: str) -> None:
    """Polars leaves out those in the middle of more than eight: of the queues those that say how long it took."""
    assert "┆ … ┆" not in shown[name] and "shape: (" in shown[name]


def test_launches_and_queues_are_shown_down_to_their_records(shown: dict[str, str]) -> None:
    """A store is recorded in binary; hundreds of rows follow the line of the first queue in its call."""
    assert "AMDKFD_IOC_CREATE_QUEUE" in shown["queues"] and "queue_created" in shown["queues"]
    path = shown["path-of-a-launch"]
    assert "hipModuleLaunchKernel (" in path and " doorbell: __probe_ip=0x" in path
    assert "mean_ns" in shown["custom-analyses"]


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
