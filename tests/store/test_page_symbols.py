"""Records of the function tracer hold addresses: the capture stores the names of what it traced."""

from __future__ import annotations

from pathlib import Path

from tracecorr.store.pages import open_page_trace


def test_traced_functions_have_their_names(tmp_path: Path) -> None:
    place = "raw/ftrace/workload/kallsyms"
    (tmp_path / place).parent.mkdir(parents=True)
    lines = [
        "ffffffffc0b10000 t init_mqd\t[amdgpu]", "ffffffffc0b10004 t update_mqd\t[amdgpu]", "garbage", "xyz t no",
        "ffffffffc0b20000 t init_mqd\t[amdgpu]",
    ]  # fmt: skip
    (tmp_path / place).write_text("\n".join(lines))
    trace, files = open_page_trace(tmp_path, [{"path": place, "form": "description", "file": 3}])
    assert files == {}
    # Behind an ENDBR the record holds the address 4 bytes later; a function's own address comes first.
    assert trace.symbols == {
        0xFFFFFFFFC0B10000: "init_mqd", 0xFFFFFFFFC0B10004: "update_mqd", 0xFFFFFFFFC0B10008: "update_mqd",
        0xFFFFFFFFC0B20000: "init_mqd", 0xFFFFFFFFC0B20004: "init_mqd",
    }  # fmt: skip
