// The state of the page is its address: written there, and read from it.
import { applyFilter } from "./filters.js";
import { closeCard, loadNotes, showMeasure } from "./marks.js";
import { gesture, wish } from "./order.js";
import { closePage, openPage, pagesAsked, secondCapture, shownPage } from "./pages.js";
import { api } from "./server.js";
import { changed, choose, clear, showWhole, toggleChain } from "./start.js";
import { message, searchText, setSearch, showHits } from "./toolbar.js";
import { view } from "./view.js";

const MAX_NOTES = 4000; // characters of notes in the address

let known = location.hash; // as it was read, or written last
let reading = true;

export function writeHash() {
  if (location.hash !== known) return; // gone back, or another link pasted: the page is about to be loaded from it
  if (reading) return; // what it says is not yet all on the page
  const state = new URLSearchParams({ t0: Math.round(view.t0), t1: Math.round(view.t1), theme: document.documentElement.dataset.theme });
  // Rebuilt tables, and those of a running recording, may have other event numbers.
  const record = view.detail && view.detail.record, lasting = view.meta.readings === null;
  if (view.selected !== null && (lasting || !record)) state.set("sel", view.selected);
  if (record) state.set("record", JSON.stringify(record));
  if (view.chainOnly) state.set("lanes", "chain");
  if (view.scroll) state.set("y", Math.round(view.scroll));
  if (view.colourBy !== "layer") state.set("colour", view.colourBy);
  if (Object.keys(view.only).length) state.set("only", JSON.stringify(view.only));
  for (const facet of view.FACETS) if (view.hidden[facet].size) state.set("hide-" + facet, [...view.hidden[facet]].join(","));
  const folds = view.meta.groups.filter((g) => view.collapsed.has(g.id) !== Boolean(g.folded)).map((g) => g.id);
  for (const key of ["pinned", "order"]) if (view[key].length && view[key].length < 200) state.set(key, view[key].join(","));
  if (view.foldedKinds.size) state.set("kinds", [...view.foldedKinds].join(","));
  if (view.hideEmpty) state.set("empty", "hidden");
  if (folds.length) state.set("fold", folds.join(","));
  if (view.mark) state.set("mark", Math.round(view.mark.a) + "," + Math.round(view.mark.b));
  if (view.search) state.set("q", view.search.text);
  if (shownPage) state.set("page", shownPage);
  if (shownPage && secondCapture) state.set("with", secondCapture);
  const notes = JSON.stringify(view.notes.map((n) => [n.start, n.dur, n.text]));
  if (view.notes.length && notes.length < MAX_NOTES) state.set("notes", notes);
  history.replaceState(null, "", location.pathname + location.search + "#" + state.toString());
  known = location.hash;
}

// The selection that is left can be gone back to, unless a page was left by the same gesture.
export function keepPlace() {
  if (reading || left === gesture) return;
  writeHash();
  history.pushState(null, "", location.href);
}
// The address says where to go back to: what it does not name is as at the start.
export async function goBack() {
  reading = true;
  view.only = {};
  for (const facet of view.FACETS) view.hidden[facet].clear();
  view.collapsed = new Set(view.meta.groups.filter((g) => g.folded).map((g) => g.id));
  view.foldedKinds.clear();
  view.colourBy = "layer";
  closeCard();
  clear();
  closePage();
  if (!(await readHash())) showWhole();
  changed();
}
// What `change` leaves can be gone back to: both have their addresses at once, however soon that is.
let left = -1;
export function leaveBy(change) {
  left = gesture;
  writeHash();
  history.pushState(null, "", location.href);
  change();
  writeHash();
}
// An address may hold anything: what makes no sense is left out.
function parsed(text, fallback) {
  try { return JSON.parse(text) ?? fallback; } catch (problem) { return fallback; }
}
function readFilters(state) {
  const given = parsed(state.get("only"), {});
  for (const key of ["name", "kernel"]) if (typeof given[key] === "string" && given[key]) view.only[key] = given[key].slice(0, 200);
  for (const key of ["shortest", "longest"]) if (Number.isSafeInteger(given[key]) && given[key] > 0) view.only[key] = given[key];
  if (given.errors === true) view.only.errors = true;
  if (Array.isArray(given.streams)) {
    const known = given.streams.filter((n) => Number.isSafeInteger(n) && String(n) in view.meta.streams);
    if (known.length) view.only.streams = known;
  }
  for (const facet of view.FACETS) {
    const lanes = new Set(view.meta.lanes.map((n) => String(n[facet])));
    for (const key of (state.get("hide-" + facet) || "").split(",")) if (lanes.has(key)) view.hidden[facet].add(key);
  }
  for (const key of ["pinned", "order"]) view[key] = [...new Set((state.get(key) || "").split(",").filter((id) => /^\d+$/.test(id) && id in view.meta.lanes).map(Number))];
  for (const layer of (state.get("kinds") || "").split(",")) if (layer in view.meta.colours) view.foldedKinds.add(layer);
  view.hideEmpty = state.get("empty") === "hidden";
  const groups = new Set(view.meta.groups.map((g) => g.id));
  for (const id of (state.get("fold") || "").split(",")) {
    if (groups.has(id)) { if (view.collapsed.has(id)) view.collapsed.delete(id); else view.collapsed.add(id); }
  }
  if (["layer", "kernel", "queue", "stream", "result"].includes(state.get("colour"))) view.colourBy = state.get("colour");
}
function readNotes(state) {
  const given = parsed(state.get("notes"), []);
  if (!Array.isArray(given)) return [];
  return given
    .filter((n) => Array.isArray(n) && Number.isSafeInteger(n[0]) && Number.isSafeInteger(n[1]) && n[1] >= 0 && typeof n[2] === "string")
    .map(([start, dur, text]) => ({ start: start, dur: dur, text: text.slice(0, 2000) }));
}
async function readSelection(state) {
  const number = state.get("sel"), record = parsed(state.get("record"), null);
  let found = null;
  if (record && typeof record === "object") {
    try { found = await api.same(record); } catch (problem) { message(problem.message); return null; }
  } else if (number === null) return null;
  else if (/^\d{1,15}$/.test(number) && Number(number) < view.meta.events) found = Number(number);
  if (found === null) message("the event of this address is not in the capture");
  return found;
}
export function askedTheme() {
  const asked = new URLSearchParams(location.hash.slice(1)).get("theme"), dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return asked === "dark" || (!asked && dark) ? "dark" : "light";
}
function readRange(state) {
  const t0 = Number(state.get("t0")), t1 = Number(state.get("t1"));
  if (state.has("t0") && Number.isFinite(t0) && Number.isFinite(t1) && t1 > t0) view.setRange(t0, t1);
  else view.whole();
}
function readMark(state) {
  const mark = /^(-?\d{1,15}),(-?\d{1,15})$/.exec(state.get("mark") || "");
  return mark ? { a: Number(mark[1]), b: Number(mark[2]) } : null;
}
// What needs no answer comes first. The rest comes when it is answered, but where somebody did something else since.
export async function readHash() {
  known = location.hash;
  const state = new URLSearchParams(known.slice(1)), mark = readMark(state);
  const mine = wish, scrolls = view.scrolls, pages = pagesAsked();
  readFilters(state);
  readRange(state);
  view.mark = mark;
  if (state.get("q")) setSearch(state.get("q").slice(0, 200));
  await applyFilter();
  await loadNotes(readNotes(state));
  if (searchText()) await showHits();
  const selected = await readSelection(state);
  if (selected !== null && mine === wish && (await choose(selected)) && state.get("lanes") === "chain") toggleChain();
  const scrolled = state.has("y") || state.has("t0"); // else somebody wrote it by hand: the selection stays in view
  if (scrolled && scrolls === view.scrolls) view.scroll = Number(state.get("y")) || 0;
  view.scrollBy(0);
  if (mark && mark === view.mark && mark.a !== mark.b) await showMeasure();
  reading = false;
  changed();
  const page = state.get("page"), isAsked = ["t0", "sel", "record", "q", "y"].some((key) => state.has(key));
  if (!page || pages !== pagesAsked()) return isAsked;
  if (view.meta.pages.some((p) => p[0] === page)) await openPage(page, state.get("with") || ""); else message("there is no page " + page.slice(0, 40));
  return isAsked;
}
