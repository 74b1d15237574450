"""Run the notebooks on the bundled sample and save them with what their cells give; charts as SVG.

Run it with the `.venv` of the checkout: python scripts/make_notebooks.py [NAME...]
"""

from __future__ import annotations

import base64
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import numpy as np
import plotly.graph_objects as go

from tracecorr.analyze.report.html import draw_svg

_REPO = Path(__file__).resolve().parents[1]
_CHART = "application/vnd.plotly.v1+json"


def _decode(value: Any) -> Any:
    """Return data of a chart with its arrays as lists of numbers."""
    if isinstance(value, dict):
        if "bdata" in value:
            return np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"]).tolist()
        return {key: _decode(part) for key, part in value.items()}
    return [_decode(part) for part in value] if isinstance(value, list) else value


def run_notebook(path: Path) -> None:
    """Run a notebook and write it with its outputs, without times and what else differs between two runs."""
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    ).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if chart := data.get(_CHART):
                svg = draw_svg(go.Figure(data=_decode(chart["data"]), layout=chart["layout"]))
                data.clear()
                data["image/svg+xml"] = svg
    nbformat.write(book, path)


def main() -> None:
    """Run all notebooks, or those that are named."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"XDG_CACHE_HOME": cache, "PYTHONPATH": str(_REPO)}
        for path in sorted((_REPO / "notebooks").glob("*.ipynb")):
            if len(sys.argv) == 1 or path.stem in sys.argv[1:]:
                run_notebook(path)


if __name__ == "__main__":
    main()
