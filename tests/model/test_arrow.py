"""Arrays of arrow become columns as they are, and nothing large is imported for it. The arrays are SYNTHETIC."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from tracecorr.model.columns import take_column


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None, 3], pa.uint32()), pl.Series([1, None, 3], dtype=pl.UInt32)),
        (pa.array([1, None, 3], pa.uint32()).slice(1), pl.Series([None, 3], dtype=pl.UInt32)),
        (pa.array([-1, 2], pa.int64()), pl.Series([-1, 2], dtype=pl.Int64)),
        (pa.array(["a", None, "é"]), pl.Series(["a", None, "é"])),
        (pa.array(["a", "b"], pa.large_string()), pl.Series(["a", "b"])),
        (pa.array([], pa.string()), pl.Series(dtype=pl.String)),
    ],
)
def test_an_array_is_a_column(array: pa.Array, expected: pl.Series) -> None:
    """Type, values, nulls and the beginning of a slice are kept."""
    taken = take_column(array)
    assert taken.dtype == expected.dtype
    assert taken.to_list() == expected.to_list()


def test_an_import_does_not_load_what_arrow_computes_with(sample: Path) -> None:
    """Every import would wait for that."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tracecorr.pipeline import correlate\n"
        "correlate(Path(sys.argv[1]))\n"
        "print('pyarrow.compute' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code, sample], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
