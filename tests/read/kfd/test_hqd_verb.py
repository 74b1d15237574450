"""The verb `hqd`: saved dumps, and the dumps of a (pretended) machine."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import dump_cases as cases
import pytest

from tracecorr.capture.debugfs import DumpRead
from tracecorr.cli import main


@pytest.fixture
def debugfs(tmp_path: Path) -> Path:
    """Return a folder like debugfs kfd/ with one running queue on two XCCs (synthetic)."""
    block = " Inst {},  CP Pipe 0, Queue 2\n" + cases.cp_block(cases.RUNNING)
    stale = " Inst 0,  CP Pipe 1, Queue 2\n" + cases.cp_block(cases.STALE)
    (tmp_path / "hqds").write_text(f"Node 1, gpu_id 65a1:\n{block.format(0)}{stale}{block.format(1)}")
    mqd = "  Compute queue on device 65a1\n" + cases.compute_mqd(cases.RUNNING) * 2
    (tmp_path / "mqds").write_text(f"Process 20 PASID 0x8001:\n{mqd}")
    return tmp_path


def test_queues_of_this_machine(debugfs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hqd", "--debugfs", str(debugfs)]) == 0
    text = capsys.readouterr().out
    assert "1 running queue, read in" in text and "1 existing queue, read in" in text
    assert "| 65a1 | cp | 2 | 0.2 | 20 | 3 | 0x7f4910800000 | 1048576 | 0x1008 | 2 | 11 | 0x111 |" in text
    assert "| 1 | 65a1 | cp | 2 | 2 | 1 | 0 |" in text


def test_slots_are_shown_when_asked_for(debugfs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(debugfs / "hqds")
    assert main(["hqd", path]) == 0
    assert "stale | " not in capsys.readouterr().out.replace("| stale | unused |", "")
    assert main(["hqd", path, "--slots"]) == 0
    text = capsys.readouterr().out
    assert text.count("| stale | ") == 2  # the heading of the counts, and the slot
    assert "| 0x111 | 0x7f4910800000 | 1048576 | 0x1008 |" in text  # registers in hex, as in the table of queues
    assert text.splitlines()[-1].startswith("slots = pipe.slot")


@pytest.mark.parametrize("dump", ["hqds", "mqds"])
def test_pointers_are_told_to_be_no_backlog(debugfs: Path, capsys: pytest.CaptureFixture[str], dump: str) -> None:
    """Of an idle queue one may be 323, the other 2371."""
    assert main(["hqd", str(debugfs / dump)]) == 0
    text = capsys.readouterr().out
    assert "| rptr | wptr |" in text and "their difference is not the backlog" in text


def test_json_tells_dumps_queues_and_slots(debugfs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "hqds.gz"
    packed.write_bytes(gzip.compress((debugfs / "hqds").read_bytes()))
    assert main(["hqd", "--json", str(packed), str(debugfs / "mqds")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(d["dump"], d["skipped"], d["read_ns"]) for d in found["dumps"]] == [("hqds", {}, None), ("mqds", {}, None)]
    assert [(q["dump"], q["xccs"], q["pid"], q["pq_base"]) for q in found["queues"]] == [
        ("hqds", 2, 20, "0x7f4910800000"),
        ("mqds", 2, 20, "0x7f4910800000"),
    ]
    assert [s["state"] for s in found["slots"]] == ["active", "stale", "active", "described", "described"]
    assert found["slots"][0]["gpu_id"] == "65a1"


def test_a_running_queue_has_the_process_of_the_mqd_with_its_doorbell_and_ring(
    debugfs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(debugfs / name) for name in ("hqds", "mqds")]

    def told(mqds: str) -> list[int | None]:
        (debugfs / "mqds").write_text(mqds)
        assert main(["hqd", "--json", *paths]) == 0
        return [q["pid"] for q in json.loads(capsys.readouterr().out)["queues"] if q["dump"] == "hqds"]

    queue = "  Compute queue on device 65a1\n"
    own, other_ring = cases.compute_mqd(cases.RUNNING), cases.compute_mqd({**cases.RUNNING, 8: 0x12345000})
    other_doorbell = cases.compute_mqd({**cases.RUNNING, 15: 0x40004026})
    assert told(f"Process 20 PASID 0x8001:\n{queue}{own}Process 21 PASID 0x8002:\n{queue}{other_doorbell}") == [20]
    assert told(f"Process 20 PASID 0x8001:\n{queue}{other_ring}") == [None]
    assert told(f"Process 20 PASID 0x8001:\n{queue}{own}Process 21 PASID 0x8002:\n{queue}{own}") == [None]


def test_a_machine_without_kfd_is_refused_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--json"], ["--watch"]):
        assert main(["hqd", "--debugfs", str(tmp_path / "none"), *more]) == 3
        said = capsys.readouterr()
        assert said.out.strip() == "" and "there is no" in said.err and "next step" in said.err


def test_watching_leaves_the_driver_alone_between_reads(
    debugfs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two reads of a second each: the next ones come 40 s later at the earliest, whatever was asked for."""
    slept: list[float] = []
    reads: list[str] = []

    def read(name: str, folder: Path) -> DumpRead:
        reads.append(name)
        return DumpRead((folder / name).read_bytes(), 0, 1_000_000_000)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("tracecorr.capture.debugfs.read_kfd_dump", read)
    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["hqd", "--debugfs", str(debugfs), "--watch", "--interval", "1"]) == 0
    said = capsys.readouterr()
    assert reads == ["hqds", "mqds"] * 2
    assert all(39 < seconds <= 40 for seconds in slept)
    assert "reading every 40.0 s instead" in said.err
    assert "hqds: 1 running queue" in said.out and "mqds: 1 existing queue" in said.out
    row = next(line for line in said.out.splitlines() if "0x7f4910800000" in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[:7] == ["65a1", "cp", "2", "0.2", "20", "3", "0x7f4910800000"]


def test_registers_of_a_virtual_function_are_not_read(
    debugfs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracecorr.capture.plan.machine.is_virtual_function", lambda: True)
    assert main(["hqd", "--debugfs", str(debugfs)]) == 0
    said = capsys.readouterr()
    assert "running" not in said.out and "1 existing queue" in said.out
    assert "SR-IOV" in said.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [(["--watch", "x"], "saved dumps"), (["--watch", "--json"], "cannot print JSON"), (["missing"], "cannot read")],
)
def test_wrong_usage_is_refused_with_2(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hqd", *words]) == 2
    assert reason in capsys.readouterr().err


def test_a_file_that_is_no_dump_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    assert main(["hqd", str(path)]) == 2
    assert "is not a dump of the KFD's queues" in capsys.readouterr().err
