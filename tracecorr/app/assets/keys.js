// Keyboard and mouse.
import { toggleFilters } from "./filters.js";
import { minimapTime } from "./frame.js";
import { showLane } from "./lane_card.js";
import { clearMark, closeCard, editNote, markSelection, noteAt, showMeasure, zoomMark } from "./marks.js";
import { openPalette } from "./palette.js";
import { goToRange, inTurn } from "./order.js";
import { shownPage } from "./pages.js";
import { edgeAt } from "./pick.js";
import { changed, clear, clickAt, fit, redraw, showWhole, step, toggleChain, toggleTheme } from "./start.js";
import { focusCanvas, focusSearch, hideTip, hover, message, toggleHelp } from "./toolbar.js";
import { GUTTER, MINIMAP_H, TOP, view } from "./view.js";

export const KEYS = [
  ["W / S, + / −", "zoom in / out at the pointer"], ["A / D, ← / →", "pan left / right"], ["↑ / ↓, wheel", "scroll the lanes"],
  ["Ctrl + wheel", "zoom at the pointer"], ["Shift + wheel, drag", "pan"], ["drag the ruler, Shift + drag", "measure; snaps to the edges of events"],
  ["click", "select; on empty space: clear the selection"], ["click a header", "fold a process, thread or group"], ["click a lane's name", "its table; pin, move, hide it, fold its kind"],
  ["H / Shift + H, Enter", "the next / previous header; fold it or unfold it"],
  ["drag the overview", "move the view"], ["F", "fit the selected event and the events that led to it; again: its chain, then the event alone"], ["P", "only the lanes of the chain"],
  ["Ctrl + K, :", "all commands by name"], ["0", "whole capture, all lanes; again: also the few events that are far away from all others"], ["Backspace", "the previous range; with Shift the next one"], ["/", "search: name or result (\"whole name\"), #event, 0xaddress, queue 2, stream 1, thread 123, pid; Enter next, Shift + Enter previous"],
  ["/ @180.5ms", "go to a time after the start, or of the host's clock; @10ms..20ms shows a range"],
  [". / ,", "next / previous event of the same thread and layer; without a selection the first one in view"],
  ["U", "the parent of the selection"], ["N, K, Q", "next of the same name, kernel, queue; with Shift the previous one"],
  ["E / Shift + E", "next / previous error"], ["M, Z", "measure the selection; zoom to the measured range"],
  ["B", "write a note"], ["G", "filters and colours"], ["T", "light or dark"], ["Esc", "clear"], ["?", "this help"],
];
// What acts on the selection waits for the one that is being asked for.
function onSelection(act) {
  return () => inTurn(() => { act(); changed(); });
}
const ACTIONS = {
  w: () => view.zoom(1 / 1.5, pointerX()), s: () => view.zoom(1.5, pointerX()), a: () => view.pan(-0.15), d: () => view.pan(0.15),
  arrowup: () => view.scrollBy(-60), arrowdown: () => view.scrollBy(60),
  backspace: (event) => goToRange(event.shiftKey), 0: () => showWhole(), f: onSelection(() => fit()), p: onSelection(() => toggleChain()), t: () => toggleTheme(),
  u: () => step("parent", false), g: () => toggleFilters(), m: onSelection(() => markSelection()), z: onSelection(() => zoomMark()),
  ".": () => step("thread", false), ",": () => step("thread", true), b: () => editNote(),
  h: (event) => chooseHeader(event.shiftKey ? -1 : 1), enter: () => foldChosen(),
  "/": () => focusSearch(), ":": () => openPalette(), "?": () => toggleHelp(), escape: () => clear(),
};
for (const [key, same] of [["+", "w"], ["=", "w"], ["-", "s"], ["arrowleft", "a"], ["arrowright", "d"]]) ACTIONS[key] = ACTIONS[same];
for (const [key, kind] of [["n", "name"], ["k", "kernel"], ["q", "queue"], ["e", "error"]]) {
  ACTIONS[key] = (event) => step(kind, event.shiftKey);
}
export const NAMED = [
  ["search", "/"], ["whole capture, all lanes", "0"], ["fit the selection", "f"], ["only the lanes of the chain", "p"], ["parent of the selection", "u"],
  ["next error", "e"], ["next of the same name", "n"], ["next of the same kernel", "k"], ["next of the same queue", "q"], ["next event of the thread", "."],
  ["previous range", "backspace"], ["measure the selection", "m"], ["zoom to the measured range", "z"], ["write a note", "b"], ["filters and colours", "g"],
  ["light or dark theme", "t"], ["clear the selection", "escape"], ["help: keys and mouse", "?"],
];
export function act(key) { ACTIONS[key]({ shiftKey: false }); changed(); }
const EVERYWHERE = ["/", "?", "t", ":"]; // also on the pages beside the timeline
function pointerX() { return view.cursor ? view.cursor.x : null; }

function onKey(event) {
  const chooses = event.target.matches("select") && (event.key === " " || event.key.length > 1); // letters stay keys of the page
  const typing = chooses || event.target.matches("input:not([type=checkbox]), textarea");
  if (event.ctrlKey && event.key.toLowerCase() === "k" && view.meta) { event.preventDefault(); openPalette(); return; }
  if (event.key === "Escape" && event.target.closest("#tl-side")) { toggleFilters(false); return; }
  // The browser would empty a search box: what is searched for stays until it is cleared.
  if (typing && event.key === "Escape") { event.preventDefault(); closeCard(); focusCanvas(); return; }
  const pressing = event.target.matches("button, a, summary, input, tr") && (event.key === "Enter" || event.key === " ");
  if (typing || pressing || event.altKey || event.metaKey) return;
  if (shownPage && event.key === "Escape") { toggleHelp(false); return; }
  if (shownPage && (event.ctrlKey || !EVERYWHERE.includes(event.key.toLowerCase()))) return;
  if (event.ctrlKey) {
    if (event.key.toLowerCase() !== "f") return;
    event.preventDefault();
    focusSearch();
    return;
  }
  const action = ACTIONS[event.key.toLowerCase()];
  if (!action || !view.meta) return;
  event.preventDefault();
  action(event);
  hideTip(); // the pointer is on something else now
  changed();
}

function onWheel(event) {
  event.preventDefault();
  const lines = event.deltaMode === 1 ? 16 : 1;
  const dx = event.deltaX * lines, dy = event.deltaY * lines;
  if (event.ctrlKey) view.zoom(Math.pow(1.0022, dy), event.offsetX);
  else if (event.shiftKey) view.pan((dy + dx) / view.plotWidth());
  else {
    view.scrollBy(dy);
    if (dx) view.pan(dx / view.plotWidth());
  }
  hideTip();
  changed();
}

let drag = null;
function onDown(event) {
  if (event.button !== 0) return;
  const x = event.offsetX, y = event.offsetY;
  event.target.setPointerCapture(event.pointerId);
  let kind = "pan";
  if (y < MINIMAP_H && x >= GUTTER) kind = "minimap";
  else if (x >= GUTTER && (y < TOP || event.shiftKey)) kind = "measure";
  drag = { kind: kind, from: measured(x, y), x: x, y: y, lastX: x, lastY: y, moved: false };
  if (kind === "minimap") centre(x);
}
// Near an edge of an event it is the edge, else the moment under the pointer.
function measured(x, y) {
  const edge = edgeAt(x, y);
  return edge === null ? Math.round(view.time(x)) : edge;
}
function centre(x) {
  const at = minimapTime(x), half = view.span() / 2;
  view.setRange(at - half, at + half);
  changed();
}
function onMove(event) {
  const x = event.offsetX, y = event.offsetY;
  view.cursor = { x: x, y: y };
  if (!drag) { hover(x, y, event); redraw(); return; }
  if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3) drag.moved = true;
  if (!drag.moved) return;
  hover(-1, -1, event);
  if (drag.kind === "minimap") centre(x);
  else if (drag.kind === "measure") view.mark = { a: drag.from, b: measured(x, y) };
  else {
    if (drag.x >= GUTTER) view.pan((drag.lastX - x) / view.plotWidth());
    view.scrollBy(drag.lastY - y);
  }
  drag.lastX = x;
  drag.lastY = y;
  changed();
}
function onUp(event) {
  const was = drag;
  drag = null;
  if (was && was.moved && was.kind === "measure") showMeasure();
  if (!was || was.moved || was.kind === "minimap") return;
  if (was.kind === "measure" && was.y < TOP) {
    const note = noteAt(was.x);
    if (note) editNote(note); else clearMark();
    return;
  }
  click(event.offsetX, event.offsetY);
}
function click(x, y) {
  const item = view.itemAt(y);
  if (item && item.kind === "group") { fold(item); return; }
  if (x < GUTTER) { if (item) showLane(item.lane, view.t0, view.t1); return; }
  clickAt(x, y);
}

// --- headers ------------------------------------------------------------------------------------
function fold(item) {
  const closed = view.collapsed;
  if (closed.has(item.id)) closed.delete(item.id); else closed.add(item.id);
  view.layout();
  changed();
}
function chosenHeader() {
  return view.items.find((i) => i.kind === "group" && i.id === view.header);
}
function tellHeader(item) {
  message(item.label + (view.collapsed.has(item.id) ? ": folded, Enter unfolds it" : ": Enter folds it"));
}
// From the one that is chosen, else from the first in view, around the ends.
function chooseHeader(step) {
  const headers = view.items.filter((i) => i.kind === "group");
  if (!headers.length) return;
  const at = headers.indexOf(chosenHeader()), first = headers.findIndex((i) => i.y + i.h > view.scroll);
  const next = at >= 0 ? at + step : step > 0 ? first : first - 1;
  const item = headers[(next + headers.length) % headers.length];
  view.header = item.id;
  view.revealItem(item);
  tellHeader(item);
}
function foldChosen() {
  const item = chosenHeader();
  if (!item || view.chainOnly) return; // of a chain no group is folded
  fold(item);
  tellHeader(item);
}

export function bind(canvas) {
  document.addEventListener("keydown", onKey);
  canvas.addEventListener("wheel", onWheel, { passive: false });
  canvas.addEventListener("pointerdown", onDown);
  canvas.addEventListener("pointermove", onMove);
  canvas.addEventListener("pointerup", onUp);
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", (e) => { view.cursor = null; hover(-1, -1, e); redraw(); });
}
