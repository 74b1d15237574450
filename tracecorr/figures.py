"""The charts of the Python API: `cap.figure.timeline()` and its like. Imports Plotly, which takes its time."""

from __future__ import annotations

from collections.abc import Iterable

import plotly.graph_objects as go

from tracecorr.analyze import figures as draw
from tracecorr.analyze.frames import Tables
from tracecorr.export.selection import Selection
from tracecorr.model.errors import InputError


class Figures:
    """Draw charts of a capture as Plotly figures.

    Args:
        tables: gives the table of a capture by its name.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def timeline(
        self, t0_ns: int | None = None, t1_ns: int | None = None, layers: Iterable[str] | None = None
    ) -> go.Figure:
        """Return the events between two times (ns after the first event) as bars, one lane per thread and queue.

        >>> len(open_capture(sample).figure.timeline(layers=("hip",)).data)
        1

        Args:
            t0_ns, t1_ns: ns after the first event; open where None.
            layers: layers wanted; all when None or empty.

        Raises:
            InputError: more events lie in that span than a figure can hold, or there is no such layer or span.
        """
        if isinstance(layers, str) or not isinstance(layers, Iterable | None):
            raise InputError(f"layers are several names, not {layers!r}", "write layers=('hip', 'aql')")
        # It refuses what an export refuses.
        wanted = Selection(t0_ns, t1_ns, tuple(layers or ()))
        return draw.draw_timeline(self._tables, wanted.start_ns, wanted.end_ns, wanted.layers)

    def latency(self) -> go.Figure:
        """Return the distribution of each stage of steady dispatches."""
        return draw.draw_latency(self._tables)

    def rate(self) -> go.Figure:
        """Return dispatches per second over time."""
        return draw.draw_rate(self._tables)

    def queue_depth(self) -> go.Figure:
        """Return the packets in each ring over time."""
        return draw.draw_queue_depth(self._tables)

    def hip_calls(self) -> go.Figure:
        """Return the HIP functions with the longest total time."""
        return draw.draw_hip_calls(self._tables)

    def paths(self) -> go.Figure:
        """Return the mean time by layer on the way of a dispatch."""
        return draw.draw_paths(self._tables)

    def clocks(self) -> go.Figure:
        """Return the bounds of the clock maps."""
        return draw.draw_clocks(self._tables)
