// Toolbar, search, legend, help, tooltip: everything around the canvas but the detail panel.
window.TL = window.TL || {};
(function (TL) {
  "use strict";
  const $ = (id) => document.getElementById(id);
  let box, counter, range, tip, searchAt = -1;

  function button(text, title, action) {
    const node = TL.make("button", "", text);
    node.title = title;
    node.addEventListener("click", () => { node.blur(); action(); });
    return node;
  }

  TL.buildToolbar = function (meta) {
    const bar = $("tl-toolbar");
    bar.replaceChildren(TL.make("b", "tl-brand", "tracecorr"));
    if (meta.captures.length > 1) bar.append(selector(meta));
    else bar.append(TL.make("span", "tl-name", meta.name));
    bar.append(TL.make("span", "tl-note", TL.num(meta.events) + " events"));
    box = TL.make("input");
    box.type = "search";
    box.placeholder = "Search: name, #event, 0x…  ( / )";
    box.setAttribute("aria-label", "search");
    box.addEventListener("keydown", (e) => { if (e.key === "Enter") TL.find(e.shiftKey); });
    box.addEventListener("input", () => { searchAt = -1; if (!box.value) clearSearch(); });
    counter = TL.make("span", "tl-count");
    range = TL.make("span", "tl-range");
    bar.append(
      box, counter,
      button("◂", "previous hit (Shift + Enter)", () => TL.find(true)), button("▸", "next hit (Enter)", () => TL.find(false)),
      button("Fit", "fit the chain of the selection (F)", () => { TL.fit(); TL.changed(); }),
      button("Chain lanes", "only the lanes of the chain (P)", () => { TL.toggleChain(); TL.changed(); }),
      button("Whole", "whole capture (0)", () => { TL.view.whole(); TL.changed(); }),
      button("Theme", "light or dark (T)", () => TL.toggleTheme()), button("?", "help", () => TL.toggleHelp()), range,
    );
  };

  function selector(meta) {
    const list = TL.make("select");
    list.setAttribute("aria-label", "capture");
    const asked = new URLSearchParams(location.search).get("capture") || meta.captures[0];
    for (const name of meta.captures) {
      const option = TL.make("option", "", name);
      option.value = name;
      option.selected = name === asked;
      list.append(option);
    }
    list.addEventListener("change", () => { location.href = "/?capture=" + encodeURIComponent(list.value); });
    return list;
  }

  TL.showRange = function () {
    const v = TL.view;
    range.textContent = TL.num(v.t0) + " → " + TL.ns(v.t1) + "  (" + TL.short(v.span()) + ")";
  };

  // --- search ----------------------------------------------------------------------------------
  TL.focusSearch = function () { box.focus(); box.select(); };
  function clearSearch() {
    TL.view.search = null;
    counter.textContent = "";
    TL.redraw();
  }
  TL.clearSearch = function () { box.value = ""; searchAt = -1; clearSearch(); };
  TL.find = async function (back) {
    const text = box.value.trim();
    if (!text) { clearSearch(); return; }
    let found;
    try { found = await TL.api.search(text, searchAt, back); } catch (problem) { counter.textContent = problem.message; return; }
    TL.view.search = { names: found.names, set: new Set(found.names), count: found.count };
    counter.textContent = found.count ? TL.num(found.position) + " of " + TL.num(found.count) : "nothing found";
    if (found.event !== null) { searchAt = found.event; await TL.select(found.event, true); }
    TL.redraw();
  };

  // --- legend and status ------------------------------------------------------------------------
  TL.buildLegend = function () {
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
      entry("merged", "lower block = several merged, height = busy share"), entry("failed", "red top = failed"),
      TL.make("span", "tl-message"), TL.make("span", "tl-hint", "click a span for its chain · ? for keys"),
    );
  };
  TL.message = function (text) { document.querySelector("#tl-status .tl-message").textContent = text || ""; };

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

  // --- tooltip ----------------------------------------------------------------------------------
  TL.hover = function (x, y, event) {
    if (!tip) { tip = TL.make("div", "tl-tip"); document.body.append(tip); }
    const hit = x >= TL.GUTTER && y >= TL.TOP ? TL.hit(x, y) : null;
    tip.classList.toggle("open", hit !== null);
    if (!hit) return;
    const lines = [TL.view.meta.names[hit.name]];
    if (hit.count > 1) lines[0] = TL.num(hit.count) + " events merged, longest: " + lines[0];
    lines.push("start " + TL.ns(hit.start));
    if (hit.dur > 0) lines.push((hit.count > 1 ? "together " : "duration ") + TL.ns(hit.dur));
    if (hit.style & TL.INFERRED) lines.push("inferred: only this interval is known");
    if (hit.style & TL.FAILED) lines.push("failed");
    if (hit.style & TL.HALF) lines.push("only one end was seen");
    tip.textContent = lines.join("\n");
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = left + "px";
    tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
  };
})(window.TL);
