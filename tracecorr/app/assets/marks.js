// Measured ranges with what is inside, marks with notes, hits of the search on the ruler.
import { button, link, make, table, timeNode } from "./dom.js";
import { FONT, cut, pen, textWidth, theme } from "./lanes.js";
import { api, filteredUrl, hold, num, ranges, release, short, whole } from "./server.js";
import { changed } from "./start.js";
import { focusCanvas, message } from "./toolbar.js";
import { GUTTER, MINIMAP_H, TOP, view } from "./view.js";

const card = () => document.getElementById("tl-card");
let asked = 0, editing = null;

function bounds() {
  return [Math.round(Math.min(view.mark.a, view.mark.b)), Math.round(Math.max(view.mark.a, view.mark.b))];
}
const shownLanes = () => view.meta.lanes.filter((n) => view.laneY.has(n.id)).map((n) => n.id);

// Counts what starts inside the measured range, in the lanes that are laid out.
export async function showMeasure() {
  const mine = ++asked;
  if (!view.mark) { if (editing === null) closeCard(); return; }
  const [t0, t1] = bounds();
  let found, problem = null;
  try { found = await api.count(t0, Math.max(t1, t0 + 1), shownLanes()); } catch (failure) { problem = failure; }
  if (mine !== asked || !view.mark) return;
  if (problem) { message("count: " + problem.message); return; }
  const bar = make("div", "tl-row");
  bar.append(
    button("Zoom (Z)", "zoom to the range", zoomMark), button("Note (B)", "write a note on the range", editNote),
    link("CSV", "rows in the range as CSV", () => exportAddress("csv", t0, t1)), button("×", "close (Esc)", clearMark),
  );
  card().replaceChildren(
    timeNode("b", "", whole(t1 - t0), t1 - t0), make("div", "tl-note", "from " + whole(t0) + " to " + whole(t1)),
    make("div", "", many(found.total, "event starts", "events start") + " inside, counted in " + many(shownLanes().length, "lane", "lanes")),
    make("div", "tl-note", found.inferred ? "and " + num(found.inferred) + " inferred intervals (not counted as events)" : ""), bar,
    table("", ["layer", "count"], found.layers.map((n) => [n.layer + (n.inferred ? " (inferred)" : ""), num(n.count)]), ["", "n"]),
    table("", ["name", "count", "time inside"], found.names.map((n) => [n.name, num(n.count), timeNode("span", "", short(n.inside_ns), n.inside_ns)]), ["", "n", "n"]),
  );
  card().classList.add("open");
}
// What is counted there is of the reading before: a note that is being written stays.
export function measureAnew() { if (editing === null && card().classList.contains("open")) showMeasure(); }
const many = (n, one, more) => num(n) + " " + (n === 1 ? one : more);
function exportAddress(form, t0, t1) {
  return filteredUrl("/api/export", { form: form, t0: t0, t1: t1, lanes: ranges(shownLanes()) });
}
export const viewExportAddress = (form) => exportAddress(form, Math.floor(view.t0), Math.ceil(view.t1));
export function zoomMark() {
  if (!view.mark) return;
  const [t0, t1] = bounds();
  view.setRange(t0, Math.max(t1, t0 + 1));
  changed();
}
export function clearMark() { view.mark = null; editing = null; closeCard(); changed(); }
export function openCard(bar, parts, wide) {
  bar.append(button("×", "close (Esc)", clearMark));
  asked += 1; // a count that comes now would take its place
  card().replaceChildren(bar, ...parts);
  card().classList.add("open");
  card().classList.toggle("wide", Boolean(wide));
}
export function closeCard() { card().classList.remove("wide"); card().classList.remove("open"); card().replaceChildren(); editing = null; }
// The range of the selection: the chain, or the one event when it stands alone.
export function markSelection() {
  const found = view.extent();
  if (!found) { message("select an event first"); return; }
  view.mark = { a: found[0], b: found[1] };
  showMeasure();
}

// --- times that somebody types ------------------------------------------------------------------
const DIGITS = { ns: 0, us: 3, "µs": 3, ms: 6, s: 9 }; // of a ns, behind the decimal point of the unit
// ns after the start; null for what is no time of this capture. The log prints the host's clock: it is understood, too.
// Without a unit a number is ns; with a decimal point it is s, as traces print it.
function readTime(text, unit) {
  const found = /^(-?[\d,]*\.?\d+)\s*(ns|us|µs|ms|s)?$/.exec(text.trim().toLowerCase());
  if (!found) return null;
  const meant = found[2] || unit || (found[1].includes(".") ? "s" : "ns");
  const [whole, part = ""] = found[1].replaceAll(",", "").split("."), digits = DIGITS[meant];
  // A number of JavaScript holds no single ns of a clock that has run for more than 104 days.
  const exact = BigInt(whole + part.slice(0, digits).padEnd(digits, "0"));
  const ns = Number(exact), after = Number(exact - BigInt(view.meta.t0_abs));
  const edge = 0.05 * view.meta.length, known = (t) => t >= -edge && t <= view.meta.length + edge;
  return known(ns) ? ns : known(after) ? after : null;
}
// A moment among what is around it, marked: in the whole capture it would be a pixel.
export function showTime(at) {
  const half = Math.min(view.span(), view.meta.length / 20) / 2;
  view.setRange(at - half, at + half);
  view.mark = { a: at, b: at };
  changed();
}
// "@180.5ms" goes there and marks it, "@10ms..20ms" shows the range.
export function goToTime(text) {
  const [first, last] = text.slice(1).split(/\.\.|→/);
  const unit = last === undefined ? "" : (/(ns|us|µs|ms|s)\s*$/i.exec(last) || ["", ""])[1].toLowerCase();
  const from = readTime(first, unit), to = last === undefined ? from : readTime(last, unit);
  if (from === null || to === null || to < from) return false;
  if (last === undefined) showTime(from);
  else { view.setRange(from, Math.max(to, from + 1)); changed(); }
  return true;
}

// --- notes --------------------------------------------------------------------------------------
function target() {
  if (view.mark) { const [a, b] = bounds(); return { start: a, dur: b - a }; }
  const own = view.detail && view.detail.stages.find((s) => s.event === view.selected);
  if (own) return { start: own.start, dur: own.dur };
  return { start: Math.round(view.cursor && view.cursor.x > GUTTER ? view.time(view.cursor.x) : (view.t0 + view.t1) / 2), dur: 0 };
}
export function editNote(known) {
  const note = known && known.text !== undefined ? known : { ...target(), text: "" };
  asked += 1; // a count that comes now would take the place of what is being written
  editing = note;
  const input = make("textarea");
  input.rows = 3;
  input.maxLength = 2000;
  input.value = note.text;
  input.setAttribute("aria-label", "text of the note");
  const save = () => { note.text = input.value.trim(); if (!view.notes.includes(note) && note.text) view.notes.push(note); keep(); };
  input.addEventListener("keydown", (e) => { if (e.key === "Enter" && !e.shiftKey) { e.preventDefault(); save(); } });
  const bar = make("div", "tl-row");
  bar.append(button("Save", "keep the note (Enter)", save));
  if (view.notes.includes(note)) bar.append(button("Delete", "remove the note", () => { note.text = ""; keep(); }));
  bar.append(button("×", "close (Esc)", closeCard));
  card().replaceChildren(make("b", "", "Note at " + whole(note.start)), input, bar);
  card().classList.add("open");
  input.focus();
}
// In the capture where it can be written, and in the address in any case.
function keep() {
  view.notes = view.notes.filter((n) => n.text);
  closeCard();
  focusCanvas();
  changed();
  hold();
  keeping = keeping.then(saveAll).finally(release);
}
async function saveAll() {
  try {
    await merge();
    const sent = view.notes.map((n) => ({ text: n.text, start: n.start, dur: n.dur }));
    await api.saveNotes(sent);
    stored = new Set(sent.map(keyOf));
    message("notes saved in the capture");
  } catch (problem) { message(problem.message); }
  changed();
}
let keeping = Promise.resolve(); // one answer after the other: the notes are always written whole
// In another tab notes may have been written or deleted since: that stays so.
let stored = new Set(); // what the capture held when it was read or written last
const keyOf = (n) => JSON.stringify([n.start, n.dur, n.text]);
const known = async () => (await api.notes()).filter((n) => n.start !== null);
async function merge() {
  const theirs = await known(), now = new Set(theirs.map(keyOf));
  const mine = view.notes.filter((n) => !stored.has(keyOf(n)) || now.has(keyOf(n))), own = new Set(mine.map(keyOf));
  view.notes = [...mine, ...theirs.filter((n) => !stored.has(keyOf(n)) && !own.has(keyOf(n)))];
}
export function loadNotes(fromAddress) {
  keeping = keeping.then(() => load(fromAddress));
  return keeping;
}
async function load(fromAddress) {
  let found = [];
  try { found = await known(); } catch (problem) { message("notes: " + problem.message); }
  stored = new Set(found.map(keyOf));
  const written = view.notes; // while they were waited for
  view.notes = found;
  for (const note of [...fromAddress, ...written]) {
    if (!view.notes.some((n) => n.start === note.start && n.text === note.text)) view.notes.push(note);
  }
}
export function noteAt(x) {
  return view.notes.find((n) => { const at = view.x(n.start); return x >= at - 4 && x <= at + Math.max(8, n.dur / view.perPixel()); }) || null;
}

export function drawMarks(ctx) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(GUTTER, MINIMAP_H, view.width, view.height);
  ctx.clip();
  let last = -Infinity; // samples are taken in bursts: of those on one pixel the first stands for all
  for (const r of view.meta.ranges) {
    const x = view.x(r.from);
    if (r.kind === "clock" && x - last < 1 && view.x(r.to) - x < 1) continue;
    if (r.kind === "clock") last = x;
    range(ctx, r);
  }
  if (view.search && view.search.ticks) {
    ctx.fillStyle = theme.accent;
    const k = (view.search.t1 - view.search.t0) / view.search.width;
    for (const tick of view.search.ticks) ctx.fillRect(view.x(view.search.t0 + tick * k), TOP - 5, 1.5, 5);
  }
  for (const note of view.notes) flag(ctx, note);
  ctx.restore();
}
// A loss, and a time without a kernel trace, lie over all lanes: what is missing there says nothing. A clock sample is
// a thin line.
function range(ctx, r) {
  const a = view.x(r.from), b = view.x(r.to);
  if (b < GUTTER || a > view.width) return;
  const left = Math.max(a, GUTTER - 2), w = Math.max(1.5, Math.min(b, view.width + 2) - left);
  ctx.fillStyle = { loss: theme.warn, untraced: "#808080" }[r.kind] || "#7A5CC0";
  ctx.globalAlpha = r.kind === "clock" ? 0.18 : 0.16;
  ctx.fillRect(left, TOP, w, view.height);
  ctx.globalAlpha = 1;
  if (r.kind === "clock") { ctx.fillRect(left, TOP - 4, Math.max(2, w), 4); return; }
  ctx.fillRect(left, TOP - 3, w, 3);
  ctx.font = FONT;
  if (r.kind === "loss") ctx.fillText("✕", left, TOP + 8);
  const text = cut(ctx, r.text, w - 8);
  if (text) ctx.fillText(text, left + 4, view.height - 8);
}
function flag(ctx, note) {
  const x = view.x(note.start), w = note.dur / view.perPixel();
  if (x + w < GUTTER || x > view.width) return;
  ctx.fillStyle = "#E6A817";
  ctx.globalAlpha = 0.13;
  ctx.fillRect(x, TOP, Math.max(1, w), view.height);
  ctx.globalAlpha = 1;
  ctx.fillRect(x, MINIMAP_H, 1.5, view.height);
  ctx.font = FONT;
  const text = cut(ctx, note.text.split("\n")[0], 160), wide = textWidth(ctx, text) + 8;
  ctx.fillRect(x, MINIMAP_H, wide, 14);
  pen(ctx, "#111");
  ctx.fillText(text, x + 4, MINIMAP_H + 7.5);
}
