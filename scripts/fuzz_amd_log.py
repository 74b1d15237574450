"""Read damaged logs until the time is over: the reader must not fail, lose a byte, or depend on where blocks end."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from random import Random

import polars as pl
from benchmarks.big_log import write_big_log

from tracecorr.read.amdlog.reader import read_amd_log

TABLES = ("events", "packets", "args", "ledger")
_PIECES = (
    b"\n", b"\r", b"\x00", b"\xff\xfe", b" us:", b"d us: ", b":3:", b"] ", b"\x1b[32m ", b" ) \x1b[0m\n", b"0x",
    b"wptr=", b"HWq=", b"Header = ", b": Returned ", b"[***rocr***] ", b"ShaderName : ", b"[pid:7 tid: 0x5] ",
    b"%s%n", b"9" * 30,
)  # fmt: skip


def damage(data: bytes, random: Random) -> bytes:
    """Return a part of the log with some bytes changed, dropped, doubled or moved."""
    start = random.randrange(max(1, len(data) - 20_000))
    log = bytearray(data[start : start + random.randrange(1, 20_000)])
    for _ in range(random.randrange(1, 40)):
        at, size = random.randrange(len(log) + 1), random.randrange(1, 200)
        match random.randrange(5):
            case 0:
                log[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                del log[at : at + size]
            case 2:
                log[at:at] = random.choice(_PIECES)
            case 3:
                log[at:at] = log[at : at + size]
            case _:
                other = random.randrange(len(log) + 1)
                log[at:at] = log[other : other + size]
    return bytes(log)


def check(data: bytes, block_bytes: int) -> None:
    """Read a log in blocks of two sizes.

    Raises:
        AssertionError: a byte is not accounted for, or the blocks change what is read.
    """
    found = []
    for size in (block_bytes, 4 << 20):
        blocks = list(read_amd_log(BytesIO(data), 1, size))
        tables = {name: pl.concat([getattr(block, name) for block in blocks]) for name in TABLES}
        ledger = tables["ledger"].group_by("outcome", "reason").agg(pl.sum("records", "bytes"))
        tables["ledger"] = ledger.cast({"outcome": pl.String, "reason": pl.String})
        assert ledger["bytes"].sum() == len(data), "bytes are lost"
        assert tables["events"]["offset"].is_unique().all(), "two events at one byte"
        found.append({name: _in_order(table) for name, table in tables.items()})
    for name in TABLES:
        assert found[0][name].equals(found[1][name]), f"blocks change the {name}"


def _in_order(table: pl.DataFrame) -> pl.DataFrame:
    """Return rows in an order that does not depend on blocks, categories as text."""
    plain = table.with_columns(pl.col(pl.Categorical).cast(pl.String))
    keys = [name for name in ("offset", "key", "outcome", "reason") if name in plain.columns]
    return plain.sort(keys, nulls_last=True, maintain_order=True)


def main() -> int:
    """Run until the time is over; keep and name a log that fails."""
    parser = argparse.ArgumentParser(prog="fuzz_amd_log", description=__doc__)
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG", help="logs to damage (default: a synthetic one)")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random = Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        synthetic = Path(folder) / "log"
        write_big_log(synthetic, size_bytes=2_000_000, torn_every=97)
        sources = [path.read_bytes() for path in given.logs or [synthetic]]
    until, runs = time.monotonic() + given.seconds, 0
    while time.monotonic() < until:
        data = damage(random.choice(sources), random)
        try:
            check(data, random.randrange(40, 5000))
        except Exception as error:
            path = Path(tempfile.mkstemp(prefix="failing-", suffix=".log")[1])
            path.write_bytes(data)
            print(f"{path}: {type(error).__name__}: {error}", file=sys.stderr)
            raise
        runs += 1
    print(f"{runs} damaged logs, none failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
