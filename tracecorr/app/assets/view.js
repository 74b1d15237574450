// What is in view: time range, lanes and their places, selection. No drawing, no requests.
import { moveRanges } from "./order.js";

const MIN_SPAN = 20; // ns on the whole width
const WIDEST_GUTTER = 250, LEAST_GUTTER = 110;
export let GUTTER = WIDEST_GUTTER; // px for the names of the lanes
export const MINIMAP_H = 46;
export const RULER_H = 24;
export const TOP = MINIMAP_H + RULER_H;
const GROUP_H = 20;
const LANE_PAD = 5;
const ROW_H = 15;
const FOLDED_H = 12; // px of a lane whose kind is folded, whatever its rows
const PINNED = { id: "pinned", label: "pinned", parent: "" };
const CHAIN_ROW_H = 18, CHAIN_ROW_MAX = 40;

export const view = {
  meta: null, t0: 0, t1: 1, scroll: 0, width: 800, height: 600,
  collapsed: new Set(), header: null, chainOnly: false, selected: null, detail: null,
  scrolls: 0, search: null, mark: null, cursor: null, items: [], laneY: new Map(), total: 0,
  hidden: {}, only: {}, left: null, problem: null, colourBy: "layer", notes: [],
  pinned: [], order: [], foldedKinds: new Set(), hideEmpty: false, // lanes by id, in their order; layers
};
view.FACETS = ["process", "thread", "queue", "gpu", "layer", "id"];
for (const facet of view.FACETS) view.hidden[facet] = new Set(); // keys of owners, as text; layers by name

// Hidden by a filter of lanes, or without any record that the filter of events leaves.
view.isHidden = function (lane) {
  if (view.left && !view.left[lane.id]) return true;
  return view.FACETS.some((facet) => lane[facet] !== null && view.hidden[facet].has(String(lane[facet])));
};
view.filterCount = () => view.FACETS.reduce((n, f) => n + (view.hidden[f].size ? 1 : 0), 0) + Object.keys(view.only).length + (view.hideEmpty ? 1 : 0);

view.span = () => view.t1 - view.t0;
view.setSize = function (width, height) {
  view.width = width;
  view.height = height;
  GUTTER = Math.round(Math.min(WIDEST_GUTTER, Math.max(LEAST_GUTTER, width * 0.3)));
};
view.plotWidth = () => Math.max(50, view.width - GUTTER);
view.perPixel = () => view.span() / view.plotWidth();
view.x = (t) => GUTTER + (t - view.t0) / view.perPixel();
view.time = (x) => view.t0 + (x - GUTTER) * view.perPixel();

view.setRange = function (t0, t1) {
  const length = view.meta.length;
  const widest = length * 1.06 + MIN_SPAN;
  const span = Math.min(Math.max(t1 - t0, MIN_SPAN), widest);
  // A view may reach beyond the ends, the less the longer it is: zoomed out, the whole capture is in sight.
  const slack = Math.min(span * 0.5, widest - span), middle = (length - span) / 2;
  const first = Math.min(-slack, middle), last = Math.max(length + slack - span, middle);
  const begin = Math.min(Math.max(t0 + (t1 - t0 - span) / 2, first), last);
  view.t0 = begin;
  view.t1 = begin + span;
};
// The middle 99.9 % of the events where the rest lies far away; once more: from the first event to the last.
view.whole = function () {
  const core = view.meta.core, { from, to } = core || { from: 0, to: view.meta.length }, before = [view.t0, view.t1];
  const show = (a, b) => view.setRange(a - 0.01 * (b - a), b + 0.01 * (b - a));
  show(from, to);
  if (core && view.t0 === before[0] && view.t1 === before[1]) show(0, view.meta.length);
};
// Where the capture begins earlier than was known, what is looked at, measured and noted keeps its moments.
view.moveBy = function (ns) {
  if (!ns) return;
  moveRanges(ns);
  view.setRange(view.t0 + ns, view.t1 + ns);
  if (view.mark) view.mark = { a: view.mark.a + ns, b: view.mark.b + ns };
  for (const note of view.notes) note.start += ns;
};
view.zoom = function (factor, x) {
  const at = x === undefined || x === null || x < GUTTER ? (view.t0 + view.t1) / 2 : view.time(x);
  const span = Math.max(MIN_SPAN, view.span() * factor);
  const real = span / view.span();
  view.setRange(at - (at - view.t0) * real, at + (view.t1 - at) * real);
};
view.pan = (share) => view.setRange(view.t0 + share * view.span(), view.t1 + share * view.span());
view.scrollBy = function (dy) {
  if (dy) view.scrolls += 1;
  const room = Math.max(0, view.total - (view.height - TOP));
  view.scroll = Math.min(Math.max(0, view.scroll + dy), room);
};

view.chainLanes = function () {
  const stages = view.detail ? view.detail.stages : [], lanes = new Set(stages.map((s) => s.lane));
  if (stages.some((s) => s.layer === "gpu")) return lanes;
  // Where no GPU time is known its bounds tell when it was seen complete.
  const queues = new Set(stages.filter((s) => s.layer === "aql").map((s) => view.meta.lanes[s.lane].queue));
  for (const lane of view.meta.lanes) if (lane.layer === "gpu" && lane.queue !== null && queues.has(lane.queue)) lanes.add(lane.id);
  return lanes;
};

// A few lanes may use the room that they have.
function chainRowHeight(chain) {
  const rows = view.meta.lanes.reduce((sum, lane) => sum + (chain.has(lane.id) ? lane.rows : 0), 0);
  const room = view.height - TOP - chain.size * (LANE_PAD + GROUP_H / 2) - 3 * GROUP_H;
  return Math.min(CHAIN_ROW_MAX, Math.max(CHAIN_ROW_H, Math.floor(room / Math.max(1, rows))));
}

// All lanes, the pinned ones first, and those of one group as somebody moved them.
view.ordered = function (pins) {
  const at = new Map(view.order.map((id, i) => [id, i]));
  const rest = view.meta.lanes.filter((lane) => !pins.has(lane.id));
  if (at.size) {
    const moved = rest.filter((lane) => at.has(lane.id)).sort((a, b) => at.get(a.id) - at.get(b.id));
    const next = new Map();
    for (const lane of moved) next.set(lane.group, [...(next.get(lane.group) || []), lane]);
    rest.forEach((lane, i) => { if (at.has(lane.id)) rest[i] = next.get(lane.group).shift(); });
  }
  return [...[...pins].map((id) => view.meta.lanes[id]).filter(Boolean), ...rest];
};
// Lanes have other numbers in the next reading of a recording: those that somebody arranged are found by their names.
view.renumber = function (lanes) {
  const key = (lane) => lane.group + "\n" + lane.label, next = new Map(lanes.map((lane) => [key(lane), lane.id]));
  const renumbered = (ids) => [...ids].map((id) => next.get(key(view.meta.lanes[id]))).filter((id) => id !== undefined);
  view.pinned = renumbered(view.pinned);
  view.order = renumbered(view.order);
  view.hidden.id = new Set(renumbered(view.hidden.id).map(String));
};
// One place up or down among the pinned lanes, or among those of its group.
view.move = function (lane, by) {
  const isPinned = view.pinned.includes(lane.id);
  const known = isPinned ? view.pinned : view.ordered(new Set()).filter((one) => one.group === lane.group).map((one) => one.id);
  const from = known.indexOf(lane.id), to = from + by;
  if (to < 0 || to >= known.length) return;
  [known[from], known[to]] = [known[to], known[from]];
  if (!isPinned) view.order = [...view.order.filter((id) => !known.includes(id)), ...known];
};

// Lays out headers and lanes from top to bottom; lanes of collapsed groups get no place.
view.layout = function () {
  const meta = view.meta;
  const chain = view.chainOnly && view.detail ? view.chainLanes() : null;
  const rowH = chain ? chainRowHeight(chain) : ROW_H;
  const groups = new Map([...meta.groups, PINNED].map((g) => [g.id, g]));
  const shown = new Set(), pins = new Set(chain ? [] : view.pinned);
  view.items = [];
  view.laneY = new Map();
  let y = 0;
  const closed = (id) => !chain && view.collapsed.has(id);
  for (const lane of view.ordered(pins)) {
    if (chain ? !chain.has(lane.id) : !pins.has(lane.id) && view.isHidden(lane)) continue;
    const path = [];
    for (let g = groups.get(pins.has(lane.id) ? PINNED.id : lane.group); g; g = groups.get(g.parent)) path.unshift(g);
    let open = true;
    path.forEach((g, level) => {
      if (!open) return;
      if (!shown.has(g.id)) {
        shown.add(g.id);
        view.items.push({ kind: "group", id: g.id, label: g.label, level: level, y: y, h: GROUP_H });
        y += GROUP_H;
      }
      open = !closed(g.id);
    });
    if (!open) continue;
    const own = !chain && view.foldedKinds.has(lane.layer) ? Math.max(3, FOLDED_H / lane.rows) : rowH;
    const h = lane.rows * own + LANE_PAD;
    const item = { kind: "lane", lane: lane, level: path.length, y: y, h: h, rowH: own };
    view.items.push(item);
    view.laneY.set(lane.id, item);
    y += h;
  }
  view.total = y + 8;
  view.scrollBy(0);
};

view.visibleItems = function (margin) {
  const top = view.scroll - margin;
  const bottom = view.scroll + view.height - TOP + margin;
  return view.items.filter((i) => i.y + i.h >= top && i.y <= bottom);
};
view.wantedLanes = function () {
  const screen = view.height;
  return view.visibleItems(screen).filter((i) => i.kind === "lane").map((i) => i.lane.id);
};
view.itemAt = function (y) {
  if (y < TOP) return null;
  const at = y - TOP + view.scroll;
  return view.items.find((i) => at >= i.y && at < i.y + i.h) || null;
};
// Top of a depth row on the canvas; null when its lane has no place.
view.rowTop = function (lane, row) {
  const item = view.laneY.get(lane);
  return item ? TOP + item.y - view.scroll + 3 + row * item.rowH : null;
};
view.reveal = function (lane) {
  const item = view.laneY.get(lane);
  if (item) view.revealItem(item);
};
view.revealItem = function (item) {
  const room = view.height - TOP;
  if (item.y < view.scroll || item.y + item.h > view.scroll + room) view.scroll = item.y - room / 3;
  view.scrollBy(0);
};

const spanOf = (stages) => [Math.min(...stages.map((s) => s.start)), Math.max(...stages.map((s) => s.start + s.dur))];
view.extent = () => view.detail && spanOf(view.detail.stages);
function fitRange(from, to) {
  const room = Math.max(200, (to - from) * 0.12);
  view.setRange(from - room, to + room * 1.6);
}
// The event with all that it follows from; when that is in view already the chain, then the event alone.
view.fit = function () {
  if (!view.detail) { view.whole(); return; }
  const { stages, edges } = view.detail, own = stages.findIndex((s) => s.event === view.selected), causes = new Set([own]);
  for (let size = 0; size < causes.size;) {
    size = causes.size;
    for (const edge of edges) if (causes.has(edge.to)) causes.add(edge.from);
  }
  const steps = own < 0 ? [stages] : [stages.filter((s, i) => causes.has(i)), stages, [stages[own]]], before = [view.t0, view.t1];
  const isShown = () => Math.abs(view.t0 - before[0]) < 1 && Math.abs(view.t1 - before[1]) < 1; // the address keeps whole ns
  const show = (some) => { fitRange(...spanOf(some)); return !isShown(); };
  const at = steps.findIndex((some) => { fitRange(...spanOf(some)); return isShown(); });
  for (let i = 1; i <= steps.length; i += 1) if (show(steps[(at + i) % steps.length])) return;
};
