// Toolbar, search, legend, help, tooltip: everything around the canvas but the detail panel.
window.TL = window.TL || {};
(function (TL) {
  "use strict";
  const $ = (id) => document.getElementById(id);
  let box, counter, range, size, tip, searchAt = -1;

  function button(text, title, action) {
    const node = TL.make("button", "", text);
    node.type = "button";
    node.title = title;
    node.setAttribute("aria-label", title);
    node.addEventListener("click", () => action());
    return node;
  }
  TL.button = button;
  // A link whose address is worked out when it is followed.
  TL.link = function (text, title, address) {
    const node = TL.make("a", "tl-link", text);
    node.href = address();
    node.title = title;
    node.setAttribute("download", "");
    node.addEventListener("focus", () => { node.href = address(); });
    node.addEventListener("pointerdown", () => { node.href = address(); });
    return node;
  };

  TL.buildToolbar = function (meta) {
    const bar = $("tl-toolbar");
    bar.replaceChildren(TL.make("b", "tl-brand", "tracecorr"));
    if (meta.captures.length > 1) bar.append(selector(meta));
    else bar.append(TL.make("span", "tl-name", meta.name));
    document.title = meta.name + " · tracecorr";
    size = TL.make("span", "tl-note");
    TL.showSize(meta);
    bar.append(size);
    box = TL.make("input");
    box.type = "search";
    box.placeholder = "Name, #event, 0x…, @time  ( / )";
    box.setAttribute("aria-label", "search");
    box.addEventListener("keydown", (e) => { if (e.key === "Enter") TL.find(e.shiftKey); });
    box.addEventListener("input", () => { searchAt = -1; if (box.value) countSoon(); else clearSearch(); });
    counter = TL.make("span", "tl-count");
    range = TL.make("span", "tl-range");
    const filters = button("Filters", "filters and colours (G)", () => { TL.showTimeline(); TL.toggleFilters(); });
    filters.id = "tl-filter-button";
    filters.setAttribute("aria-expanded", "false");
    bar.append(
      box, counter,
      button("◂", "previous hit (Shift + Enter)", () => TL.find(true)), button("▸", "next hit (Enter)", () => TL.find(false)), filters,
      button("Fit", "fit the chain of the selection (F)", () => { TL.showTimeline(); TL.fit(); TL.changed(); }),
      button("Chain", "only the lanes of the chain (P)", () => { TL.showTimeline(); TL.toggleChain(); TL.changed(); }),
      button("Whole", "whole capture (0)", () => { TL.showTimeline(); TL.view.whole(); TL.changed(); }),
      button("Note", "write a note (B)", () => { TL.showTimeline(); TL.editNote(); }), exports(),
      button("Link", "copy the address of this view", () => { TL.writeHash(); TL.copy(location.href, "address of this view"); }),
      button("Theme", "light or dark (T)", () => TL.toggleTheme()), button("?", "help", () => TL.toggleHelp()),
    );
  };

  TL.showSize = function (meta) { size.textContent = TL.num(meta.events) + (meta.events === 1 ? " event" : " events"); };

  // Exports of the view: its picture, the rows in it, the range for other viewers.
  function exports() {
    const list = TL.make("select");
    list.setAttribute("aria-label", "export the view");
    list.id = "tl-export";
    for (const [value, text] of [["", "Export"], ["png", "PNG of the picture"], ["svg", "SVG of the picture"], ["csv", "CSV of the rows"], ["perfetto", "Perfetto of the range"]]) {
      const option = TL.make("option", "", text);
      option.value = value;
      list.append(option);
    }
    list.addEventListener("change", () => { const form = list.value; list.value = ""; if (form) TL.exportView(form); });
    return list;
  }

  // Two captures together are an entry of their own: from them the way leads to each.
  TL.isPair = () => Boolean(new URLSearchParams(location.search).get("other"));
  function selector(meta) {
    const list = TL.make("select");
    list.setAttribute("aria-label", "capture");
    list.title = meta.name; // of two captures it may be wider than its place
    list.classList.toggle("tl-two", TL.isPair());
    const shown = TL.isPair() ? "" : meta.shown;
    for (const [value, text] of [...(shown ? [] : [["", meta.name]]), ...meta.captures.map((name) => [name, name])]) {
      const option = TL.make("option", "", text);
      option.value = value;
      option.selected = value === shown;
      list.append(option);
    }
    list.addEventListener("change", () => {
      if (list.value) location.href = "/?capture=" + encodeURIComponent(list.value) + TL.lookHash(TL.page);
    });
    return list;
  }
  // What of the view belongs to the reader and not to the capture.
  TL.lookHash = function (page) {
    const look = new URLSearchParams({ theme: document.documentElement.dataset.theme });
    if (page) look.set("page", page);
    return "#" + look.toString();
  };
  TL.copy = async function (text, what) {
    try { await navigator.clipboard.writeText(text); TL.message(what + " copied"); } catch (problem) { TL.message("copy it from here: " + text); }
  };

  TL.rangeText = () => range;
  TL.showRange = function () {
    const v = TL.view;
    range.textContent = TL.num(v.t0) + " → " + TL.ns(v.t1) + "  (" + TL.short(v.span()) + ")";
  };

  // --- search ----------------------------------------------------------------------------------
  let resting = null; // the timer that counts hits
  TL.focusSearch = function () { box.focus(); box.select(); };
  function clearSearch() {
    clearTimeout(resting);
    TL.view.search = null;
    counter.textContent = "";
    TL.redraw();
  }
  TL.setSearch = function (text) { box.value = text; };
  TL.searchText = () => box.value.trim();
  TL.clearSearch = function () { box.value = ""; searchAt = -1; clearSearch(); };
  TL.find = async function (back) {
    clearTimeout(resting);
    const text = box.value.trim();
    if (!text) { clearSearch(); return; }
    TL.showTimeline();
    if (text[0] === "@") { counter.textContent = TL.goToTime(text) ? "" : "no such time: write @1.5ms"; return; }
    await TL.inTurn((isOpen) => findNext(text, back, () => isOpen() && box.value.trim() === text));
  };
  // Not when it was cleared, changed or overtaken while it was looked for.
  async function findNext(text, back, isOpen) {
    let found, problem = null;
    if (!isOpen()) return;
    try { found = await TL.api.search(text, searchAt, back); } catch (failure) { problem = failure; }
    if (!isOpen()) { if (box.value.trim() === text) TL.showHits(); return; }
    if (problem) { counter.textContent = problem.message; return; }
    TL.view.search = { text: text, names: found.names, set: new Set(found.names), count: found.count };
    TL.loadTicks();
    counter.textContent = found.count ? TL.num(found.position) + " of " + TL.num(found.count) : "nothing found";
    if (found.event !== null) { searchAt = found.event; await TL.choose(found.event, true); }
    TL.redraw();
  }
  // Hits are counted while somebody types, once the hand rests; addresses and numbers cost more, they wait for Enter.
  const REST_MS = 250;
  function countSoon() {
    clearTimeout(resting);
    const text = box.value.trim();
    if (!text || /^(0x|#|@|[0-9])/i.test(text)) return;
    resting = setTimeout(async () => {
      if (TL.view.search && TL.view.search.text === text) return;
      await TL.showHits();
      if (box.value.trim() === text) TL.loadTicks();
    }, REST_MS);
  }
  // Counts and marks the hits without going to one: for a view that comes from its address.
  TL.showHits = async function () {
    const text = box.value.trim();
    try {
      const found = await TL.api.search(text, -1, false);
      if (box.value.trim() !== text || searchAt >= 0) return; // overtaken by the next letter, or by Enter
      TL.view.search = { text: text, names: found.names, set: new Set(found.names), count: found.count };
      counter.textContent = found.count ? TL.num(found.count) + " found" : "nothing found";
      TL.redraw();
    } catch (problem) { if (box.value.trim() === text) counter.textContent = problem.message; }
  };
  // What a search found is found anew: events and names have other numbers.
  TL.recount = async function () {
    if (!TL.view.search) return;
    searchAt = -1;
    await TL.showHits();
  };
  // Where hits lie in the view: marks on the ruler.
  let ticking = 0;
  TL.loadTicks = async function () {
    const search = TL.view.search;
    if (!search) return;
    const t0 = Math.floor(TL.view.t0), t1 = Math.ceil(TL.view.t1), width = Math.min(8000, Math.ceil(TL.view.plotWidth()));
    const mine = ++ticking;
    if (search.ticks && search.t0 === t0 && search.t1 === t1) return;
    let ticks, problem = null;
    try { ticks = await TL.api.ticks(search.text, t0, t1, width); } catch (failure) { problem = failure; }
    if (mine !== ticking || search !== TL.view.search) return; // of a view that was left since
    if (problem) { TL.message("search: " + problem.message); return; }
    Object.assign(search, { ticks: ticks, t0: t0, t1: t1, width: width });
    TL.redraw();
  };

  // Read aloud by screen readers when it changes.
  function live() {
    const node = TL.make("span", "tl-message");
    node.setAttribute("role", "status");
    return node;
  }

  // --- legend and status ------------------------------------------------------------------------
  TL.buildLegend = function (ranges) {
    const bar = $("tl-status");
    const entry = (kind, text) => {
      const mark = TL.make("span", "tl-swatch " + kind);
      mark.style.setProperty("--c", "#0072B2");
      const out = TL.make("span", "tl-entry");
      out.append(mark, document.createTextNode(text));
      return out;
    };
    bar.replaceChildren(
      entry("", "solid = recorded"), entry("hollow", "hatched, dashed = inferred"), entry("error", "dashed box = error of its start"),
      entry("loss", "red = records lost"), entry("merged", "lower block = several merged, height = busy share"), entry("failed", "red top = failed"),
      ...(ranges.some((r) => r.kind === "untraced") ? [entry("untraced", "gray = before or after the kernel trace")] : []),
      ...(ranges.some((r) => r.kind === "clock") ? [entry("sample", "violet line = clock sample")] : []),
      live(), TL.make("span", "tl-hint", "? = keys"),
    );
  };
  TL.focusCanvas = function () { const canvas = document.querySelector("#tl-canvas-host canvas"); if (canvas) canvas.focus({ preventScroll: true }); };
  TL.message = function (text) { document.querySelector("#tl-status .tl-message").textContent = (text || "").replaceAll("\n", " · "); };

  // What a reader of the picture must know stays in sight: the beginning of the first, and all when it is pressed.
  TL.showWarnings = function (warnings) {
    const bar = $("tl-status"), old = bar.querySelector(".tl-warning");
    const wasOpen = old !== null && old.getAttribute("aria-expanded") === "true";
    const hadFocus = old !== null && old === document.activeElement;
    if (old) old.remove();
    if (!warnings.length) return;
    const node = TL.make("button", "tl-warning");
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
  };
  TL.toggleHelp = function (show) {
    const help = $("tl-help");
    if (!help.firstChild) {
      const card = TL.make("div", "tl-card");
      card.append(TL.make("h3", "", "Keys and mouse"));
      const table = TL.make("table");
      for (const [key, what] of TL.KEYS) {
        const row = table.insertRow();
        row.append(TL.make("td", "key", key), TL.make("td", "", what));
      }
      card.append(table);
      help.append(card);
      help.addEventListener("click", () => TL.toggleHelp(false));
    }
    help.classList.toggle("open", show);
  };

  // Instead of an empty page: what is wrong, what to do, and the way to the other captures.
  TL.showFailure = async function (host, problem) {
    const box = TL.make("div", "tl-instead");
    box.setAttribute("role", "alert");
    const [what, ...next] = problem.message.split("\n");
    box.append(TL.make("h2", "", "This capture cannot be shown"), TL.make("p", "", what));
    for (const line of next) box.append(TL.make("p", "", "Next step: " + line));
    host.replaceChildren(box);
    let names = [];
    try { names = await TL.api.captures(); } catch (lost) { box.append(TL.make("p", "", lost.message)); }
    const asked = new URLSearchParams(location.search).get("capture") || names[0];
    const others = TL.make("p", "", names.length > 1 ? "The other captures served here: " : "");
    for (const name of names) {
      if (name === asked) continue;
      const link = TL.make("a", "tl-link", name);
      link.href = "/?capture=" + encodeURIComponent(name);
      others.append(link, " ");
    }
    box.append(others);
  };

  // --- tooltip ----------------------------------------------------------------------------------
  let asked = 0, tipTimer = null, tipKey = "";
  function tipLines(hit) {
    if (hit.lane.counter) return [hit.lane.label, "at " + about(hit.start, hit.unit)];
    const lines = [TL.view.meta.names[hit.name]];
    if (hit.count > 1) lines[0] = TL.num(hit.count) + " events merged, longest: " + lines[0];
    if (hit.style & TL.CLIPPED) lines.push("reaches far out of the view");
    else {
      lines.push("start " + about(hit.start, hit.unit));
      const length = hit.count > 1 ? "first start to last end " : hit.style & TL.INFERRED ? "interval of " : "duration ";
      if (hit.dur > 0) lines.push(length + about(hit.dur, hit.unit));
    }
    if (hit.style & TL.INFERRED) lines.push("inferred: only this interval is known");
    if (hit.style & TL.FAILED) lines.push(hit.count > 1 ? "at least one failed" : "failed");
    if (hit.style & TL.HALF) lines.push(hit.count > 1 ? "of at least one only one end was seen" : "only one end was seen");
    return lines;
  }
  // In a long view times are known to a billionth of it: no digit is shown that is not known.
  function about(ns, unit) {
    return unit === 1 ? TL.ns(ns) : "about " + TL.num(Math.round(ns / 1000)) + " us";
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
          const found = await TL.api.value(hit.lane.id, Math.round(TL.view.time(TL.view.cursor ? TL.view.cursor.x : 0)));
          lines = found.value === null ? ["no value here"] : [hit.lane.label, found.value.toLocaleString("en-US"), "since " + TL.ns(found.start)];
        } else if (hit.event !== TL.NONE && hit.count === 1 && !(hit.style & TL.INFERRED)) {
          const e = await TL.api.brief(hit.event);
          // A job is drawn from one event to another: its length is not that of the event it begins with.
          const own = e.name === TL.view.meta.names[hit.name];
          lines = own ? [e.name, "start " + TL.ns(e.start), e.dur !== null ? "duration " + TL.ns(e.dur) : hit.style & TL.HALF ? "only one end was seen" : "an instant"] : [...tipLines(hit), hit.lane.layer === "hqd" ? "click: its registers" : "begins with " + e.name];
          if (e.result) lines.push("result " + e.result);
          if (e.stream !== null) lines.push(TL.view.meta.streams[e.stream] || "stream " + e.stream);
          lines.push(e.evidence + " · " + e.source + " · error −" + (e.err_lo_ns ?? "?") + " +" + (e.err_hi_ns ?? "?") + " ns");
        }
      } catch (problem) { return; } // the tip keeps what the view itself knows
      if (lines && mine === asked && tip.classList.contains("open")) tip.textContent = lines.join("\n");
    }, 150);
  }
  TL.hideTip = function () {
    if (tip) tip.classList.remove("open");
    tipKey = "";
    asked += 1;
    clearTimeout(tipTimer);
  };
  TL.hover = function (x, y, event) {
    if (!tip) { tip = TL.make("div", "tl-tip"); document.body.append(tip); }
    const hit = x >= TL.GUTTER && y >= TL.TOP ? TL.hit(x, y) : null;
    if (!hit) { TL.hideTip(); return; }
    tip.classList.add("open");
    if (hit.lane.id + ":" + hit.event + ":" + hit.start !== tipKey) tip.textContent = tipLines(hit).join("\n");
    exactTip(hit);
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = left + "px";
    tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
  };
})(window.TL);
