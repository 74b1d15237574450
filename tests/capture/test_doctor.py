"""The verbs doctor and clean, capture --dry-run, and what doctor is made of, on this machine and on files."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from machine_state import kill_armed, need_zlib, read_state
from test_planning import HSA

from tracecorr.capture.plan import machine as findings
from tracecorr.capture.plan.machine import probe_machine
from tracecorr.capture.plan.plan import NO, PARTLY, YES, Offer, Wanted
from tracecorr.capture.plan.planning import make_plan, render_plan
from tracecorr.capture.plan.runtimes import find_runtimes, installed_libraries, other_users, read_library, read_runtime
from tracecorr.capture.plan.trials import count_functions, explain_refusal
from tracecorr.capture.tracefs.arm import number_functions
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.journal import new_token
from tracecorr.cli import main
from tracecorr.store import free_memory

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def offer(tracefs: Tracefs) -> Offer:
    """Return what this machine offers."""
    del tracefs
    return probe_machine()


def test_doctor_leaves_nothing_behind(tracefs: Tracefs, run_folder: Path, capfd: Capture) -> None:
    before = read_state(tracefs)
    assert main(["doctor"]) == 0
    assert read_state(tracefs) == before
    assert list(run_folder.glob("*")) == []
    out = capfd.readouterr().out
    assert "a capture is possible" in out
    assert not [line for line in out.splitlines() if line.startswith("no ") and "fix: " in line]


# Recorded: how the README of tracefs describes probes on Linux 5.10 and 6.8.
_SYNTAX_5_10 = """
    Format: p[:[<group>/]<event>] <place> [<args>]
    r[maxactive][:[<group>/]<event>] <place> [<args>]
    -:[<group>/]<event>
    $stack<index>, $stack, $retval, $comm, $arg<N>,
"""
_SYNTAX_6_8 = """
    Format: p[:[<group>/][<event>]] <place> [<args>]
    r[maxactive][:[<group>/][<event>]] <place> [<args>]
    f[:[<group>/][<event>]] <func-name>[%return] [<args>]
    $stack<index>, $stack, $retval, $comm, $arg<N>,
    <argname>[->field[->field|.field...]],
"""


@pytest.mark.parametrize(("word", "reason"), [("f[:", "Invalid argument"), ("->field", "Invalid fetch argument")])
def test_doctor_says_when_a_kernel_does_not_know_a_kind_of_probe(word: str, reason: str) -> None:
    assert explain_refusal(reason, word, _SYNTAX_5_10) == f"this kernel does not know them ({reason})"
    assert explain_refusal(reason, word, _SYNTAX_6_8) == reason
    assert explain_refusal("", word, _SYNTAX_5_10) == ""
    assert explain_refusal(reason, word, "") == reason


_MIB = 1 << 20


@pytest.mark.parametrize(
    ("lines", "limits", "state", "why"),
    [
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": str(300 * _MIB)}, PARTLY, "this cgroup may use 300 MiB"),
        ("0::/a", {"a/memory.max": "max"}, YES, "memory.max max"),
        ("4:memory:/a/b\n1:name=systemd:/c\n0::/c",
         {"memory/a/b/memory.limit_in_bytes": "9223372036854771712",
          "memory/a/memory.limit_in_bytes": str(300 * _MIB)}, PARTLY, "this cgroup may use 300 MiB"),
        ("4:cpu,memory:/a", {"memory/a/memory.limit_in_bytes": "9223372036854771712"}, YES,
         "memory.limit_in_bytes max"),
        ("4:memory:/gone", {"memory/memory.limit_in_bytes": str(2**30)}, YES, f"memory.limit_in_bytes {2**30}"),
    ],
)  # fmt: skip
def test_doctor_reads_the_memory_limit_of_both_versions_of_cgroups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, limits: dict[str, str], state: str, why: str
) -> None:
    """Synthetic files, in the form of Linux 5.10."""
    (tmp_path / "own").write_text(lines + "\n")
    for name, text in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(free_memory, "_OWN_CGROUP", tmp_path / "own")
    monkeypatch.setattr(free_memory, "_CGROUPS", tmp_path)
    found = findings.look_at_limits()
    assert (found.state, found.why) == (state, why)


def test_doctor_says_yes_no_or_partly_with_a_reason(tracefs: Tracefs, capfd: Capture) -> None:
    del tracefs
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["can_capture"]
    assert {f["state"] for f in found["findings"]} <= {YES, PARTLY, NO}
    assert all(f["why"] for f in found["findings"] if f["state"] != YES)
    names = [f["name"] for f in found["findings"]]
    assert len(names) == len(set(names))
    assert {"tracefs", "instances", "function tracer", "kprobes", "fprobes", "uprobes", "/dev/kfd", "lockdown",
            "debugfs of the KFD", "container engines", "buffer memory", "rights"} <= set(names)  # fmt: skip


def test_findings_agree_with_the_kernel(offer: Offer, tracefs: Tracefs) -> None:
    states = {f.name: f.state for f in offer.findings}
    assert (states["kprobes"] == YES) == offer.kprobes == tracefs.has("kprobe_events")
    assert (states["uprobes"] == YES) == offer.uprobes
    assert (states["function tracer"] == YES) == offer.function_tracer
    assert "mono" in offer.clocks
    assert offer.events == tracefs.events()
    assert (states["events syscalls"] == YES) == ("syscalls/sys_enter_ioctl" in offer.events)
    assert offer.cpus == os.cpu_count()


def test_probes_of_captures_are_no_events_of_the_machine(tmp_path: Path) -> None:
    """Another capture that took them in would hold them when theirs ends."""
    probe = f"tracecorr_{new_token()}:doorbell"
    (tmp_path / "available_events").write_text(f"syscalls:sys_enter_ioctl\n{probe}\nuprobes:doorbell\n")
    assert Tracefs(tmp_path).events() == {"syscalls/sys_enter_ioctl", "uprobes/doorbell"}


def test_dry_run_changes_nothing(tracefs: Tracefs, run_folder: Path, offer: Offer, capfd: Capture) -> None:
    before = read_state(tracefs)
    assert main(["capture", "--dry-run", "--", "true"]) == 0
    assert read_state(tracefs) == before
    assert list(run_folder.glob("*")) == []
    out = capfd.readouterr().out
    assert f"kernel {offer.kernel}, {offer.cpus} CPUs" in out
    for line in render_plan(make_plan(Wanted(), offer), offer).splitlines():
        # Free memory moves from one look to the next.
        if "KiB" not in line:
            assert line in out


@pytest.mark.usefixtures("tracefs", "run_folder")
def test_dry_run_refuses_what_a_capture_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["capture", "--dry-run", "--", "no-such-command"]) == 127
    assert main(["capture", "--dry-run", "-o", "no/such/folder", "--", "true"]) == 2
    (tmp_path / "x.tracecorr").mkdir()
    assert main(["capture", "--dry-run", "-o", "x", "--", "true"]) == 2
    assert main(["capture", "--dry-run", "-o", "x" * 246, "--", "true"]) == 2
    err = capfd.readouterr().err
    for said in (
        "no-such-command: command not found",
        "there is no folder",
        "already exists",
        "256 bytes, of at most 255",
    ):
        assert said in err
    assert [path.name for path in tmp_path.iterdir()] == ["x.tracecorr"]


@pytest.mark.usefixtures("tracefs", "run_folder")
def test_buffers_that_the_machine_cannot_have_are_refused(capfd: Capture) -> None:
    assert main(["capture", "--dry-run", "--buffer-mb", "99999999", "--", "true"]) == 2
    assert "--buffer-mb 99999999 is more than half of the available memory" in capfd.readouterr().err


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed debugfs", "debugfs of this machine"])
def test_without_root_nothing_is_tried(is_closed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    if is_closed:
        # As debugfs is mounted on every server: others may not enter it.
        (tmp_path / "debug").mkdir(mode=0o700)
        monkeypatch.setattr(findings, "KFD_DEBUGFS", tmp_path / "debug" / "kfd")

    def become_nobody() -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    # A fork and no new program: others may not be able to read this Python.
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        become_nobody()
        with os.fdopen(write, "w") as stream, contextlib.redirect_stdout(stream):
            status = main(["doctor"])
        os._exit(status)
    os.close(write)
    with os.fdopen(read) as stream:
        out = stream.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert "tracing needs root" in out
    assert "no capture is possible" in out
    assert "debugfs of the KFD" in out


def test_two_targets_are_wrong_usage(capfd: Capture) -> None:
    assert main(["doctor", "--pid", "1", "--container", "x"]) == 2
    assert "--container and --pid" in capfd.readouterr().err


def test_unknown_container_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Capture) -> None:
    engine = tmp_path / "docker"
    engine.write_text('#!/bin/sh\necho "Error: No such container: $6" >&2\nexit 1\n')
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert main(["doctor", "--container", "gone"]) == 2
    assert "there is no container gone (asked docker as " in capfd.readouterr().err


def test_clean_undoes_what_a_killed_capture_left(tracefs: Tracefs, run_folder: Path, capfd: Capture) -> None:
    before = read_state(tracefs)
    child = kill_armed(tracefs)
    assert read_state(tracefs) != before
    assert main(["clean"]) == 0
    assert read_state(tracefs) == before
    assert f"of process {child}" in capfd.readouterr().out
    assert list(run_folder.glob("*")) == []


def test_clean_tells_what_it_cannot_remove(tracefs: Tracefs, monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    monkeypatch.setattr("tracecorr.capture.tracefs.undo._PATIENCE_S", 0.05)
    child = kill_armed(tracefs)
    instance = next(n for n in tracefs.instances() if f"_{child}_" in n and n.endswith("_gpu"))
    with (tracefs.instance(instance).root / "trace_pipe").open("rb"):
        assert main(["clean"]) == 1
    assert "cannot be removed yet" in capfd.readouterr().err
    assert main(["clean"]) == 0


def _address_of(library: Path, symbol: str) -> int:
    """Return where a symbol of a loaded library is, as an offset in its file."""
    function = getattr(ctypes.CDLL(str(library)), symbol)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        words = line.split()
        low, high = (int(part, 16) for part in words[0].split("-"))
        if low <= address < high:
            return address - low + int(words[2], 16)
    raise AssertionError(symbol)


def test_offsets_of_symbols_are_those_of_the_loaded_library(tmp_path: Path) -> None:
    library = need_zlib(tmp_path)
    runtime = read_library(library, ["crc32", "zlibVersion", "no_such_symbol"])
    assert runtime is not None
    assert runtime.kind == "other"
    assert runtime.symbols == {name: _address_of(library, name) for name in ("crc32", "zlibVersion")}
    assert read_runtime(library) is None
    assert read_library(library, ["no_such_symbol"]) is None
    assert read_library(library, []) is None


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"#!/bin/sh\n"])
def test_what_is_no_library_is_no_runtime(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "libhsa-runtime64.so.1"
    path.write_bytes(content)
    assert read_runtime(path) is None
    assert read_library(path, ["x"]) is None
    assert read_runtime(tmp_path / "missing") is None


def test_usual_places_are_looked_into(tmp_path: Path) -> None:
    wheel = tmp_path / "usr/lib/python3.12/site-packages/torch/lib"
    rocm, own = tmp_path / "opt/rocm-7.0.2/lib", tmp_path / "site/lib"
    for folder in (wheel, rocm, own):
        folder.mkdir(parents=True)
    (wheel / "libhsa-runtime64.so").touch()
    (rocm / "libamdhip64.so.7.0.2").touch()
    (rocm / "libamdhip64.so.7").symlink_to("libamdhip64.so.7.0.2")
    (rocm / "libother.so").touch()
    (own / "libroctx64.so.4").touch()
    found = installed_libraries(tmp_path, {"LD_LIBRARY_PATH": "/site/lib:relative"})
    assert found == {
        "/opt/rocm-7.0.2/lib/libamdhip64.so.7": rocm / "libamdhip64.so.7.0.2",
        "/usr/lib/python3.12/site-packages/torch/lib/libhsa-runtime64.so": wheel / "libhsa-runtime64.so",
        "/site/lib/libroctx64.so.4": own / "libroctx64.so.4",
    }


def test_doctor_looks_where_a_workload_of_its_caller_would(monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    asked: list[Mapping[str, str]] = []

    def note(_root: Path, environment: Mapping[str, str] | None, _program: str) -> dict[str, Path]:
        asked.append(environment or {})
        return {}

    monkeypatch.setattr("tracecorr.capture.plan.machine.installed_libraries", note)
    monkeypatch.setenv("ROCM_PATH", "/site/rocm")
    main(["doctor"])
    assert "runtime hsa" in capfd.readouterr().out
    assert [environment.get("ROCM_PATH") for environment in asked] == ["/site/rocm"]


def _folders(found: dict[str, Path]) -> set[str]:
    return {str(Path(name).parent).lstrip("/") for name in found}


def test_libraries_of_the_workloads_own_python_are_found(tmp_path: Path) -> None:
    """Venv, conda, a script's first line, the user's site, PYTHONPATH, preloads: all below a container's root."""
    wheel = "lib/python3.12/site-packages"
    places = [
        f"venv/{wheel}/torch/lib", f"conda/{wheel}/onnx.libs", f"home/me/.local/{wheel}/jax/lib", "conda/lib",
        f"script/{wheel}/_rocm_sdk_core/lib", "more/pkg/lib", "pre", f"own/{wheel}/torch/lib", "cached",
    ]  # fmt: skip
    for place in places:
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "libhsa-runtime64.so.1").write_text(place)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld.so.cache").write_bytes(b"x\0/cached/libhsa-runtime64.so.1\0libm.so\0/gone/libamdhip64.so\0")
    for program in ("script/bin/python", "own/bin/python"):
        (tmp_path / program).parent.mkdir()
        (tmp_path / program).touch()
    (tmp_path / "job").write_text("#!/usr/bin/env -S python -u\n")
    environment = {
        "VIRTUAL_ENV": "/venv", "CONDA_PREFIX": "/conda", "HOME": "/home/me", "PYTHONPATH": "relative:/more",
        "LD_PRELOAD": "libx.so /pre/libhsa-runtime64.so.1", "PATH": "/nothing:/script/bin",
    }  # fmt: skip
    assert _folders(installed_libraries(tmp_path, environment, "/job")) == {*places} - {f"own/{wheel}/torch/lib"}
    own = installed_libraries(tmp_path, {}, "/own/bin/python")
    assert _folders(own) == {f"own/{wheel}/torch/lib", "cached"}


def test_a_pipe_in_place_of_a_program_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    for name in ("program", "etc/ld.so.cache"):
        os.mkfifo(tmp_path / name)
    assert installed_libraries(tmp_path, {"PATH": "/"}, "/program") == {}


def test_folders_that_an_executable_tells_its_loader(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on this machine")
    (tmp_path / "app/bin").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/libhsa-runtime64.so.1").touch()
    (tmp_path / "x.c").write_text("int main(void) { return 0; }\n")
    run_path = "-Wl,-rpath,$ORIGIN/../../other:relative"
    subprocess.run(["gcc", "-o", "app/bin/x", "x.c", run_path], cwd=tmp_path, check=True)
    library = "/other/libhsa-runtime64.so.1"
    assert installed_libraries(tmp_path, {}, "/app/bin/x") == {library: Path(f"{tmp_path}{library}")}
    (tmp_path / "app/bin/x").write_bytes((tmp_path / "app/bin/x").read_bytes()[:200])
    assert installed_libraries(tmp_path, {}, "/app/bin/x") == {}


def _start_user(library: Path) -> tuple[int, Callable[[], None]]:
    """Fork a process that maps the library; return its pid and what ends it."""
    mapped_read, mapped_write = os.pipe()
    end_read, end_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(str(library))
        os.write(mapped_write, b"x")
        os.read(end_read, 1)
        os._exit(0)
    os.read(mapped_read, 1)

    def end() -> None:
        os.write(end_write, b"x")
        os.waitpid(pid, 0)

    return pid, end


def test_a_library_that_is_asked_for_is_a_runtime_all_the_same(hsa_library: Path) -> None:
    """Else the capture would take it for known, and never probe its doorbells."""
    offer = probe_machine(wanted=Wanted(uprobes=(f"{hsa_library}:hsa_queue_create",)))
    (found,) = (runtime for runtime in offer.runtimes if runtime.path == str(hsa_library))
    assert found.kind == "hsa"
    assert {"hsa_signal_store_screlease", "hsa_queue_create"} <= found.symbols.keys()


def test_users_of_a_file_are_counted(tmp_path: Path) -> None:
    library = need_zlib(tmp_path)
    runtime = read_library(library, ["crc32"])
    assert runtime is not None
    assert other_users(runtime) == []
    pid, end = _start_user(library)
    try:
        assert other_users(runtime) == [pid]
        assert other_users(runtime, [pid]) == []
        assert find_runtimes(pid) == ()
    finally:
        end()


def test_functions_are_counted_by_name_and_driver() -> None:
    lines = ["update_queue", "update_queue [amdgpu]", "init_mqd [amdgpu]", "init_mqd [amdgpu]", "vfs_fsync"]
    counts, shared = count_functions(lines)
    assert counts == {"update_queue": 1, "init_mqd": 2, "vfs_fsync": 1}
    assert shared == {"update_queue"}
    assert number_functions(lines, ["init_mqd", "update_queue:mod:amdgpu"]) == ([2, 3, 4], {})
    assert number_functions(lines, ["update_queue", "gone"]) == ([1, 2], {"gone": "there is no such function"})


def test_each_runtime_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(findings.look_at_runtimes([HSA], "container x"))
    assert [f.state for f in found] == [YES, NO, NO]
    assert HSA.path in found[0].why
    assert "container x" in found[1].why
    monkeypatch.setattr(findings, "_KFD_DEVICE", Path("/no/such/kfd"))
    assert findings.look_at_kfd().state == NO
    told = replace(HSA, kind="hip", symbols={"hipExtEnableLogging": 0x10})
    (demand,) = [f for f in findings.look_at_runtimes([told], "process 7") if f.name == "log on demand"]
    assert "hipExtEnableLogging() itself" in demand.why
    (effect,) = findings.look_at_environment({"AMD_LOG_LEVEL_SIZE": "64", "HSA_CU_MASK": "0:1"})
    assert effect.why == "AMD_LOG_LEVEL_SIZE=64: the runtime empties its log when it reaches so many MiB"
