// The side panel: which lanes and events are shown, and by what they are coloured.
import { button, checkbox, dropdown, make } from "./dom.js";
import { palette } from "./lanes.js";
import { api, hold, num, release, tinted } from "./server.js";
import { changed } from "./start.js";
import { focusCanvas, message } from "./toolbar.js";
import { view } from "./view.js";

const TITLES = { process: "Processes", thread: "Threads", queue: "Queues", gpu: "GPUs", layer: "Layers", id: "Lanes hidden by hand" };
const COLOURS = ["layer", "kernel", "queue", "stream", "result"];
let timer = null;

function field(label, input) {
  const row = make("label", "tl-field");
  row.append(make("span", "", label), input);
  return row;
}
function textInput(key, label, type) {
  const input = make("input");
  input.type = type || "search";
  if (type === "number") { input.min = "0.001"; input.step = "any"; }
  input.maxLength = 200;
  const known = view.only[key];
  input.value = known === undefined ? "" : type === "number" ? known / 1000 : known;
  input.dataset.filter = key;
  input.addEventListener("input", () => {
    const value = type === "number" ? Math.round(Number(input.value) * 1000) : input.value.trim();
    const sensible = type !== "number" || (Number.isSafeInteger(value) && value > 0);
    input.setAttribute("aria-invalid", String(!sensible && (input.value !== "" || input.validity.badInput)));
    if (value && sensible) view.only[key] = value; else delete view.only[key];
    later();
  });
  return field(label, input);
}
// Typing fires many events: filter when it pauses.
function later() {
  if (timer === null) hold(); else clearTimeout(timer);
  timer = setTimeout(() => { timer = null; applyFilter().finally(release); }, 250);
}

// Asks what the filter of events leaves; lanes without a record disappear.
let asked = 0, counted = "";
// Lanes without a record in the range, when the range rests.
export function hideEmptySoon() {
  if (counted !== JSON.stringify(range())) later();
}
const range = () => (view.hideEmpty ? { t0: Math.floor(view.t0), t1: Math.ceil(view.t1) } : {});
export async function applyFilter() {
  const mine = ++asked;
  let found = null, problem = null;
  counted = JSON.stringify(range());
  try { if (view.hideEmpty || Object.keys(view.only).length) found = await api.filter(range()); } catch (failure) { problem = failure; }
  if (mine !== asked) return; // another filter was set since
  if (problem) message("filter: " + problem.message);
  else {
    view.left = found ? found.lanes : null;
    message(found && Object.keys(view.only).length ? num(found.total) + " records left by the filter" : "");
  }
  lanesChanged();
}
export function lanesChanged() {
  const title = document.getElementById("tl-filter-button");
  const n = view.filterCount();
  title.textContent = n ? "Filters (" + n + ")" : "Filters";
  view.layout();
  changed();
}

// The owners that have lanes, in the order of the lanes.
function owners(facet) {
  const seen = new Map();
  for (const lane of view.meta.lanes) {
    if (lane[facet] === null || seen.has(String(lane[facet]))) continue;
    const named = facet === "layer" ? lane.layer : facet === "id" ? lane.label : view.meta.owners[facet][lane[facet]];
    seen.set(String(lane[facet]), named || facet + " " + lane[facet]);
  }
  return seen;
}
function checklist(facet) {
  const hidden = view.hidden[facet], all = new Map([...owners(facet)].filter(([key]) => facet !== "id" || hidden.has(key)));
  if (all.size < 2 && !hidden.size) return null;
  const box = make("details", "tl-facet");
  box.open = all.size <= 12 || hidden.size > 0;
  box.append(make("summary", "", TITLES[facet] + " (" + all.size + ")"));
  const inputs = [];
  const bar = make("div", "tl-row");
  for (const [text, none] of [["all", false], ["none", true]]) {
    bar.append(button(text, text + " " + TITLES[facet].toLowerCase(), () => {
      for (const key of all.keys()) if (none) hidden.add(key); else hidden.delete(key);
      for (const input of inputs) input.checked = !none;
      lanesChanged();
    }));
  }
  box.append(bar);
  for (const [key, name] of all) {
    const row = checkbox(!hidden.has(key), name, (on) => {
      if (on) hidden.delete(key); else hidden.add(key);
      lanesChanged();
    });
    row.title = name;
    row.lastChild.dataset.owner = facet + ":" + key;
    inputs.push(row.firstChild);
    box.append(row);
  }
  return box;
}
function streams() {
  const known = Object.entries(view.meta.streams);
  if (known.length < 2) return null;
  const list = dropdown("", known, "", () => {
    const chosen = [...list.selectedOptions].map((o) => Number(o.value));
    if (chosen.length) view.only.streams = chosen; else delete view.only.streams;
    later();
  });
  list.multiple = true;
  list.size = Math.min(6, known.length);
  for (const option of list.options) {
    option.dataset.owner = "stream:" + option.value;
    option.selected = (view.only.streams || []).includes(Number(option.value));
  }
  return field("Streams: only these and their launches", list);
}
function colourBy() {
  const list = dropdown("", COLOURS.map((by) => [by, by]), view.colourBy, () => { view.colourBy = list.value; showColours(); changed(); });
  list.id = "tl-colour-by";
  return field("Colour by", list);
}
// Which stream or queue has which colour is told where they are listed.
function showColours() {
  for (const node of document.querySelectorAll("#tl-side [data-owner]")) {
    const [facet, key] = node.dataset.owner.split(":");
    node.style.borderLeft = facet === view.colourBy && tinted() ? "12px solid " + palette(Number(key) % 0xffff) : "";
    node.style.paddingLeft = node.style.borderLeft ? "5px" : "";
  }
}
function errorsOnly() {
  const row = checkbox(Boolean(view.only.errors), "errors only", (on) => {
    if (on) view.only.errors = true; else delete view.only.errors;
    later();
  });
  row.firstChild.dataset.filter = "errors";
  return row;
}

function laneRows() {
  const box = make("div");
  box.append(checkbox(view.hideEmpty, "hide lanes without a record in the range", (on) => { view.hideEmpty = on; later(); }));
  if (view.pinned.length || view.order.length || view.foldedKinds.size) box.append(button("Reset lanes", "unpin and unfold all lanes, in their first order", () => {
    view.pinned = [];
    view.order = [];
    view.foldedKinds.clear();
    lanesChanged();
  }));
  return box;
}

function fill(side) {
  const title = make("div", "tl-row");
  title.append(make("b", "", "Filters"), button("Clear", "remove all filters", clear), button("×", "close the filters (G)", () => toggleFilters(false)));
  side.replaceChildren(
    title, colourBy(), textInput("name", "Name contains"), textInput("kernel", "Kernel contains (with its launches)"),
    textInput("shortest", "At least (us)", "number"), textInput("longest", "At most (us)", "number"), errorsOnly(), laneRows(),
  );
  for (const part of [streams(), ...view.FACETS.map(checklist)]) if (part) side.append(part);
  showColours();
}
function clear() {
  view.only = {};
  view.hideEmpty = false;
  for (const facet of view.FACETS) view.hidden[facet].clear();
  fill(document.getElementById("tl-side"));
  hold();
  applyFilter().finally(release);
}
export function toggleFilters(show) {
  const side = document.getElementById("tl-side");
  const open = show === undefined ? !side.classList.contains("open") : show;
  side.classList.toggle("open", open);
  document.getElementById("tl-filter-button").setAttribute("aria-expanded", String(open));
  if (open) { fill(side); side.focus(); } else focusCanvas();
}
