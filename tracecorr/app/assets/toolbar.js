// Toolbar, search, legend, help, tooltip: everything around the canvas but the detail panel.
import { writeHash } from "./address.js";
import { button, dropdown, make, table } from "./dom.js";
import { toggleFilters } from "./filters.js";
import { KEYS } from "./keys.js";
import { editNote, goToTime } from "./marks.js";
import { inTurn } from "./order.js";
import { exportView, showTimeline, shownPage } from "./pages.js";
import { recordAt } from "./pick.js";
import { CLIPPED, FAILED, HALF, INFERRED, NONE, api, exactNs, num, short, whole } from "./server.js";
import { changed, choose, fit, redraw, showWhole, toggleChain, toggleTheme } from "./start.js";
import { GUTTER, TOP, view } from "./view.js";

const $ = (id) => document.getElementById(id);
let box, counter, range, size, tip, searchAt = -1;

export function buildToolbar(meta) {
  const bar = $("tl-toolbar");
  bar.replaceChildren(make("h1", "tl-brand", "tracecorr"));
  if (meta.captures.length > 1) bar.append(selector(meta));
  else bar.append(make("span", "tl-name", meta.name));
  document.title = meta.name + " · tracecorr";
  size = make("span", "tl-note");
  showSize(meta);
  bar.append(size);
  box = make("input");
  box.type = "search";
  box.placeholder = "Name, #event, 0x…, @time  ( / )";
  box.setAttribute("aria-label", "search");
  box.addEventListener("keydown", (e) => { if (e.key === "Enter") find(e.shiftKey); });
  box.addEventListener("input", () => { searchAt = -1; if (box.value) countSoon(); else clearSearch(); });
  counter = make("span", "tl-count");
  range = make("span", "tl-range");
  const filters = button("Filters", "filters and colours (G)", () => { showTimeline(); toggleFilters(); });
  filters.id = "tl-filter-button";
  filters.setAttribute("aria-expanded", "false");
  bar.append(
    box, counter,
    button("◂", "previous hit (Shift + Enter)", () => find(true)), button("▸", "next hit (Enter)", () => find(false)), filters,
    button("Fit", "fit the selected event and the events that led to it; again: its chain (F)", () => { showTimeline(); fit(); changed(); }),
    button("Chain", "only the lanes of the chain (P)", () => { showTimeline(); toggleChain(); changed(); }),
    button("Whole", "whole capture, all lanes (0)", () => { showTimeline(); showWhole(); changed(); }),
    button("Note", "write a note (B)", () => { showTimeline(); editNote(); }), exports(),
    button("Link", "copy the address of this view", () => { writeHash(); copy(location.href, "address of this view"); }),
    button("Theme", "light or dark (T)", () => toggleTheme()), button("?", "documents, keys and mouse", () => toggleHelp()),
  );
}

export function showSize(meta) { size.textContent = num(meta.events) + (meta.events === 1 ? " event" : " events"); }

// Exports of the view: its picture, the rows in it, the range for other viewers.
function exports() {
  const forms = [["", "Export"], ["png", "PNG of the picture"], ["svg", "SVG of the picture"], ["csv", "CSV of the rows"], ["perfetto", "Perfetto of the range"]];
  const list = dropdown("export the view", forms, "", () => { const form = list.value; list.value = ""; if (form) exportView(form); });
  list.id = "tl-export";
  return list;
}

// Two captures together are an entry of their own: from them the way leads to each.
export const isPair = () => Boolean(new URLSearchParams(location.search).get("other"));
function selector(meta) {
  const shown = isPair() ? "" : meta.shown, captures = meta.captures.map((name) => [name, name]);
  const list = dropdown("capture", shown ? captures : [["", meta.name], ...captures], shown, () => {
    if (list.value) location.href = "/?capture=" + encodeURIComponent(list.value) + lookHash(shownPage);
  });
  list.title = meta.name; // of two captures it may be wider than its place
  list.classList.toggle("tl-two", isPair());
  return list;
}
// What of the view belongs to the reader and not to the capture.
export function lookHash(page) {
  const look = new URLSearchParams({ theme: document.documentElement.dataset.theme });
  if (page) look.set("page", page);
  return "#" + look.toString();
}
export async function copy(text, what) {
  try { await navigator.clipboard.writeText(text); message(what + " copied"); } catch (problem) { message("copy it from here: " + text); }
}

export const rangeText = () => range;
export function showRange() {
  const v = view;
  range.textContent = whole(v.t0) + " → " + whole(v.t1) + "  (" + short(v.span()) + ")";
  range.title = exactNs(v.t0) + " → " + exactNs(v.t1);
}

// --- search ----------------------------------------------------------------------------------
let resting = null; // the timer that counts hits
export function focusSearch() { box.focus(); box.select(); }
function clearSearch() {
  clearTimeout(resting);
  view.search = null;
  counter.textContent = "";
  redraw();
}
export function setSearch(text) { box.value = text; }
export const searchText = () => box.value.trim();
export function emptySearch() { box.value = ""; searchAt = -1; clearSearch(); }
export async function find(back) {
  clearTimeout(resting);
  const text = box.value.trim();
  if (!text) { clearSearch(); return; }
  showTimeline();
  if (text[0] === "@") { counter.textContent = goToTime(text) ? "" : "not a time of this capture: write @1.5ms"; return; }
  await inTurn((isOpen) => findNext(text, back, () => isOpen() && box.value.trim() === text));
}
// Not when it was cleared, changed or overtaken while it was looked for.
async function findNext(text, back, isOpen) {
  let found, problem = null;
  if (!isOpen()) return;
  try { found = await api.search(text, searchAt, back); } catch (failure) { problem = failure; }
  if (!isOpen()) { if (box.value.trim() === text) showHits(); return; }
  if (problem) { counter.textContent = problem.message; return; }
  view.search = { text: text, names: found.names, set: new Set(found.names), count: found.count };
  loadTicks();
  counter.textContent = found.count ? num(found.position) + " of " + num(found.count) : "nothing found";
  if (found.event !== null) { searchAt = found.event; await choose(found.event, true); }
  redraw();
}
// Hits are counted while somebody types, once the hand rests; addresses and numbers cost more, they wait for Enter.
const REST_MS = 250;
function countSoon() {
  clearTimeout(resting);
  const text = box.value.trim();
  if (!text || /^(0x|#|@|[0-9])/i.test(text)) return;
  resting = setTimeout(async () => {
    if (view.search && view.search.text === text) return;
    await showHits();
    if (box.value.trim() === text) loadTicks();
  }, REST_MS);
}
// Counts and marks the hits without going to one: for a view that comes from its address.
export async function showHits() {
  const text = box.value.trim();
  try {
    const found = await api.search(text, -1, false);
    if (box.value.trim() !== text || searchAt >= 0) return; // overtaken by the next letter, or by Enter
    view.search = { text: text, names: found.names, set: new Set(found.names), count: found.count };
    counter.textContent = found.count ? num(found.count) + " found" : "nothing found";
    redraw();
  } catch (problem) { if (box.value.trim() === text) counter.textContent = problem.message; }
}
// Repeats the search: events and names have other numbers.
export async function recount() {
  if (!view.search) return;
  searchAt = -1;
  await showHits();
}
// Where hits lie in the view: marks on the ruler.
let ticking = 0;
export async function loadTicks() {
  const search = view.search;
  if (!search) return;
  const t0 = Math.floor(view.t0), t1 = Math.ceil(view.t1), width = Math.min(8000, Math.ceil(view.plotWidth()));
  const mine = ++ticking;
  if (search.ticks && search.t0 === t0 && search.t1 === t1) return;
  let ticks, problem = null;
  try { ticks = await api.ticks(search.text, t0, t1, width); } catch (failure) { problem = failure; }
  if (mine !== ticking || search !== view.search) return; // of a view that was left since
  if (problem) { message("search: " + problem.message); return; }
  Object.assign(search, { ticks: ticks, t0: t0, t1: t1, width: width });
  redraw();
}

// Read aloud by screen readers when it changes.
function live() {
  const node = make("span", "tl-message");
  node.setAttribute("role", "status");
  return node;
}

// --- legend and status ------------------------------------------------------------------------
export function buildLegend(ranges) {
  const bar = $("tl-status");
  const entry = (kind, text) => {
    const mark = make("span", "tl-swatch " + kind);
    mark.style.setProperty("--c", "#0072B2");
    const out = make("span", "tl-entry");
    out.append(mark, document.createTextNode(text));
    return out;
  };
  bar.replaceChildren(
    entry("", "solid = recorded"), entry("hollow", "hatched, dashed = inferred"), entry("error", "dashed box = error of the start"),
    entry("loss", "✕ = records lost"), entry("merged", "lower block = several merged, height = busy share"), entry("failed", "red corner = failed"),
    ...(ranges.some((r) => r.kind === "untraced") ? [entry("untraced", "gray = no kernel trace at this time")] : []),
    ...(ranges.some((r) => r.kind === "clock") ? [entry("sample", "violet line = clock sample")] : []),
    live(), make("span", "tl-hint", "? = keys"),
  );
}
export function focusCanvas() { const canvas = document.querySelector("#tl-canvas-host canvas"); if (canvas) canvas.focus({ preventScroll: true }); }
export function message(text) { document.querySelector("#tl-status .tl-message").textContent = (text || "").replaceAll("\n", " · "); }

// What a reader of the picture must know stays in sight: the beginning of the first, and all when it is pressed.
export function showWarnings(warnings) {
  const bar = $("tl-status"), old = bar.querySelector(".tl-warning");
  const wasOpen = old !== null && old.getAttribute("aria-expanded") === "true";
  const hadFocus = old !== null && old === document.activeElement;
  if (old) old.remove();
  if (!warnings.length) return;
  const node = make("button", "tl-warning");
  const show = (open) => {
    const more = warnings.length > 1 ? " (and " + (warnings.length - 1) + " more)" : "";
    node.textContent = open ? warnings.map((text) => "⚠ " + text).join("\n") : "⚠ " + warnings[0] + more;
    node.setAttribute("aria-expanded", String(open));
  };
  node.type = "button";
  node.title = warnings.join("\n");
  node.onclick = () => show(node.getAttribute("aria-expanded") !== "true");
  show(wasOpen);
  bar.querySelector(".tl-hint").before(node);
  if (hadFocus) node.focus();
}
function topics() {
  const list = make("div", "tl-topics"), theme = document.documentElement.dataset.theme;
  for (const [topic, title] of view.meta.topics) {
    const lead = make("a", "", title);
    Object.assign(lead, { href: "/help/" + topic + "?theme=" + theme, target: "_blank" });
    list.append(lead);
  }
  return list;
}
export function toggleHelp(show) {
  const help = $("tl-help");
  if (!help.firstChild) {
    const card = make("div", "tl-card");
    card.append(make("h2", "", "Documents"), topics(), make("h2", "", "Keys and mouse"), table("", [], KEYS, ["key"]));
    help.append(card);
    help.addEventListener("click", () => toggleHelp(false));
  }
  help.classList.toggle("open", show);
}

// Instead of an empty page: what is wrong, what to do, and the way to the other captures.
export async function showFailure(host, problem) {
  const box = make("div", "tl-instead");
  box.setAttribute("role", "alert");
  const [what, ...next] = problem.message.split("\n");
  box.append(make("h2", "", "This capture cannot be shown"), make("p", "", what));
  for (const line of next) box.append(make("p", "", "Next step: " + line));
  host.replaceChildren(box);
  let names = [];
  try { names = await api.captures(); } catch (lost) { box.append(make("p", "", lost.message)); }
  const asked = new URLSearchParams(location.search).get("capture") || names[0];
  const others = make("p", "", names.length > 1 ? "The other captures served here: " : "");
  for (const name of names) {
    if (name === asked) continue;
    const link = make("a", "tl-link", name);
    link.href = "/?capture=" + encodeURIComponent(name);
    others.append(link, " ");
  }
  box.append(others);
}

// --- tooltip ----------------------------------------------------------------------------------
let asked = 0, tipTimer = null, tipKey = "";
function tipLines(hit) {
  if (hit.lane.counter) return [hit.lane.label, "at " + about(hit.start, hit.unit)];
  const lines = [view.meta.names[hit.name]];
  if (hit.count > 1) lines[0] = num(hit.count) + " events merged, longest: " + lines[0];
  if (hit.style & CLIPPED) lines.push("reaches far out of the view");
  else {
    lines.push("start " + about(hit.start, hit.unit));
    const length = hit.count > 1 ? "first start to last end " : hit.style & INFERRED ? "interval of " : "duration ";
    if (hit.dur > 0) lines.push(length + about(hit.dur, hit.unit));
  }
  if (hit.style & INFERRED) lines.push("inferred: only this interval is known");
  if (hit.style & FAILED) lines.push(hit.count > 1 ? "at least one failed" : "failed");
  if (hit.style & HALF) lines.push(hit.count > 1 ? "at least one has only its start or its end" : "only its start or its end was seen");
  return lines;
}
// In a long view times are known to a billionth of it: no digit is shown that is not known.
const told = (ns) => (Math.abs(ns) < 1000 ? exactNs(ns) : short(ns) + " (" + exactNs(ns) + ")");
function about(ns, unit) {
  return unit === 1 ? told(ns) : "about " + whole(Math.round(ns / 1000) * 1000);
}
// When the pointer rests, the server tells the exact values.
function exactTip(hit) {
  const key = hit.lane.id + ":" + hit.event + ":" + hit.start;
  if (key === tipKey) return;
  tipKey = key;
  clearTimeout(tipTimer);
  const mine = ++asked;
  tipTimer = setTimeout(async () => {
    let lines;
    try {
      if (hit.lane.counter) {
        const found = await api.value(hit.lane.id, Math.round(view.time(view.cursor ? view.cursor.x : 0)));
        lines = found.value === null ? ["no value here"] : [hit.lane.label, found.value.toLocaleString("en-US"), "since " + told(found.start)];
      } else if (hit.event !== NONE && hit.count === 1 && !(hit.style & INFERRED)) {
        const e = await api.brief(hit.event);
        // A job is drawn from one event to another: its length is not that of the event it begins with.
        const own = e.name === view.meta.names[hit.name];
        lines = own ? [e.name, "start " + told(e.start), e.dur !== null ? "duration " + told(e.dur) : hit.style & HALF ? "only its start or its end was seen" : "an instant"] : [...tipLines(hit), hit.lane.layer === "hqd" ? "click: its registers" : "begins with " + e.name];
        if (e.result) lines.push("result " + e.result);
        if (e.stream !== null) lines.push(view.meta.streams[e.stream] || "stream " + e.stream);
        lines.push(e.evidence + " · " + e.source + " · error −" + (e.err_lo_ns ?? "?") + " +" + (e.err_hi_ns ?? "?") + " ns");
      }
    } catch (problem) { return; } // the tip keeps what the view itself knows
    if (lines && mine === asked && tip.classList.contains("open")) tip.textContent = lines.join("\n");
  }, 150);
}
export function hideTip() {
  if (tip) tip.classList.remove("open");
  tipKey = "";
  asked += 1;
  clearTimeout(tipTimer);
}
export function hover(x, y, event) {
  if (!tip) { tip = make("div", "tl-tip"); document.body.append(tip); }
  const hit = x >= GUTTER && y >= TOP ? recordAt(x, y) : null;
  if (!hit) { hideTip(); return; }
  tip.classList.add("open");
  if (hit.lane.id + ":" + hit.event + ":" + hit.start !== tipKey) tip.textContent = tipLines(hit).join("\n");
  exactTip(hit);
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  tip.style.left = left + "px";
  tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
}
