"""Draw a chart as SVG, which needs no script: lines, points and horizontal bars of a Plotly figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

_WIDTH, _HEIGHT, _LEGEND, _TOP, _BOTTOM, _LEFT, _BAR = 900, 300, 230, 34, 46, 70, 24
_LETTER, _TICKS = 6.6, 6
_COLOURS = ("#4269d0", "#e0892a", "#3ca951", "#d6455d", "#8a63c9", "#2a9d9d", "#9c6b4e", "#7f7f7f")
_FRAME, _GRID = (
    'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12"',
    'stroke="#8884" fill="none"',
)
_Point = tuple[float, float]


@dataclass(frozen=True)
class _Scale:
    """Map values of an axis to pixels.

    Args:
        low, high: values at the ends (not equal).
        start, end: pixels of these.
        is_log: whether equal factors are equally far apart.
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log10(v) if self.is_log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values, some six of them."""
        if self.is_log:
            powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            return [10.0**power for power in powers] or [self.low, self.high]
        rough = (self.high - self.low) / _TICKS
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def draw_svg(figure: go.Figure) -> str:
    """Return a figure as an `<svg>` element whose text has the colour of the page."""
    layout = figure.layout
    bars = [trace for trace in figure.data if trace.type == "bar"]
    body, height = _draw_bars(bars) if bars else _draw_lines(figure)
    title, x_title = escape(layout.title.text or ""), escape(layout.xaxis.title.text or "")
    y_title = escape(layout.yaxis.title.text or "")
    words = [
        _text(_LEFT, 16, title, "start", "bold"),
        _text((_LEFT + _WIDTH - _LEGEND) / 2, height - 8, x_title),
        f'<text transform="translate(14 {height / 2:.0f}) rotate(-90)" text-anchor="middle">{y_title}</text>',
        *_legend(figure.data),
    ]
    frame = f'{_FRAME} viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" aria-label="{title}"'
    return f'<svg class="chart" {frame}>{"".join((*body, *words))}</svg>'


def _draw_lines(figure: go.Figure) -> tuple[list[str], int]:
    lines = [_points(trace) for trace in figure.data]
    known = [point for line in lines for point in line if point is not None]
    is_log = figure.layout.xaxis.type == "log"
    x = _fit([p[0] for p in known if p[0] > 0 or not is_log], _LEFT, _WIDTH - _LEGEND, is_log)
    y = _fit([0.0, *(p[1] for p in known)], _HEIGHT - _BOTTOM, _TOP)
    drawn = [*_grid_x(x, _HEIGHT), *_grid_y(y)]
    for number, (trace, line) in enumerate(zip(figure.data, lines, strict=True)):
        colour, mode = _colour(trace, number), trace.mode or "lines"
        shown = [(x(p[0]), y(p[1])) if p and (p[0] > 0 or not is_log) else None for p in line]
        if "lines" in mode:
            dash = ' stroke-dasharray="5 4"' if trace.line.dash == "dash" else ""
            path = "".join(_path(shown, has_steps=trace.line.shape == "hv"))
            drawn.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>')
        if "markers" in mode:
            drawn += [f'<circle cx="{p[0]:.1f}" cy="{p[1]:.1f}" r="2" fill="{colour}"/>' for p in shown if p]
    return drawn, _HEIGHT


def _draw_bars(traces: Sequence[Any]) -> tuple[list[str], int]:
    names = list(dict.fromkeys(str(name) for trace in reversed(traces) for name in reversed(list(trace.y))))
    height = _TOP + _BOTTOM + _BAR * len(names)
    spans = list(_list_spans(traces))
    left = min(_LEFT + _LETTER * max(map(len, names)), _WIDTH / 2)
    x = _fit([*(start for *_, start, _ in spans), *(end for *_, end in spans)], left, _WIDTH - _LEGEND)
    most, drawn = int((left - _LEFT / 4) / _LETTER), _grid_x(x, height)
    drawn += [_text(left - 6, _TOP + _BAR * n + 15, escape(name[:most]), "end") for n, name in enumerate(names)]
    for number, name, start, end in spans:
        trace, top = traces[number], _TOP + _BAR * names.index(name) + 3
        place = f'x="{x(start):.1f}" y="{top}" width="{max(x(end) - x(start), 1):.1f}" height="{_BAR - 6}"'
        told = escape(f"{name}: {trace.name or ''} {end - start:.4g}")
        drawn.append(f'<rect {place} fill="{_colour(trace, number)}"><title>{told}</title></rect>')
    return drawn, height


def _list_spans(traces: Sequence[Any]) -> Iterator[tuple[int, str, float, float]]:
    """Yield the bars: number of the trace, name of the row, start and end; those without a base stand in a stack."""
    ends: dict[str, float] = {}
    for number, trace in enumerate(traces):
        bases = trace.base if trace.base is not None else [None] * len(trace.x)
        for name, value, base in zip(map(str, trace.y), trace.x, bases, strict=True):
            start = ends.get(name, 0.0) if base is None else float(base)
            ends[name] = start + float(value or 0.0)
            yield number, name, start, ends[name]


def _points(trace: Any) -> list[_Point | None]:
    """Return the points of a trace; None where a line is broken."""
    pairs = zip(trace.x if trace.x is not None else (), trace.y if trace.y is not None else (), strict=False)
    return [None if _is_none(x) or _is_none(y) else (float(x), float(y)) for x, y in pairs]


def _is_none(value: Any) -> bool:
    return value is None or not math.isfinite(value)


def _fit(values: Sequence[float], start: float, end: float, is_log: bool = False) -> _Scale:
    """Return the scale on which all values lie."""
    low, high = (min(values), max(values)) if values else (1.0, 1.0)
    if low == high:
        low, high = (low / 2, high * 2) if is_log else (low - 0.5, high + 0.5)
    return _Scale(low, high, start, end, is_log)


def _path(points: Iterable[_Point | None], *, has_steps: bool) -> Iterator[str]:
    is_begun = False
    for point in points:
        if point is not None:
            x, y = point
            yield f"M{x:.1f} {y:.1f}" if not is_begun else f"H{x:.1f}V{y:.1f}" if has_steps else f"L{x:.1f} {y:.1f}"
        is_begun = point is not None


def _grid_x(x: _Scale, height: int) -> list[str]:
    lines = [f'<path {_GRID} d="M{x(t):.1f} {_TOP}V{height - _BOTTOM}"/>' for t in x.ticks()]
    return [*lines, *(_text(x(t), height - _BOTTOM + 15, f"{t:,.6g}") for t in x.ticks())]


def _grid_y(y: _Scale) -> list[str]:
    lines = [f'<path {_GRID} d="M{_LEFT} {y(t):.1f}H{_WIDTH - _LEGEND}"/>' for t in y.ticks()]
    return [*lines, *(_text(_LEFT - 6, y(t) + 4, f"{t:,.6g}", "end") for t in y.ticks())]


def _legend(traces: Sequence[Any]) -> Iterator[str]:
    named = [(number, trace) for number, trace in enumerate(traces) if trace.name]
    for place, (number, trace) in enumerate(named[: (_HEIGHT - _TOP) // 18]):
        top = _TOP + 18 * place
        yield f'<rect x="{_WIDTH - _LEGEND + 12}" y="{top}" width="10" height="10" fill="{_colour(trace, number)}"/>'
        yield _text(_WIDTH - _LEGEND + 28, top + 9, escape(trace.name[:34]), "start")


def _colour(trace: Any, number: int) -> str:
    """Return the colour of a trace: its own, else that of its number."""
    own = trace.marker.color if trace.type == "bar" else trace.line.color
    return own if isinstance(own, str) else _COLOURS[number % len(_COLOURS)]


def _text(x: float, y: float, words: str, anchor: str = "middle", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{words}</text>'
