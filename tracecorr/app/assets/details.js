// The detail panel: stages of the chain, the raw records behind them, all columns of the event.
import { button, make, sortHead, timeNode } from "./dom.js";
import { markSelection } from "./marks.js";
import { compare } from "./pages.js";
import { api, num, short, whole } from "./server.js";
import { changed, clear, select, step } from "./start.js";
import { copy, isPair, message } from "./toolbar.js";
import { view } from "./view.js";

function errorText(stage) {
  if (stage.err_lo === null && stage.err_hi === null) return "unknown";
  const lo = stage.err_lo || 0, hi = stage.err_hi || 0;
  if (lo === 0 && hi === 0) return "0";
  return lo === hi ? "±" + short(lo) : "−" + short(lo) + " +" + short(hi);
}

// By which rules a stage follows from others, and how sure each is.
function linkedBy(detail, number) {
  const rules = detail.edges.filter((e) => e.to === number).map((e) => (e.rule === "launch" ? "same launch" : e.rule.replaceAll("_", " ")) + (e.evidence ? " (" + e.evidence + ")" : ""));
  return [...new Set(rules)].join(", ");
}

// Heading, whether it is a number, what is shown, and by what it is sorted; `ns` where it is a time.
const STAGE_COLUMNS = [
  ["stage", (s) => s.layer], ["name", (s) => s.name], ["start", (s) => s.start, whole], ["since call", (s) => s.since_call, short],
  ["gap", (s) => s.gap, short], ["duration", (s) => (s.unseen || s.instant ? null : s.dur), short],
  ["error", (s) => (s.err_lo === null && s.err_hi === null ? null : Math.max(s.err_lo || 0, s.err_hi || 0)), null, errorText],
  ["evidence", (s) => s.evidence + (s.source ? " · " + s.source : "")], ["linked by", (s) => s.linked], ["result", (s) => s.result || ""],
];
function stageCell([title, value, time, text], stage, longest, widest) {
  const found = value(stage), isNumber = time !== undefined;
  if (time && found !== null) {
    const cell = timeNode("td", "n", time(found), found);
    const mark = title === "duration" ? longest : title === "gap" ? widest : null;
    if (stage === mark) { cell.className = "n longest"; cell.append(" ◂ longest"); }
    return cell;
  }
  const cell = make("td", isNumber ? "n" : "", text ? text(stage) : found);
  if (title === "duration") cell.textContent = stage.unseen ? stage.unseen + " not seen" + (stage.dur ? ", ≥ " + short(stage.dur) : "") : "instant";
  if (!isNumber) cell.title = found;
  return cell;
}
function stageRow(stage, longest, widest) {
  const row = make("tr", stage.event === view.selected && stage.event !== null ? "chosen" : ""), swatch = row.insertCell();
  const mark = make("span", stage.evidence === "inferred" ? "tl-swatch hollow" : "tl-swatch");
  mark.style.setProperty("--c", view.meta.colours[stage.layer] || "#888");
  swatch.append(mark);
  row.append(...STAGE_COLUMNS.map((column) => stageCell(column, stage, longest, widest)));
  if (stage.event === null) return row;
  row.tabIndex = 0;
  row.addEventListener("click", () => { if (getSelection().isCollapsed) select(stage.event, true); });
  row.addEventListener("keydown", (e) => { if (e.key === "Enter") select(stage.event, true); });
  return row;
}
// The way in which somebody sorted them stays from selection to selection.
const sorted = { by: "", down: false };
function stageTable(detail) {
  const table = make("table", "tl-stages"), head = table.createTHead().insertRow(), body = table.createTBody();
  const root = detail.stages.find((s) => s.event === detail.root);
  const timed = detail.stages.filter((s) => s !== root && !s.unseen && s.dur > 0);
  const longest = timed.length > 1 ? timed.reduce((a, b) => (b.dur > a.dur ? b : a)) : null;
  const later = detail.stages.filter((s) => s.gap > 0), widest = later.length > 1 ? later.reduce((a, b) => (b.gap > a.gap ? b : a)) : null;
  const stages = detail.stages.map((s, i) => Object.assign(s, { linked: linkedBy(detail, i) }));
  const fill = () => {
    const column = STAGE_COLUMNS.find(([title]) => title === sorted.by);
    const shown = column ? [...stages].sort((a, b) => compare(column[1](a), column[1](b), sorted.down)) : stages;
    body.replaceChildren(...shown.map((stage) => stageRow(stage, longest, widest)));
  };
  head.append(make("td"));
  for (const [title, , time] of STAGE_COLUMNS) head.append(sortHead(title, title, time !== undefined, sorted, fill));
  fill();
  return table;
}

function rawList(detail, records) {
  const box = make("div", "tl-raw");
  for (const r of records) {
    const stage = detail.stages[r.stage];
    const line = make("div", "tl-rawline" + (stage.event === view.selected ? " chosen" : ""));
    const place = r.file + (r.line === null ? " @" + num(r.offset) : ":" + r.line);
    const mark = make("span", "tl-where");
    mark.append(make("bdi", "", place)); // it is cut on its left: a slash at its start would go to its end
    mark.title = stage.layer + " · " + stage.name + " (" + r.part + "), byte " + num(r.offset);
    mark.style.borderLeftColor = view.meta.colours[stage.layer] || "#888";
    line.append(mark, make("code", r.missing ? "missing" : "", r.text));
    box.append(line);
  }
  if (!records.length) box.append(make("div", "tl-note", "no raw record behind these rows"));
  return box;
}

function eventLead(event, what) {
  const node = button("#" + event, "select it: " + what, () => select(event, true));
  node.className = "tl-lead";
  return node;
}
function columnList(detail) {
  const box = make("div");
  let group = null, list;
  for (const c of detail.columns) {
    if ((c.group || "") !== group) {
      group = c.group || "";
      if (group) box.append(make("h2", "", group));
      list = make("dl", "tl-columns");
      box.append(list);
    }
    const name = make("dt", "", c.name);
    name.title = c.meaning;
    const value = make("dd", "", c.event === undefined ? c.value : "");
    if (c.event !== undefined) value.append(eventLead(c.event, c.meaning));
    list.append(name, value);
  }
  return box;
}

// An error that is not known is not none.
function worstError(events) {
  const known = events.filter((s) => s.err_lo !== null || s.err_hi !== null);
  const worst = Math.max(0, ...known.map((s) => Math.max(s.err_lo || 0, s.err_hi || 0)));
  const told = worst ? "largest clock error " + short(worst) : known.length ? "no clock error" : "";
  const lost = events.length - known.length;
  const open = lost === events.length ? "clock error unknown" : lost ? "that of " + num(lost) + " unknown" : "";
  return [told, open].filter(Boolean).join(", ");
}
function title(detail) {
  const head = make("div", "tl-title");
  const own = detail.stages.find((s) => s.event === detail.event);
  const text = own ? own.name : "event";
  head.append(make("b", "", text), make("span", "", " #" + detail.event));
  const last = detail.stages[detail.stages.length - 1];
  const parts = [detail.stages.length + (detail.stages.length === 1 ? " event" : " events in the chain")];
  if (detail.stages.length > 1) parts.push("first to last start " + short(last.start - detail.stages[0].start));
  parts.push(worstError(detail.stages.filter((s) => s.event !== null)));
  if (detail.truncated) parts.push("more events exist than are shown");
  head.append(make("span", "tl-note", parts.join(" · ")));
  return head;
}

// --- how a launch went --------------------------------------------------------------------------
const EVIDENCE = {
  recorded: "its store is recorded", derived: "the store of its graph launch (derived)", inferred: "its store was not traced",
};
function announced(path) {
  if (path.moments === undefined) return several(path);
  const box = make("span"), evidence = Object.keys(path.packets)[0];
  if (EVIDENCE[evidence] === undefined) { box.append("doorbell not known" + (path.reason ? ": " + path.reason : "")); return box; }
  box.append(make("b", "", "by doorbell"), ": " + EVIDENCE[evidence]);
  if (path.doorbell !== null) box.append(" ", button("#" + path.doorbell, "select the doorbell", () => select(path.doorbell, true)));
  if (path.doorbell === null && path.width !== null) box.append(", it lies within " + short(path.width) + " (inferred)");
  return box;
}
function several(path) {
  const kinds = Object.entries(path.packets), all = kinds.reduce((sum, [, n]) => sum + n, 0);
  const parts = [];
  if (all) parts.push(num(all) + (all === 1 ? " packet, doorbell " : " packets, doorbells ") + kinds.map(([kind, n]) => (kinds.length > 1 ? num(n) + " " : "") + kind).join(", "));
  if (path.copies) parts.push(num(path.copies) + (path.copies === 1 ? " copy" : " copies") + " by an SDMA engine; its doorbell is not in the log");
  return make("span", "", parts.join("; "));
}
function ioctls(found) {
  if (found === null) return "ioctls of its call are unknown";
  const names = Object.entries(found);
  if (!names.length) return "no ioctl recorded in its call";
  return "ioctls in its call: " + names.map(([name, n]) => name + (n > 1 ? " × " + num(n) : "")).join(", ");
}
// The points that it passed, and the time from each to the next.
function way(moments) {
  const line = make("div", "tl-way"), longest = Math.max(...moments.slice(1).map(([, at], i) => at - moments[i][1]));
  moments.forEach(([name, at], i) => {
    if (i) line.append(timeNode("i", at - moments[i - 1][1] === longest ? "longest" : "", short(at - moments[i - 1][1]), at - moments[i - 1][1]));
    line.append(make("span", "", name));
  });
  return line;
}
function pathBox(path) {
  const box = make("div", "tl-path"), first = make("div");
  first.append(announced(path), " · " + ioctls(path.ioctls));
  box.append(first);
  if (path.moments && path.moments.length > 1) box.append(way(path.moments));
  return box;
}

// On what a call spent its time: it comes when it is worked out.
async function tellApart(detail, top) {
  try {
    const told = await api.apart(detail.event);
    if (told && view.detail === detail) top.append(make("div", "tl-path", told));
  } catch (problem) { message(problem.message); }
}

function steps() {
  const bar = make("div", "tl-row tl-steps");
  bar.append(button("Parent", "the parent (U)", () => step("parent", false)));
  for (const [kind, key] of [["name", "N"], ["kernel", "K"], ["queue", "Q"], ["error", "E"]]) {
    bar.append(
      button("◂", "previous of the same " + kind + " (Shift + " + key + ")", () => step(kind, true)), make("span", "tl-note", kind),
      button("▸", "next of the same " + kind + " (" + key + ")", () => step(kind, false)),
    );
  }
  bar.append(button("Measure", "measure the chain (M)", () => { markSelection(); changed(); }));
  // Of two captures together the numbers are not those of either.
  if (!isPair()) bar.append(button("Copy number", "copy the number of the event, for tracecorr query", () => copy(String(view.selected), "event number")));
  return bar;
}

const LOWEST = 60, LANES = 110; // px of the panel, and of the canvas above it
// The panel is as high as somebody drags its upper border, or moves it with the arrow keys; a double click undoes it.
function grip(panel) {
  const bar = make("div", "tl-grip"), host = document.getElementById("tl-canvas-host");
  bar.tabIndex = 0;
  bar.title = "drag to change the height of the details; double click to reset it";
  for (const [name, value] of [["role", "separator"], ["aria-orientation", "horizontal"], ["aria-label", "height of the details"], ["aria-valuemin", LOWEST], ["aria-valuenow", panel.offsetHeight]]) bar.setAttribute(name, value);
  const set = (height) => {
    const most = panel.offsetHeight + host.clientHeight - LANES;
    const px = Math.round(Math.max(LOWEST, Math.min(height, most)));
    panel.style.height = px + "px";
    bar.setAttribute("aria-valuenow", px);
  };
  bar.addEventListener("pointerdown", (e) => bar.setPointerCapture(e.pointerId));
  bar.addEventListener("pointermove", (e) => { if (bar.hasPointerCapture(e.pointerId)) set(panel.getBoundingClientRect().bottom - e.clientY); });
  bar.addEventListener("dblclick", () => { panel.style.height = ""; });
  bar.addEventListener("keydown", (e) => {
    if (e.key !== "ArrowUp" && e.key !== "ArrowDown") return;
    e.preventDefault();
    e.stopPropagation(); // elsewhere these keys scroll the lanes
    set(panel.offsetHeight + (e.key === "ArrowUp" ? 24 : -24));
  });
  return bar;
}

let columnsOpen = false;
export function showDetail(detail) {
  const panel = document.getElementById("tl-detail");
  panel.replaceChildren();
  panel.classList.toggle("open", detail !== null);
  panel.setAttribute("role", "region");
  panel.setAttribute("aria-live", "polite");
  if (!detail) return;
  const own = detail.stages.find((s) => s.event === detail.event);
  if (own) panel.setAttribute("aria-label", own.name + ", event " + detail.event + ", start " + whole(own.start));
  const left = make("div", "tl-left"), body = make("div", "tl-body"), right = make("div", "tl-right");
  const isOwn = (r) => detail.stages[r.stage].event === detail.event;
  const others = detail.raw.filter((r) => !isOwn(r));
  const top = make("div", "tl-top");
  top.append(title(detail), steps());
  if (detail.path) top.append(pathBox(detail.path));
  if (detail.event === detail.root) tellApart(detail, top);
  left.append(top, body);
  body.append(rawList(detail, detail.raw.filter(isOwn)), make("h2", "", "Stages"), stageTable(detail));
  if (others.length) body.append(make("h2", "", "Raw records behind the other rows"), rawList(detail, others));
  const columns = make("details", "tl-all");
  columns.open = columnsOpen;
  columns.addEventListener("toggle", () => { columnsOpen = columns.open; });
  columns.append(make("summary", "", "All columns of #" + detail.event), columnList(detail));
  right.append(columns);
  const shut = button("×", "close the details (Esc)", clear);
  shut.className = "tl-shut";
  panel.append(grip(panel), left, right, shut);
  // A call may have hundreds of stages: the selected one is brought in view.
  const row = body.querySelector(".tl-stages tr.chosen");
  if (row && row.offsetTop + row.offsetHeight > body.clientHeight) body.scrollTop = row.offsetTop - body.clientHeight / 2;
}
