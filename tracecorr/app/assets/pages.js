// The pages beside the timeline: tables that sort and export, charts that lead back to the timeline.
window.TL = window.TL || {};
(function (TL) {
  "use strict";
  const TIMELINE = "";
  const PLOTLY = "/_dash-component-suites/plotly/package_data/plotly.min.js";
  const host = () => document.getElementById("tl-page");
  TL.page = TIMELINE; // the page on the screen; the timeline has no name
  TL.second = ""; // the capture that the page compares with
  let asked = 0, plotly = null;
  TL.pagesAsked = () => asked;

  TL.buildTabs = function (meta) {
    const bar = document.getElementById("tl-tabs");
    bar.setAttribute("role", "tablist");
    bar.setAttribute("aria-label", "pages");
    bar.replaceChildren();
    for (const [name, title] of [[TIMELINE, "Timeline"], ...meta.pages]) {
      const tab = TL.button(title, title, () => {
        const open = () => { TL.openPage(name); };
        if (name === TL.page) open(); else TL.leaveBy(open);
      });
      tab.dataset.page = name;
      tab.setAttribute("role", "tab");
      bar.append(tab);
    }
    bar.append(TL.rangeText());
    choose(TIMELINE);
  };
  function choose(name) {
    TL.page = name;
    document.getElementById("tl-root").classList.toggle("paged", name !== TIMELINE);
    for (const tab of document.querySelectorAll("#tl-tabs button")) tab.setAttribute("aria-selected", String(tab.dataset.page === name));
  }

  // What acts on the timeline brings it on the screen.
  TL.showTimeline = function () {
    if (!TL.page) return;
    TL.leaveBy(() => {
      asked += 1;
      TL.second = "";
      choose(TIMELINE);
    });
  };

  TL.openPage = async function (name, second) {
    if (name !== TIMELINE && !TL.view.meta.pages.some((p) => p[0] === name)) return;
    const mine = ++asked, readings = TL.view.meta.readings;
    TL.second = second || "";
    choose(name);
    TL.changed();
    if (name === TIMELINE) { TL.focusCanvas(); return; }
    host().replaceChildren(TL.make("p", "tl-note", "working out the answers …"));
    TL.hold();
    try {
      const found = await TL.api.page(name, second);
      if (mine !== asked) return;
      TL.second = found.second || "";
      TL.changed(); // its address names what is compared
      await show(found, () => mine === asked);
      if (mine === asked && readings !== TL.view.meta.readings) TL.outdatePage();
    } catch (problem) { if (mine === asked) host().replaceChildren(...problem.message.split("\n").map((line) => TL.make("p", "tl-note", line))); } finally { TL.release(); }
  };

  // A recording goes on while its page is read: the page stays, but the numbers of its events are those of before.
  TL.outdatePage = function () {
    if (!TL.page || host().querySelector(".tl-outdated")) return;
    const bar = TL.make("div", "tl-row tl-outdated");
    bar.append(
      TL.make("span", "tl-missing", "The recording went on since: links of this page would lead to other events."),
      TL.button("Show anew", "work the page out again", () => TL.openPage(TL.page, TL.second)),
    );
    host().prepend(bar);
  };

  async function show(page, isOpen) {
    host().replaceChildren(TL.make("h2", "", page.title));
    host().scrollTop = 0;
    if (page.second) host().append(otherBar(page));
    for (const text of page.problem || []) host().append(TL.make("p", "tl-missing", text));
    showFindings(page.findings || []);
    for (const answer of page.answers || []) host().append(answerBox(answer));
    if (page.verdicts && page.verdicts.length) host().append(verdictBox(page.verdicts));
    const drawn = TL.make("div", "tl-charts");
    host().append(drawn);
    for (const section of page.sections) host().append(sectionBox(section));
    // All boxes first: a chart takes the width that its box has when it is drawn.
    const boxes = page.charts.map((figure) => chartBox(drawn, figure));
    for (let i = 0; i < boxes.length && isOpen(); i += 1) await chart(boxes[i], page.charts[i], isOpen);
  }

  // What differs stands before the tables; of captures that differ in everything only the beginning.
  const FINDINGS = 15;
  function showFindings(all) {
    const lines = all.map((text) => TL.make("p", "tl-finding", text)), more = lines.splice(FINDINGS);
    host().append(...lines);
    if (!more.length) return;
    const rest = TL.make("details");
    rest.append(TL.make("summary", "", TL.num(more.length) + " more differences"), ...more);
    host().append(rest);
  }

  // Which capture is compared, and both of them on one axis of time.
  function otherBar(page) {
    const bar = TL.make("div", "tl-row");
    const list = TL.make("select");
    list.setAttribute("aria-label", "capture B");
    for (const name of page.rest) {
      const option = TL.make("option", "", name);
      option.selected = name === page.second;
      list.append(option);
    }
    list.addEventListener("change", () => TL.openPage("compare", list.value));
    bar.append(TL.make("span", "tl-note", "B:"), list, TL.make("span", "tl-note", "both on one timeline:"));
    for (const [at, text] of [["start", "first events together"], ["packet", "first packets together"]]) {
      const link = TL.make("a", "tl-link", text);
      link.href = "/?" + new URLSearchParams({ capture: TL.view.meta.shown, other: page.second, at: at });
      link.addEventListener("click", () => { link.hash = TL.lookHash(); });
      bar.append(link);
    }
    return bar;
  }

  // --- leads back ---------------------------------------------------------------------------------
  TL.goTo = async function (lead) {
    if (host().querySelector(".tl-outdated")) { TL.message("show the page anew first"); host().scrollTop = 0; return; }
    TL.showTimeline();
    TL.focusCanvas(); // before anything is waited for: somebody may go on to type elsewhere
    if (lead[0] === "range") { TL.view.setRange(lead[1], Math.max(lead[2], lead[1] + 1)); TL.changed(); }
    else if (lead[0] === "time") TL.showTime(lead[1]);
    else if (lead[0] === "event") { if (await TL.select(lead[1], true)) { TL.fit(); TL.changed(); } }
    else if (lead[0] === "search") { TL.setSearch(lead[1]); await TL.find(false); }
  };
  function leadButton(text, title, lead) {
    const node = TL.button(text, title, () => TL.goTo(lead));
    node.className = "tl-lead";
    return node;
  }
  function eventLeads(events) {
    const box = TL.make("span", "tl-leads");
    for (const event of events.slice(0, 8)) box.append(leadButton("#" + event, "show event " + event + " on the timeline", ["event", event]));
    return box;
  }

  // The report's own words are Markdown: a name between back quotes is code here. The event that they name is a link.
  function plain(className, text, tag) {
    const node = TL.make(tag || "p", className);
    text.split("`").forEach((part, i) => {
      if (i % 2) { node.append(TL.make("code", "", part)); return; }
      part.split(/\bevent (\d+)/).forEach((piece, j) => {
        node.append(j % 2 ? leadButton("event " + piece, "show it on the timeline", ["event", Number(piece)]) : piece);
      });
    });
    return node;
  }

  // --- tables -------------------------------------------------------------------------------------
  function answerBox(answer) {
    const box = TL.make("section", "tl-answer");
    box.append(TL.make("h3", "", answer.question));
    for (const line of answer.answer) box.append(plain("", line));
    box.append(eventLeads(answer.events));
    return box;
  }
  function verdictBox(verdicts) {
    const box = TL.make("section"), all = verdicts.map((v) => v.outcome);
    const counts = ["FAIL", "UNKNOWN", "PASS"].map((o) => all.filter((one) => one === o).length + " " + o);
    box.append(TL.make("h3", "", "Verdict on each claim: " + counts.join(", ")), verdictTable(verdicts));
    return box;
  }
  function verdictTable(verdicts) {
    const table = TL.make("table", "tl-table");
    const head = table.createTHead().insertRow();
    for (const text of ["verdict", "claim", "outcome", "reason", "what would tell", "events"]) head.append(TL.make("th", "", text));
    const body = table.createTBody();
    for (const v of verdicts) {
      const row = body.insertRow();
      row.append(TL.make("td", "", v.name), plain("wrap", v.claim, "td"), TL.make("td", "tl-" + v.outcome.toLowerCase(), v.outcome));
      row.append(plain("wrap", v.reason, "td"), plain("wrap", v.remedy || "", "td"));
      row.insertCell().append(eventLeads(v.events));
    }
    return table;
  }
  function sectionBox(section) {
    const box = TL.make("section", "tl-section");
    const head = TL.make("div", "tl-row");
    head.append(TL.make("h3", "", section.title));
    if (section.rows.length) head.append(TL.button("CSV", "save the table " + section.title + " as CSV", () => saveTable(section)));
    box.append(head);
    if (section.missing) box.append(plain("tl-missing", "Missing: " + section.missing));
    if (!section.rows.length) { box.append(TL.make("p", "tl-note", section.missing ? "" : section.nothing)); return box; }
    if (section.evidence) box.append(plain("tl-note tl-how", "How it is known: " + section.evidence));
    const wrap = TL.make("div", "tl-scroll");
    wrap.append(sortable(section));
    box.append(wrap);
    if (section.total > section.rows.length) box.append(TL.make("p", "tl-note", TL.num(section.total - section.rows.length) + " more rows: tracecorr report --json has all"));
    return box;
  }
  function sortable(section) {
    const used = section.columns.map((c, i) => i).filter((i) => section.rows.some((r) => r[i] !== null));
    const table = TL.make("table", "tl-table");
    const head = table.createTHead().insertRow();
    const body = table.createTBody();
    let order = null, down = true;
    const digits = section.columns.map((c, i) => (c.kind === "number" ? mostDigits(section.rows.map((r) => r[i])) : 0));
    const fill = (rows) => body.replaceChildren(...rows.map((r) => rowOf(section, used, r, digits)));
    for (const i of used) {
      const cell = TL.make("th", isNumber(section.columns[i]) ? "n" : "");
      const name = section.columns[i].heading;
      const sort = TL.button(name, "sort by " + name, () => {
        down = order === i ? !down : !isText(section.columns[i]);
        order = i;
        for (const th of head.children) th.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        fill([...section.rows].sort((a, b) => compare(a[i], b[i], down)));
      });
      cell.append(sort);
      head.append(cell);
    }
    fill(section.rows);
    return table;
  }
  // What is not known comes last in either direction.
  function compare(a, b, down) {
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
    const row = TL.make("tr");
    for (const i of used) {
      const { kind, names } = section.columns[i], value = values[i];
      const cell = TL.make("td", isNumber(section.columns[i]) ? "n" : isSentence(value) ? "wrap" : "");
      if (value === null) cell.textContent = "-";
      else if (kind === "event") cell.append(leadButton("#" + value, "show on the timeline", ["event", value]));
      else if (kind === "time") cell.append(leadButton((value / 1e9).toFixed(6) + " s", TL.ns(value) + " after the start", ["time", value]));
      else if (kind === "name") cell.append(leadButton(value, "find " + value, ["search", '"' + value + '"']));
      else if (kind === "ns") { cell.textContent = TL.short(value); cell.title = TL.ns(value); }
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
  function saveTable(section) {
    const quote = (v) => {
      const text = v === null ? "" : Array.isArray(v) ? v.join(" ") : String(v);
      const safe = typeof v === "string" && /^[=+\-@\t]/.test(text) ? "'" + text : text; // never a formula
      return /[",\n]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
    };
    // A query has the host's times under these names.
    const heading = (c) => (c.kind === "time" ? c.name.replace(/_ns$/, "_after_start_ns") : c.name);
    const lines = [section.columns.map(heading), ...section.rows].map((r) => r.map(quote).join(","));
    TL.save(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }), fileName() + "-" + section.key + ".csv");
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
    const box = TL.make("div", "tl-chart");
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", figure.layout.title.text || "chart");
    drawn.append(box);
    return box;
  }
  function chartColours() {
    const theme = TL.theme(), colours = { paper_bgcolor: theme.bg, plot_bgcolor: theme.bg, "font.color": theme.text };
    for (const axis of ["xaxis", "yaxis"]) colours[axis + ".gridcolor"] = colours[axis + ".zerolinecolor"] = theme.line;
    return colours;
  }
  TL.recolourCharts = function () {
    for (const box of host().querySelectorAll(".tl-chart.js-plotly-plot")) window.Plotly.relayout(box, chartColours());
  };
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
    box.on("plotly_click", (event) => { if (leadOf(event)) TL.goTo(leadOf(event)); });
    box.on("plotly_hover", (event) => box.classList.toggle("leads", Boolean(leadOf(event))));
    box.on("plotly_unhover", () => box.classList.remove("leads"));
  }

  // --- exports of the view ------------------------------------------------------------------------
  TL.save = function (blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  function fileName() { return TL.view.meta.name.replace(/[^\w.-]+/g, "_"); }
  TL.exportView = function (form) {
    const name = fileName();
    if (form === "png") document.querySelector("#tl-canvas-host canvas").toBlob((blob) => TL.save(blob, name + ".png"));
    else if (form === "svg") TL.save(new Blob([TL.drawSvg()], { type: "image/svg+xml" }), name + ".svg");
    else location.href = TL.exportAddress(form);
  };
})(window.TL);
