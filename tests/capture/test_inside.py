"""Paths of a container's root: its absolute links lead to its own files, never to those of the host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tracecorr.capture.plan.runtimes import find_interpreter, installed_libraries
from tracecorr.capture.workload.paths import find_inside, glob_inside, resolve_inside

LIBRARY = "libhsa-runtime64.so.1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a root as ROCm's images have it, whose absolute links name folders that the host has, too."""
    inside = tmp_path / "root"
    outside = tmp_path / "host/rocm/lib"
    outside.mkdir(parents=True)
    (outside / LIBRARY).write_text("of the host")
    place = inside / f"{tmp_path}/host/rocm/lib".lstrip("/")
    place.mkdir(parents=True)
    (place / LIBRARY).write_text("of the container")
    (inside / "etc/alternatives").mkdir(parents=True)
    (inside / "etc/alternatives/rocm").symlink_to(tmp_path / "host/rocm")
    (inside / "opt").mkdir()
    (inside / "opt/rocm").symlink_to("/etc/alternatives/rocm")
    return inside


def test_libraries_behind_absolute_links_are_those_of_the_root(root: Path) -> None:
    file = resolve_inside(root, f"/opt/rocm/lib/{LIBRARY}")
    assert file.read_text() == "of the container"
    # What the kernel would make of it:
    assert (root / f"opt/rocm/lib/{LIBRARY}").resolve().is_relative_to(root) is False
    (root / "lib").mkdir()
    (root / "lib" / LIBRARY).symlink_to(f"/opt/rocm/lib/{LIBRARY}")
    found = installed_libraries(root, {"LD_LIBRARY_PATH": "/lib"})
    assert found == {f"/lib/{LIBRARY}": file}
    (root / "lib" / LIBRARY).unlink()
    assert installed_libraries(root, {"LD_LIBRARY_PATH": "/opt/rocm/lib"}) == {f"/opt/rocm/lib/{LIBRARY}": file}
    assert installed_libraries(root) == {f"/opt/rocm/lib/{LIBRARY}": file}


def test_an_interpreter_behind_an_absolute_link_is_found(root: Path) -> None:
    (root / "opt/python").write_text("")
    (root / "usr").mkdir()
    (root / "usr/python").symlink_to("/opt/python")
    (root / "bin").symlink_to("/usr")
    (root / "job").write_text("#!/usr/bin/env python\n")
    assert find_interpreter(root, "/job", {"PATH": "/nothing:/bin"}) == "/bin/python"


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("/opt/../../../etc/./alternatives", "etc/alternatives"),
        ("/opt/up/x", "x"),
        ("/gone/rocm", "gone/rocm"),
        ("", ""),
    ],
)
def test_nothing_leads_out_of_the_root(root: Path, path: str, leads_to: str) -> None:
    (root / "opt/up").symlink_to("../../../../../..")
    assert resolve_inside(root, path) == root / leads_to


def test_the_own_root_is_resolved_as_the_kernel_does(root: Path) -> None:
    path = f"{root}/opt/../etc/alternatives/rocm/lib/{LIBRARY}"
    assert str(resolve_inside(Path("/"), path)) == os.path.realpath(path)


def test_links_in_a_circle_are_no_file(root: Path) -> None:
    (root / "a").symlink_to("/b")
    (root / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        resolve_inside(root, "/a/x")
    assert find_inside(root, "/a") is None
    assert list(glob_inside(root, "/a", "*")) == []
    assert installed_libraries(root, {"LD_LIBRARY_PATH": "/a", "PYTHONPATH": "/a", "VIRTUAL_ENV": "/a"}) != {}


def test_patterns_match_names_inside(root: Path) -> None:
    for name in ("lib/python3.12/site-packages/torch/lib", "lib/python3.12/site-packages/[x]/lib", "lib/python2/a"):
        (root / "venv" / name).mkdir(parents=True)
    (root / "venv/lib64").symlink_to("/venv/lib")
    (root / "venv/lib/python3.12/site-packages/file").touch()
    packages = "python3.12/site-packages"
    assert list(glob_inside(root, "/venv", "lib*/python3*/*-packages/*/lib")) == [
        f"/venv/{lib}/{packages}/{package}/lib" for lib in ("lib", "lib64") for package in ("[x]", "torch")
    ]
    assert list(glob_inside(root, f"/venv/lib/{packages}/[x]", "lib")) == [f"/venv/lib/{packages}/[x]/lib"]
    assert list(glob_inside(root, "/", "opt/*")) == ["/opt/rocm"]
