// Ties the parts together: start, redraw, fetch, selection.
// The page loads this module; it imports all others.
import { askedTheme, goBack, keepPlace, readHash, writeHash } from "./address.js";
import { drawChain } from "./chain.js";
import { showDetail } from "./details.js";
import { make } from "./dom.js";
import { applyFilter, hideEmptySoon } from "./filters.js";
import { drawFrame } from "./frame.js";
import { showFindings, showSteadyLaunch } from "./findings.js";
import { bind } from "./keys.js";
import { showLane } from "./lane_card.js";
import { drawLanes, readTheme, theme } from "./lanes.js";
import { clearMark, measureAnew } from "./marks.js";
import { inTurn, keepRange, overtake, turn, wish } from "./order.js";
import { buildTabs, outdatePage, recolourCharts } from "./pages.js";
import { firstInView, locate, recordAt, spot } from "./pick.js";
import { NONE, api, hold, release, tinted } from "./server.js";
import { SvgContext } from "./svg.js";
import { buildLegend, buildToolbar, emptySearch, hideTip, loadTicks, message, recount, showFailure, showRange, showSize, showWarnings, toggleHelp, isPair } from "./toolbar.js";
import { view } from "./view.js";

window.__perf = { log: [], idle: false };
const FETCH_DELAY = 25; // ms: a wheel turn fires many events
const MARGIN = 0.35; // fetched beyond each side, so that short pans need no wait
const MAX_WIDTH = 8000;
const FOLLOW_EVERY = 1500; // ms
// The same names as ids.py.
const IDS = { host: "tl-canvas-host", selection: "tl-selection" };
// old: the picture is of the reading before, and stays until there is another one.
let canvas, ctx, spans = null, old = false, drawing = false, timer = null, hashTimer = null;
export const loadedSpans = () => spans;

function picture(on) {
  on.fillStyle = theme.bg2;
  on.fillRect(0, 0, view.width, view.height);
  drawLanes(on, spans);
  drawChain(on);
  drawFrame(on);
}
export function drawSvg() {
  const vector = new SvgContext(ctx);
  picture(vector);
  return vector.text(view.width, view.height);
}
function paint() {
  drawing = false;
  const begun = performance.now();
  if (!old) picture(ctx);
  window.__perf.draw = performance.now() - begun;
  if (spans && !window.__perf.first) window.__perf.first = performance.now(); // since the page was asked for
  release();
}
export function redraw() {
  if (drawing || !view.meta) return;
  drawing = true;
  hold();
  requestAnimationFrame(paint);
}

function covered() {
  if (!spans) return false;
  const edge = 0.08 * view.span(), pixel = view.perPixel();
  const inTime = spans.t0 <= Math.max(view.t0 - edge, -edge) && spans.t1 >= Math.min(view.t1 + edge, view.meta.length);
  const sharp = spans.pixel <= pixel * 1.15 && spans.pixel * 3 >= pixel;
  const tint = tinted() ? view.colourBy : "";
  return inTime && sharp && spans.key === JSON.stringify(view.only) + tint && view.wantedLanes().every((lane) => spans.lanes.has(lane));
}
function scheduleFetch() {
  if (timer !== null || covered()) return;
  hold();
  timer = setTimeout(() => { timer = null; load().finally(release); }, FETCH_DELAY);
}
async function load() {
  const more = view.span() * MARGIN;
  const t0 = Math.floor(view.t0 - more), t1 = Math.ceil(view.t1 + more);
  const width = Math.min(MAX_WIDTH, Math.ceil(view.plotWidth() * (1 + 2 * MARGIN)));
  try {
    const got = await api.spans(t0, t1, width, view.wantedLanes());
    if (!got) return;
    if (view.problem) message("");
    view.problem = null;
    if (got.edition === view.meta.edition) { spans = got; old = false; loaded.go(); redraw(); loadTicks(); scheduleFetch(); }
  } catch (problem) {
    view.problem = problem.message;
    old = false;
    loaded.go();
    message(problem.message);
    redraw();
  }
}

let loaded = later();
function later() {
  let go;
  const done = new Promise((resolve) => { go = resolve; });
  return { done: done, go: go };
}

// Moves the selection; without one, "." takes the first event in view.
export const step = (kind, back) => inTurn(async (isOpen) => {
  if (view.selected === null) {
    const first = firstInView();
    if (first !== null) await choose(first); else message("no event in view");
    return;
  }
  const found = await api.step(view.selected, kind, back);
  if (!isOpen()) return;
  if (found.event === null) message(describeNone(kind, back, found.missing));
  else { message(""); await choose(found.event, true); }
});

function describeNone(kind, back, isMissing) {
  if (kind === "parent" || isMissing) return "this event has no " + kind;
  const none = "no " + (back ? "earlier " : "later ");
  return none + (kind === "error" ? "error" : "event of the same " + (kind === "thread" ? "thread and layer" : kind));
}

// Call after every change of the view: draws at once from what is there, fetches what is missing.
export function changed() {
  keepRange();
  showRange();
  redraw();
  scheduleFetch();
  if (view.hideEmpty) hideEmptySoon();
  if (hashTimer === null) hashTimer = setTimeout(() => { hashTimer = null; writeHash(); }, 200);
}

// --- selection --------------------------------------------------------------------------------
// Tells whether the event is the selection now.
export function select(event, bring) {
  if (event !== view.selected) keepPlace();
  overtake();
  return inTurn(async () => {
    const isChosen = await choose(event, bring);
    writeHash(); // however soon somebody goes back
    return isChosen;
  });
}
export async function choose(event, bring) {
  const mine = wish;
  let detail, problem = null;
  try { detail = await api.event(event); } catch (failure) { problem = failure; }
  if (mine !== wish) return false;
  if (problem) { message("event " + event + ": " + problem.message); return false; }
  view.selected = event;
  view.detail = detail;
  showDetail(detail);
  resize();
  if (view.chainOnly) view.layout();
  const own = detail.stages.find((s) => s.event === event);
  if (bring && own) {
    if (own.start < view.t0 || own.start > view.t1) {
      const half = view.span() / 2;
      view.setRange(own.start - half, own.start + half);
    }
    open(own.lane);
  }
  if (own) view.reveal(own.lane);
  if (own && !view.laneY.has(own.lane)) message("a filter, or a folded group, hides the lane of this event");
  tellSelection();
  changed();
  return true;
}
function tellSelection() {
  if (window.dash_clientside && window.dash_clientside.set_props) window.dash_clientside.set_props(IDS.selection, { data: view.selected });
}
// A hit inside a folded group unfolds it.
function open(laneId) {
  const groups = new Map(view.meta.groups.map((g) => [g.id, g]));
  for (let g = groups.get(view.meta.lanes[laneId].group); g; g = groups.get(g.parent)) view.collapsed.delete(g.id);
  view.layout();
}
export function clear() {
  if (document.getElementById("tl-help").classList.contains("open")) { toggleHelp(false); return; }
  if (document.getElementById("tl-card").classList.contains("open")) { clearMark(); return; }
  overtake();
  view.selected = view.detail = view.mark = view.header = null;
  view.chainOnly = false;
  emptySearch();
  showDetail(null);
  view.layout();
  resize();
  changed();
}
export function toggleChain() {
  if (!view.detail) { message("select an event first"); return; }
  view.chainOnly = !view.chainOnly;
  view.layout();
  const own = view.detail.stages.find((s) => s.event === view.selected);
  if (own) view.reveal(own.lane);
}
export const fit = () => view.fit();
export function showWhole() {
  view.chainOnly = false;
  view.scroll = 0;
  view.layout();
  view.whole();
  const own = view.detail && view.detail.stages.find((s) => s.event === view.selected);
  if (own) view.reveal(own.lane);
}

// Where nothing is loaded yet, what is clicked on is told when it has come.
export function clickAt(x, y) {
  const pick = () => {
    const hit = recordAt(x, y);
    if (hit && hit.count > 1) showLane(hit.lane, hit.start, hit.start + hit.dur);
    else if (hit && hit.event !== NONE) select(hit.event);
    else if (hit) message(hit.lane.label + ": no event belongs to this");
    else if (spans) clear();
  };
  if (spans) pick(); else inTurn(async (isOpen) => { await loaded.done; if (isOpen()) pick(); });
}

// --- theme and size ----------------------------------------------------------------------------
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  readTheme();
  recolourCharts();
  redraw();
}
export function toggleTheme() {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  changed();
}
function resize() {
  const host = document.getElementById(IDS.host), ratio = window.devicePixelRatio || 1;
  const w = host.clientWidth, h = host.clientHeight;
  if (!w || !h) return;
  canvas.width = Math.round(w * ratio);
  canvas.height = Math.round(h * ratio);
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  view.setSize(w, h);
  view.scrollBy(0);
  redraw();
  scheduleFetch();
}

window.__tl = {
  view: view,
  select: (event) => select(event, true),
  changed: () => changed(),
  state: () => ({
    t0: view.t0, t1: view.t1, selected: view.selected, chainOnly: view.chainOnly, scroll: view.scroll, detail: view.detail,
    theme: document.documentElement.dataset.theme, records: spans ? spans.n : 0, edition: spans ? spans.edition : null, lanes: view.laneY.size,
    mark: view.mark, notes: view.notes, colourBy: view.colourBy, only: view.only, count: view.search ? view.search.count : null,
  }),
  spot: spot,
  locate: locate,
};

// Until there is a picture, what goes on stands in its place: large captures take their time at the first look.
function waiting(text) {
  message(text);
  if (canvas) return;
  const box = make("div", "tl-instead");
  box.append(make("p", "", text));
  document.getElementById(IDS.host).replaceChildren(box);
}
async function fetchMeta() {
  let meta = await api.meta();
  for (let wait = 20; meta.goesOn; wait = Math.min(2 * wait, 400)) {
    waiting(meta.goesOn + " …");
    await new Promise((done) => setTimeout(done, wait));
    meta = await api.meta();
  }
  return meta;
}

// While the capture is being recorded: shows what has come since, and follows the end when it is in view.
function follow() {
  if (view.meta.readings === null) return;
  message("recording …");
  setTimeout(async () => {
    try {
      const readings = await api.live();
      if (readings !== view.meta.readings) await reload();
    } catch (problem) { message("following: " + problem.message); }
    follow();
  }, FOLLOW_EVERY);
}
// Numbers of events are those of one reading: the selection is found again by its record.
async function findAgain(detail, meta) {
  const event = detail && detail.record ? await api.same(detail.record, meta.edition) : null;
  return event === null ? null : api.event(event, meta.edition);
}
function keepSelection(detail) {
  const known = JSON.stringify(view.detail) === JSON.stringify(detail), top = () => document.querySelector("#tl-detail .tl-body");
  const scrolled = top() ? top().scrollTop : 0;
  view.selected = detail ? detail.event : null;
  view.detail = detail;
  if (known) return; // somebody reads it
  showDetail(detail);
  if (detail) { top().scrollTop = scrolled; tellSelection(); } else { view.chainOnly = false; resize(); }
}
async function reload() {
  hold();
  try {
    const meta = await fetchMeta();
    let kept, again, waited;
    // What is being looked for and selected is of the reading before, which still answers: it is waited for.
    do {
      waited = turn;
      await waited;
      kept = view.detail;
      again = await findAgain(kept, meta);
    } while (view.detail !== kept || turn !== waited);
    hideTip();
    const atEnd = view.t1 >= view.meta.length, span = view.span(), whole = view.t0 <= 0;
    const known = new Set(view.meta.groups.map((g) => g.id));
    for (const g of meta.groups) if (g.folded && !known.has(g.id)) view.collapsed.add(g.id); // as at the start
    const earlier = Number(BigInt(view.meta.t0_abs) - BigInt(meta.t0_abs));
    view.renumber(meta.lanes);
    view.meta = meta;
    view.moveBy(earlier);
    old = old || spans !== null;
    spans = null;
    loaded = later();
    if (atEnd && whole) view.whole(); else if (atEnd) view.setRange(meta.length - span, meta.length);
    keepSelection(again);
    showSize(meta);
    buildLegend(meta.ranges);
    showWarnings(meta.warnings);
    outdatePage();
    await Promise.all([applyFilter(), recount()]); // numbers of lanes and names are those of one reading, too
    measureAnew();
    if (meta.readings === null) message("the recording has ended");
    changed();
  } finally { scheduleFetch(); release(); }
}

async function start(host) {
  hold();
  // Before anything else: what goes on, or went wrong, is read in the theme, too.
  setTheme(askedTheme());
  buildLegend([]);
  waiting("reading the capture …");
  try {
    view.meta = await fetchMeta();
  } catch (problem) { await showFailure(host, problem); message(""); release(); return; }
  canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", "timeline");
  canvas.setAttribute("aria-label", "timeline: . and , select events, F fits, arrows pan, ? lists all keys");
  host.replaceChildren(canvas);
  ctx = canvas.getContext("2d");
  buildToolbar(view.meta);
  buildTabs(view.meta);
  buildLegend(view.meta.ranges);
  showWarnings(view.meta.warnings);
  for (const g of view.meta.groups) if (g.folded) view.collapsed.add(g.id);
  view.layout();
  view.whole();
  resize();
  new ResizeObserver(resize).observe(host);
  bind(canvas);
  // A link to another view of this capture was pasted here, or gone back to: what the page writes itself is no such event.
  window.addEventListener("hashchange", () => { setTheme(askedTheme()); goBack(); });
  if (!(await readHash())) await showSteadyLaunch();
  release();
  if (!isPair()) showFindings();
  follow();
}
// Dash renders its layout after the scripts ran.
function whenReady() {
  const host = document.getElementById(IDS.host);
  if (host) { start(host); return true; }
  return false;
}
if (!whenReady()) {
  const watch = new MutationObserver(() => { if (whenReady()) watch.disconnect(); });
  watch.observe(document.documentElement, { childList: true, subtree: true });
}
