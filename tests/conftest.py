"""Shared by all tests: where the recorded data is, and what may be skipped where."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tracecorr import pipeline
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

REPO = Path(__file__).resolve().parents[1]
# They record, look at what else the machine records, or wait for a browser: nothing else may run beside them.
_ON_THE_MACHINE = ("app", "capture", "cli/test_cli_capture.py", "experiment", "rigs")


@pytest.fixture(scope="session")
def repo() -> Path:
    """Return the root of the checkout."""
    return REPO


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of recorded data; without it skip, or fail where nothing may be skipped."""
    folder = Path(os.environ.get("TRACECORR_DATA") or REPO.parent / "shared" / "data")
    if folder.is_dir():
        return folder
    reason = f"no recorded data in {folder}: set TRACECORR_DATA"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


# No test in these folders looks at the views of the page, and each import would build them.
_WITHOUT_VIEWS = ("analyze", "captures", "clock", "link", "read", "simulator")
Recorded = Callable[..., Capture]


@pytest.fixture(autouse=True, scope="module")
def _views(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave out the views of the page where no test looks at them."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.relative_to(REPO / "tests").parts[0] in _WITHOUT_VIEWS:
            for name in ("hold_tables", "build_views", "write_views"):
                patch.setattr(pipeline, name, lambda *_: None)
        yield


@pytest.fixture(scope="session")
def recorded(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Return what imports a recorded run, once in a test run for all workers: no test may change the capture.

    Its arguments: the run's folder in the recorded data; `trace`, a file or folder there (None = none, as where the run
    has none); `log` and `samples`, whether these are taken, too; options of `import_files`.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "recorded"
    shared.mkdir(exist_ok=True)

    def make(
        run: str, *, trace: str | None = "ftrace.txt", log: bool = True, samples: bool = True, **options: Any
    ) -> Capture:
        folder = data_folder / run
        key = "-".join(str(word).replace("/", "_") for word in (run, trace, log, samples, *options.values()))
        logs, traces, readings = folder / "amd.log", folder / (trace or "none"), folder / "clock.json"
        out = shared / f"{key}.tracecorr"
        with (shared / f"{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (out / "tables").is_dir():
                import_files(
                    out, [logs] if log else [], [traces] if traces.exists() else [], force=True,
                    clock_samples=readings if samples and readings.exists() else None, **options,
                )  # fmt: skip
                correlate(out)
        return Capture.open(out)

    return make


@pytest.fixture(scope="module")
def copy_sample(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what copies a bundled sample by its name, with tables."""

    def copy(name: str) -> Path:
        path = tmp_path_factory.mktemp("sample") / f"{name}.tracecorr"
        shutil.copytree(repo / "samples" / path.name, path)
        correlate(path)
        return path

    return copy


@pytest.fixture(scope="module")
def sample(copy_sample: Callable[[str], Path]) -> Path:
    """Return a copy of a bundled sample with tables."""
    return copy_sample("t1-streams")


def pytest_configure() -> None:
    """Let signals do here what they do in a terminal, and properties take the time that a busy machine needs."""
    # Who runs tests in the background may have them ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    # Every run tries other examples; `scripts/soak/run mutations` tries thousands.
    settings.register_profile("few", deadline=None, max_examples=10)
    settings.load_profile("few")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what acts on the machine; leave out the PyTorch programs where no Python with PyTorch is named.

    PyTorch is too large for a test environment.
    """
    for item in items:
        if any(item.path.is_relative_to(REPO / "tests" / part) for part in _ON_THE_MACHINE):
            item.add_marker("machine")
    if os.environ.get("TRACECORR_TORCH_PYTHON"):
        return
    left_out = [item for item in items if item.get_closest_marker("torch")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
        print(f"\n{len(left_out)} tests of PyTorch programs are left out: set TRACECORR_TORCH_PYTHON to run them")


def pytest_collection_finish() -> None:
    """Look for no garbage in what all tests have imported: that took a seventh of their time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped browser test into a failure where a browser is required."""
    report = yield
    required = os.environ.get("TRACECORR_REQUIRE_BROWSER") == "1"
    if required and report.skipped and item.get_closest_marker("browser") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"browser test was skipped, but TRACECORR_REQUIRE_BROWSER=1: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a test file that skips itself as a whole into a failure where a browser is required."""
    report = yield
    if os.environ.get("TRACECORR_REQUIRE_BROWSER") == "1" and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"test file was skipped, but TRACECORR_REQUIRE_BROWSER=1: {report.longrepr}"
    return report
