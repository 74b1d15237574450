// The pages beside the timeline: tables that sort and export, charts that lead back to the timeline.
import { leaveBy } from "./address.js";
import { button, dropdown, link, make, sortHead, table } from "./dom.js";
import { theme } from "./lanes.js";
import { showTime, viewExportAddress } from "./marks.js";
import { api, exactNs, hold, num, release, short, sqlUrl, tableUrl, whole } from "./server.js";
import { changed, drawSvg, fit, select } from "./start.js";
import { find, focusCanvas, lookHash, message, rangeText, setSearch } from "./toolbar.js";
import { view } from "./view.js";

const TIMELINE = "";
const PLOTLY = "/_dash-component-suites/plotly/package_data/plotly.min.js";
const host = () => document.getElementById("tl-page");
export let shownPage = TIMELINE; // the page on the screen; the timeline has no name
export let secondCapture = ""; // the capture that the page compares with
let asked = 0, plotly = null;
export const pagesAsked = () => asked;

export function buildTabs(meta) {
  const bar = document.getElementById("tl-tabs");
  bar.setAttribute("role", "tablist");
  bar.setAttribute("aria-label", "pages");
  bar.replaceChildren();
  for (const [name, title] of [[TIMELINE, "Timeline"], ...meta.pages]) {
    const tab = button(title, title, () => {
      const open = () => { openPage(name); };
      if (name === shownPage) open(); else leaveBy(open);
    });
    tab.dataset.page = name;
    tab.setAttribute("role", "tab");
    bar.append(tab);
  }
  bar.append(rangeText());
  choose(TIMELINE);
}
function choose(name) {
  shownPage = name;
  document.getElementById("tl-root").classList.toggle("paged", name !== TIMELINE);
  for (const tab of document.querySelectorAll("#tl-tabs button")) tab.setAttribute("aria-selected", String(tab.dataset.page === name));
}

export function closePage() { asked += 1; secondCapture = ""; choose(TIMELINE); }
// What acts on the timeline brings it on the screen.
export function showTimeline() {
  if (!shownPage) return;
  leaveBy(closePage);
}

export async function openPage(name, second) {
  if (name !== TIMELINE && !view.meta.pages.some((p) => p[0] === name)) return;
  const mine = ++asked, readings = view.meta.readings;
  secondCapture = second || "";
  choose(name);
  changed();
  if (name === TIMELINE) { focusCanvas(); return; }
  host().replaceChildren(make("p", "tl-note", "computing the answers …"));
  hold();
  try {
    const found = await api.page(name, second);
    if (mine !== asked) return;
    secondCapture = found.second || "";
    changed(); // its address names what is compared
    await show(found, () => mine === asked);
    if (mine === asked && readings !== view.meta.readings) outdatePage();
  } catch (problem) { if (mine === asked) host().replaceChildren(...problem.message.split("\n").map((line) => make("p", "tl-note", line))); } finally { release(); }
}

// A recording goes on while its page is read: the page stays, but the numbers of its events are those of before.
export function outdatePage() {
  if (!shownPage || host().querySelector(".tl-outdated")) return;
  const bar = make("div", "tl-row tl-outdated");
  bar.append(
    make("span", "tl-missing", "New data was recorded: the links on this page may lead to wrong events."),
    button("Update", "compute this page again", () => openPage(shownPage, secondCapture)),
  );
  host().prepend(bar);
}

async function show(page, isOpen) {
  host().replaceChildren(make("h2", "", page.title));
  host().scrollTop = 0;
  if (page.second) host().append(otherBar(page));
  for (const text of page.problem || []) host().append(make("p", "tl-missing", text));
  showFindings(page.findings || []);
  for (const answer of page.answers || []) host().append(answerBox(answer));
  if (page.verdicts && page.verdicts.length) host().append(verdictBox(page.verdicts));
  // In the first screen stands what is asked most: answers, verdicts, the first table.
  const drawn = make("div", "tl-charts"), [first, ...rest] = page.sections.map((section) => sectionBox(section));
  if (page.examples) host().append(sqlBox(page));
  host().append(...(first ? [first] : []), drawn, ...rest);
  // All boxes first: a chart takes the width that its box has when it is drawn.
  const boxes = page.charts.map((figure) => chartBox(drawn, figure));
  for (let i = 0; i < boxes.length && isOpen(); i += 1) await chart(boxes[i], page.charts[i], isOpen);
}

// What differs stands before the tables; of captures that differ in everything only the beginning.
const FINDINGS = 15;
function showFindings(all) {
  const lines = all.map((text) => make("p", "tl-finding", text)), more = lines.splice(FINDINGS);
  host().append(...lines);
  if (!more.length) return;
  const rest = make("details");
  rest.append(make("summary", "", num(more.length) + " more differences"), ...more);
  host().append(rest);
}

// Which capture is compared, and both of them on one axis of time.
function otherBar(page) {
  const bar = make("div", "tl-row");
  const list = dropdown("capture B", page.rest.map((name) => [name, name]), page.second, () => openPage("compare", list.value));
  bar.append(make("span", "tl-note", "B:"), list, make("span", "tl-note", "both on one timeline:"));
  for (const [at, text] of [["start", "first events together"], ["packet", "first packets together"]]) {
    const link = make("a", "tl-link", text);
    link.href = "/?" + new URLSearchParams({ capture: view.meta.shown, other: page.second, at: at });
    link.addEventListener("click", () => { link.hash = lookHash(); });
    bar.append(link);
  }
  return bar;
}

// --- leads back ---------------------------------------------------------------------------------
export async function goTo(lead) {
  if (lead[0] === "page") { leaveBy(() => { openPage(lead[1]); }); return; }
  if (host().querySelector(".tl-outdated")) { message("update the page first"); host().scrollTop = 0; return; }
  showTimeline();
  focusCanvas(); // before anything is waited for: somebody may go on to type elsewhere
  if (lead[0] === "range") { view.setRange(lead[1], Math.max(lead[2], lead[1] + 1)); changed(); }
  else if (lead[0] === "time") showTime(lead[1]);
  else if (lead[0] === "event") { if (await select(lead[1], true)) { fit(); changed(); } }
  else if (lead[0] === "search") { setSearch(lead[1]); await find(false); }
}
function leadButton(text, title, lead) {
  const node = button(text, title, () => goTo(lead));
  node.className = "tl-lead";
  return node;
}
function eventLeads(events) {
  const box = make("span", "tl-leads");
  for (const event of events.slice(0, 8)) box.append(leadButton("#" + event, "show event " + event + " on the timeline", ["event", event]));
  return box;
}

// The report's own words are Markdown: a name between back quotes is code here. The event that they name is a link.
export function plain(className, text, tag) {
  const node = make(tag || "p", className);
  text.split("`").forEach((part, i) => {
    if (i % 2) { node.append(make("code", "", part)); return; }
    part.split(/\bevent (\d+)/).forEach((piece, j) => {
      node.append(j % 2 ? leadButton("event " + piece, "show it on the timeline", ["event", Number(piece)]) : piece);
    });
  });
  return node;
}

// --- tables -------------------------------------------------------------------------------------
function answerBox(answer) {
  const box = make("section", "tl-answer");
  box.append(make("h3", "", answer.question));
  for (const line of answer.answer) box.append(plain("", line));
  box.append(eventLeads(answer.events));
  return box;
}
function verdictBox(verdicts) {
  const box = make("section"), all = verdicts.map((v) => v.outcome);
  const order = ["FAIL", "UNKNOWN", "PASS"], counts = order.map((o) => all.filter((one) => one === o).length + " " + o);
  const sorted = [...verdicts].sort((a, b) => order.indexOf(a.outcome) - order.indexOf(b.outcome));
  box.append(make("h3", "", "Verdict on each claim: " + counts.join(", ")), verdictTable(sorted));
  return box;
}
function verdictTable(verdicts) {
  const rows = verdicts.map((v) => [v.name, plain("", v.claim, "span"), make("span", "tl-" + v.outcome.toLowerCase(), v.outcome),
    plain("", v.reason, "span"), plain("", v.remedy || "", "span"), eventLeads(v.events)]);
  return table("tl-table", ["verdict", "claim", "outcome", "reason", "to know it", "events"], rows, ["", "wrap", "", "wrap", "wrap"]);
}
// `csv`: the address of all rows.
export function sectionBox(section, csv) {
  const box = make("section", "tl-section");
  const head = make("div", "tl-row");
  head.append(make("h3", "", section.title));
  box.append(head);
  if (section.missing) box.append(plain("tl-note tl-how", "Missing: " + section.missing));
  if (!section.rows.length) { box.append(make("p", "tl-note", section.missing ? "" : section.nothing)); return box; }
  const rows = sortable(section), wrap = make("div", "tl-scroll"), find = make("input");
  find.type = "search";
  find.placeholder = "filter rows";
  find.setAttribute("aria-label", "filter the rows of " + section.title);
  find.addEventListener("input", () => rows.filter(find.value.trim().toLowerCase()));
  if (section.rows.length > 5) head.append(find);
  head.append(link("CSV", "all rows of " + section.title + " as CSV", () => csv || tableUrl(section.key, secondCapture)));
  if (section.evidence) box.append(plain("tl-note tl-how", "How it is known: " + section.evidence));
  wrap.tabIndex = 0; // scrolled by keys, too
  wrap.append(rows.table);
  box.append(wrap);
  if (section.total > section.rows.length) box.append(make("p", "tl-note", num(section.total - section.rows.length) + " more rows: CSV has all"));
  return box;
}
function sortable(section) {
  const used = section.columns.map((c, i) => i).filter((i) => section.rows.some((r) => r[i] !== null));
  const table = make("table", "tl-table");
  const head = table.createTHead().insertRow();
  const body = table.createTBody();
  const sorted = { by: null, down: true };
  const digits = section.columns.map((c, i) => (c.kind === "number" ? mostDigits(section.rows.map((r) => r[i])) : 0));
  const fill = (rows) => body.replaceChildren(...rows.map((r) => rowOf(section, used, r, digits)));
  for (const i of used) head.append(sortHead(i, section.columns[i].heading, isNumber(section.columns[i]), sorted, () => filter()));
  let wanted = "";
  const told = (values) => values.map((value, i) => section.columns[i].names[value] || value).join(" ").toLowerCase();
  const filter = (text) => {
    if (text !== undefined) wanted = text;
    const { by, down } = sorted, shown = by === null ? section.rows : [...section.rows].sort((a, b) => compare(a[by], b[by], down));
    fill(wanted ? shown.filter((values) => told(values).includes(wanted)) : shown);
  };
  filter();
  return { table: table, filter: filter };
}
// What is not known comes last in either direction.
export function compare(a, b, down) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  const less = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  return down ? -less : less;
}
// All numbers of a column have as many digits behind the point: 0 of a share would be none at all, 0.0 is little.
const mostDigits = (values) => Math.min(3, Math.max(...values.map((v) => (String(v).split(".")[1] || "").length)));
const grouped = (value, digits) => value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
function plainText(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return Array.isArray(value) ? value.join(", ") : String(value);
}
function rowOf(section, used, values, digits) {
  const row = make("tr");
  for (const i of used) {
    const { kind, names } = section.columns[i], value = values[i];
    const cell = make("td", isNumber(section.columns[i]) ? "n" : isSentence(value) ? "wrap" : "");
    if (value === null) cell.textContent = "-";
    else if (kind === "event") cell.append(leadButton("#" + value, "show on the timeline", ["event", value]));
    else if (kind === "time") { cell.append(leadButton(whole(value), exactNs(value) + " after the start", ["time", value])); cell.dataset.ns = value; }
    else if (kind === "name") cell.append(leadButton(value, "find " + value, ["search", '"' + value + '"']));
    else if (kind === "ns") { cell.textContent = short(value); cell.title = exactNs(value); cell.dataset.ns = value; }
    else if (names[value] !== undefined) { cell.textContent = names[value]; cell.title = section.columns[i].name + " " + value; }
    else { cell.textContent = kind === "number" ? grouped(value, digits[i]) : plainText(value); cell.title = cell.textContent; }
    row.append(cell);
  }
  return row;
}
const isText = (column) => column.kind === "text" || column.kind === "name";
const isNumber = (column) => !isText(column) && !Object.keys(column.names).length;
// Words are read to their end; a name that is too long is cut.
const isSentence = (value) => typeof value === "string" && value.length <= 300 && value.split(" ").length > 5;

// --- SQL ----------------------------------------------------------------------------------------
function sqlBox(page) {
  const box = make("div", "tl-examples"), input = make("textarea", "tl-sql"), found = make("div"), bar = make("div", "tl-row");
  const run = async () => {
    found.replaceChildren(make("p", "tl-note", "the query runs …"));
    const text = input.value;
    try { found.replaceChildren(sectionBox(await api.sql(text), sqlUrl(text))); } catch (problem) { found.replaceChildren(...problem.message.split("\n").map((line) => make("p", "tl-missing", line))); }
  };
  const examples = dropdown("example", [["", "Examples"], ...page.examples.map(([name, what]) => [name, name + ": " + what])], "", () => {
    input.value = (page.examples.find(([name]) => name === examples.value) || ["", "", input.value])[2];
  });
  input.rows = 6;
  input.maxLength = 4000;
  input.spellcheck = false;
  input.value = "SELECT layer, name, COUNT(*) AS events, MIN(event) AS first_event FROM events GROUP BY layer, name ORDER BY events DESC LIMIT 100";
  input.setAttribute("aria-label", "SQL query");
  input.addEventListener("keydown", (e) => { if (e.key === "Enter" && e.ctrlKey) { e.preventDefault(); run(); } });
  bar.append(button("Run", "run the query (Ctrl + Enter)", run), examples, make("span", "tl-note", "A query can only read, for at most one minute. In columns whose names end with event, click a number to see the event on the timeline. tracecorr query --schema lists all tables."));
  box.append(input, bar, found);
  return box;
}

// --- charts -------------------------------------------------------------------------------------
function loadPlotly() {
  plotly = plotly || new Promise((done, fail) => {
    if (window.Plotly) { done(window.Plotly); return; }
    const script = document.createElement("script");
    script.src = PLOTLY;
    script.onload = () => done(window.Plotly);
    script.onerror = () => { plotly = null; fail(new Error("the chart library did not load")); };
    document.head.append(script);
  });
  return plotly;
}
function chartBox(drawn, figure) {
  const box = make("div", "tl-chart");
  box.setAttribute("role", "figure");
  box.setAttribute("aria-label", figure.layout.title.text || "chart");
  drawn.append(box);
  return box;
}
function chartColours() {
  const colours = { paper_bgcolor: theme.bg, plot_bgcolor: theme.bg, "font.color": theme.text };
  for (const axis of ["xaxis", "yaxis"]) colours[axis + ".gridcolor"] = colours[axis + ".zerolinecolor"] = theme.line;
  return colours;
}
export function recolourCharts() {
  for (const box of host().querySelectorAll(".tl-chart.js-plotly-plot")) window.Plotly.relayout(box, chartColours());
}
async function chart(box, figure, isOpen) {
  const library = await loadPlotly();
  if (!isOpen()) return;
  const layout = { ...figure.layout, font: { size: 12 } };
  for (const [key, colour] of Object.entries(chartColours())) {
    const [part, name] = key.split(".");
    if (name) layout[part] = { ...layout[part], [name]: colour }; else layout[part] = colour;
  }
  await library.newPlot(box, figure.data, layout, { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["sendDataToCloud"] });
  const leadOf = (event) => event.points.map((p) => p.customdata).find((c) => Array.isArray(c));
  box.on("plotly_click", (event) => { if (leadOf(event)) goTo(leadOf(event)); });
  box.on("plotly_hover", (event) => box.classList.toggle("leads", Boolean(leadOf(event))));
  box.on("plotly_unhover", () => box.classList.remove("leads"));
}

// --- exports of the view ------------------------------------------------------------------------
function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
function fileName() { return view.meta.name.replace(/[^\w.-]+/g, "_"); }
export function exportView(form) {
  const name = fileName();
  if (form === "png") document.querySelector("#tl-canvas-host canvas").toBlob((blob) => save(blob, name + ".png"));
  else if (form === "svg") save(new Blob([drawSvg()], { type: "image/svg+xml" }), name + ".svg");
  else location.href = viewExportAddress(form);
}
