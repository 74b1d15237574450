"""TAB in a shell: verbs, options, captures of the folder that is typed, words that an option takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracecorr.cli import main


def complete(line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return what bash is offered for the last word of a line, asked as the script of `--show-completion` asks."""
    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_TRACECORR_COMPLETE", "complete_bash")
    assert main([]) == 0
    told = capfd.readouterr()
    assert not told.err
    return told.out.split()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: two captures, one more in a folder below, a file that is none."""
    for name in ("gemm-a.tracecorr", "gemm-b.tracecorr", "runs/old.tracecorr", "gemm-c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "gemm-d.tracecorr").write_text("a file")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tracecorr comp", ["compare"]),
        ("tracecorr report gem", ["gemm-a.tracecorr", "gemm-b.tracecorr"]),
        ("tracecorr compare gemm-a.tracecorr gemm-b", ["gemm-b.tracecorr"]),
        ("tracecorr serve runs/", ["runs/old.tracecorr"]),
        ("tracecorr correlate nowhere/", []),
        ("tracecorr report --ht", ["--html"]),
        ("tracecorr report --verdict nothing", ["nothing_lost"]),
        ("tracecorr query gemm-a --example sk", ["skipped"]),
        ("tracecorr export --to par", ["parquet"]),
        ("tracecorr export --only hip,cop", ["hip,copy"]),
        ("tracecorr capture --event-set mi", ["minimal"]),
        ("tracecorr capture -- pyth", []),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_shell_is_offered_what_fits(
    line: str, offered: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert complete(line, monkeypatch, capfd) == offered


def test_all_verbs_are_offered(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert {"capture", "report", "serve"} < set(complete("tracecorr ", monkeypatch, capfd))
