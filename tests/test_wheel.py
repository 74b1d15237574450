"""The wheel: it installs and runs without a checkout and without a compiler."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

# The versions of the lock are those of the environment that runs the tests: the wheel alone is new in its own.
_SITE = sysconfig.get_path("purelib")


def _run(*words: object, cwd: Path) -> str:
    bare = {"PATH": "/no/compiler", "HOME": str(cwd), "TERM": "dumb"}
    done = subprocess.run([str(w) for w in words], cwd=cwd, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def program(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of a tracecorr that is installed from a wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, repo], check=True)
    (wheel,) = folder.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"tracecorr/native/kernel.so", "tracecorr/docs/capture.md", "tracecorr/py.typed"} <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "scripts/"))]
    assert "none-any" not in wheel.name
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv/bin/python"
    subprocess.run([*pip, "--python", python, "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    (own,) = (folder / "venv/lib").glob("python*/site-packages")
    (own / "others.pth").write_text(f"{_SITE}\n")
    return [str(folder / "venv/bin/tracecorr")]


def test_the_wheel_shows_its_sample_and_exports_it(program: list[str], tmp_path: Path) -> None:
    told = _run(*program, "demo", "--no-serve", cwd=tmp_path)
    assert "dispatches of" in told
    (sample,) = (tmp_path / ".cache/tracecorr").glob("*.tracecorr")
    assert _run(*program, "report", sample, cwd=tmp_path).startswith(f"# {sample.stem}\n")
    _run(*program, "export", sample, "-o", "x.pftrace", cwd=tmp_path)
    assert (tmp_path / "x.pftrace").stat().st_size > 100_000
    assert _run(*program, "help", "recipes", cwd=tmp_path).startswith("# Recipes")
