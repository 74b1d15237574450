// Which of the loaded records are where on the screen.
import { CLIPPED, INFERRED, NONE } from "./server.js";
import { loadedSpans } from "./start.js";
import { GUTTER, TOP, view } from "./view.js";

// The records of the row under a point: from the first to the end.
function rowAt(y) {
  const spans = loadedSpans();
  const item = view.itemAt(y);
  if (!item || item.kind !== "lane" || !spans) return null;
  const row = Math.floor((y - TOP + view.scroll - item.y - 3) / item.rowH);
  const found = (spans.tracks.get(item.lane.id) || []).find((t) => t[0] === row);
  return found ? { lane: item.lane, row: row, first: found[1], end: found[2] } : null;
}
// The start or end of an event within six pixels of a point, in whole ns; null where none is, or it is not known exactly.
export function edgeAt(x, y) {
  const found = rowAt(y), spans = loadedSpans();
  if (!found || spans.unit !== 1) return null;
  let edge = null, near = 6;
  for (let i = found.first; i < found.end; i += 1) {
    if (spans.count[i] !== 1 || spans.style[i] & CLIPPED) continue;
    for (const at of [spans.at(i), spans.at(i) + spans.dur[i]]) {
      const away = Math.abs(view.x(at) - x);
      if (away < near) { near = away; edge = at; }
    }
  }
  return edge;
}

// The record under a point; the nearest one within three pixels.
export function recordAt(x, y) {
  const found = rowAt(y), spans = loadedSpans();
  if (!found) return null;
  const k = spans.unit / view.perPixel(), origin = view.x(spans.t0);
  let best = -1, near = 3;
  for (let i = found.first; i < found.end; i += 1) {
    const a = origin + spans.start[i] * k, b = a + Math.max(spans.dur[i] * k, 2);
    const away = x < a ? a - x : x > b ? x - b : 0;
    if (away <= near) { near = away; best = i; } // of two over each other the one that begins later
  }
  if (best < 0) return null;
  return {
    event: spans.event[best], name: spans.name[best], start: spans.at(best), dur: spans.dur[best] * spans.unit,
    count: spans.count[best], style: spans.style[best], lane: found.lane, row: found.row, unit: spans.unit,
  };
}

// The loaded records in view, from top to bottom.
function* loadedRecords() {
  const spans = loadedSpans();
  for (const item of view.visibleItems(0)) {
    if (item.kind !== "lane" || !spans) continue;
    for (const [row, first, end] of spans.tracks.get(item.lane.id) || []) {
      for (let i = first; i < end; i += 1) {
        const start = spans.at(i), place = { event: spans.event[i], x: view.x(start) + 1, y: view.rowTop(item.lane.id, row) + 5 };
        yield { lane: item.lane, start: start, count: spans.count[i], style: spans.style[i], place: place };
      }
    }
  }
}
const firstPlace = (fits) => { for (const r of loadedRecords()) if (fits(r)) return r.place; return null; };
// The first event that begins in view.
export function firstInView() {
  const found = firstPlace((r) => !r.lane.counter && r.start >= view.t0 && r.start <= view.t1 && r.place.event !== NONE);
  return found && found.event;
}

// Where a loaded event is on the screen; with a layer the first single one of it. For tests that click.
export const spot = (event) => firstPlace((r) => r.place.event === event && !(r.style & INFERRED));
export const locate = (layer, count) => firstPlace((r) => (
  r.lane.layer === layer && r.count <= (count || 1) && r.place.x > GUTTER + 6 && r.place.x < view.width - 4
));
