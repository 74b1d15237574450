// Ties the parts together: start, redraw, fetch, selection, state in the URL.
// Dash loads the scripts by name; this one needs all others and so sorts last.
window.TL = window.TL || {};
window.__perf = { log: [], idle: false };
(function (TL) {
  "use strict";
  const FETCH_DELAY = 25; // ms: a wheel turn fires many events
  const MARGIN = 0.35; // fetched beyond each side, so that short pans need no wait
  const MAX_WIDTH = 8000;
  // The same names as ids.py.
  const IDS = { host: "tl-canvas-host", selection: "tl-selection" };
  const view = TL.view;
  let canvas, ctx, spans = null, drawing = false, timer = null, hashTimer = null, chosen = 0;

  function paint() {
    drawing = false;
    const begun = performance.now();
    ctx.fillStyle = TL.theme().bg2;
    ctx.fillRect(0, 0, view.width, view.height);
    TL.drawLanes(ctx, spans);
    TL.drawChain(ctx);
    TL.drawFrame(ctx);
    window.__perf.draw = performance.now() - begun;
    if (spans && !window.__perf.first) window.__perf.first = performance.now(); // since the page was asked for
    TL.release();
  }
  TL.redraw = function () {
    if (drawing || !view.meta) return;
    drawing = true;
    TL.hold();
    requestAnimationFrame(paint);
  };

  function covered() {
    if (!spans) return false;
    const edge = 0.08 * view.span(), pixel = view.perPixel();
    const inTime = spans.t0 <= Math.max(view.t0 - edge, -edge) && spans.t1 >= Math.min(view.t1 + edge, view.meta.length);
    const sharp = spans.pixel <= pixel * 1.15 && spans.pixel * 3 >= pixel;
    return inTime && sharp && view.wantedLanes().every((lane) => spans.lanes.has(lane));
  }
  function scheduleFetch() {
    if (timer !== null || covered()) return;
    TL.hold();
    timer = setTimeout(() => { timer = null; load().finally(TL.release); }, FETCH_DELAY);
  }
  async function load() {
    const more = view.span() * MARGIN;
    const t0 = Math.floor(view.t0 - more), t1 = Math.ceil(view.t1 + more);
    const width = Math.min(MAX_WIDTH, Math.ceil(view.plotWidth() * (1 + 2 * MARGIN)));
    try {
      const got = await TL.api.spans(t0, t1, width, view.wantedLanes());
      if (got) { spans = got; TL.message(""); TL.redraw(); scheduleFetch(); }
    } catch (problem) { TL.message("spans: " + problem.message); }
  }

  // Call after every change of the view: draws at once from what is there, fetches what is missing.
  TL.changed = function () {
    TL.showRange();
    TL.redraw();
    scheduleFetch();
    if (hashTimer === null) hashTimer = setTimeout(() => { hashTimer = null; writeHash(); }, 200);
  };

  // --- selection --------------------------------------------------------------------------------
  TL.select = async function (event, bring) {
    const mine = ++chosen;
    let detail;
    try { detail = await TL.api.event(event); } catch (problem) { TL.message("event " + event + ": " + problem.message); return; }
    if (mine !== chosen) return;
    view.selected = event;
    view.detail = detail;
    TL.showDetail(detail);
    resize();
    if (view.chainOnly) view.layout();
    const own = detail.stages.find((s) => s.event === event);
    if (bring && own) {
      if (own.start < view.t0 || own.start > view.t1) {
        const half = view.span() / 2;
        view.setRange(own.start - half, own.start + half);
      }
      open(own.lane);
    }
    if (own) view.reveal(own.lane);
    if (window.dash_clientside && window.dash_clientside.set_props) {
      window.dash_clientside.set_props(IDS.selection, { data: event });
    }
    TL.changed();
  };
  // A hit inside a folded group unfolds it.
  function open(laneId) {
    const groups = new Map(view.meta.groups.map((g) => [g.id, g]));
    for (let g = groups.get(view.meta.lanes[laneId].group); g; g = groups.get(g.parent)) view.collapsed.delete(g.id);
    view.layout();
  }
  TL.clear = function () {
    if (document.getElementById("tl-help").classList.contains("open")) { TL.toggleHelp(false); return; }
    chosen += 1;
    view.selected = view.detail = view.mark = null;
    view.chainOnly = false;
    TL.clearSearch();
    TL.showDetail(null);
    view.layout();
    resize();
    TL.changed();
  };
  TL.toggleChain = function () {
    if (!view.detail) { TL.message("select an event first"); return; }
    view.chainOnly = !view.chainOnly;
    view.layout();
    const own = view.detail.stages.find((s) => s.event === view.selected);
    if (own) view.reveal(own.lane);
  };
  TL.fit = () => view.fit();

  // The record under a point; the nearest one within three pixels.
  TL.hit = function (x, y) {
    const item = view.itemAt(y);
    if (!item || item.kind !== "lane" || !spans) return null;
    const row = Math.floor((y - TL.TOP + view.scroll - item.y - 3) / item.rowH);
    const found = (spans.tracks.get(item.lane.id) || []).find((t) => t[0] === row);
    if (!found) return null;
    const k = spans.unit / view.perPixel(), origin = view.x(spans.t0);
    let best = -1, near = 4;
    for (let i = found[1]; i < found[2]; i += 1) {
      const a = origin + spans.start[i] * k, b = a + Math.max(spans.dur[i] * k, 2);
      const away = x < a ? a - x : x > b ? x - b : 0;
      if (away < near) { near = away; best = i; }
    }
    if (best < 0) return null;
    return {
      event: spans.event[best], name: spans.name[best], start: spans.at(best), dur: spans.dur[best] * spans.unit,
      count: spans.count[best], style: spans.style[best], lane: item.lane, row: row, unit: spans.unit,
    };
  };

  // --- theme, size, state in the URL -------------------------------------------------------------
  TL.setTheme = function (name) {
    document.documentElement.dataset.theme = name;
    TL.readTheme();
    TL.redraw();
  };
  TL.toggleTheme = function () {
    TL.setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    TL.changed();
  };
  function resize() {
    const host = document.getElementById(IDS.host), ratio = window.devicePixelRatio || 1;
    const w = host.clientWidth, h = host.clientHeight;
    if (!w || !h) return;
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    view.width = w;
    view.height = h;
    view.scrollBy(0);
    TL.redraw();
    scheduleFetch();
  }
  function writeHash() {
    const state = new URLSearchParams({ t0: Math.round(view.t0), t1: Math.round(view.t1), theme: document.documentElement.dataset.theme });
    if (view.selected !== null) state.set("sel", view.selected);
    if (view.chainOnly) state.set("lanes", "chain");
    history.replaceState(null, "", location.pathname + location.search + "#" + state.toString());
  }
  async function readHash() {
    const state = new URLSearchParams(location.hash.slice(1));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    TL.setTheme(state.get("theme") === "dark" || (!state.get("theme") && dark) ? "dark" : "light");
    const t0 = Number(state.get("t0")), t1 = Number(state.get("t1"));
    if (state.has("t0") && Number.isFinite(t0) && Number.isFinite(t1) && t1 > t0) view.setRange(t0, t1);
    else view.whole();
    if (/^\d+$/.test(state.get("sel") || "")) {
      await TL.select(Number(state.get("sel")));
      if (state.get("lanes") === "chain" && view.detail) { TL.toggleChain(); }
    }
    TL.changed();
  }

  window.__tl = {
    view: view,
    select: (event) => TL.select(event, true),
    changed: () => TL.changed(),
    state: () => ({
      t0: view.t0, t1: view.t1, selected: view.selected, chainOnly: view.chainOnly, scroll: view.scroll, detail: view.detail,
      theme: document.documentElement.dataset.theme, records: spans ? spans.n : 0, lanes: view.laneY.size,
    }),
    // Where an event of the loaded data is on the screen, for tests that click on it.
    locate: function (layer, count) {
      for (const item of view.visibleItems(0)) {
        if (item.kind !== "lane" || item.lane.layer !== layer || !spans) continue;
        for (const [row, first, end] of spans.tracks.get(item.lane.id) || []) {
          for (let i = first; i < end; i += 1) {
            const x = view.x(spans.at(i));
            if (spans.count[i] <= (count || 1) && x > TL.GUTTER + 5 && x < view.width - 5) {
              return { event: spans.event[i], x: x + 1, y: view.rowTop(item.lane.id, row) + 5 };
            }
          }
        }
      }
      return null;
    },
  };

  async function start(host) {
    TL.hold();
    TL.buildLegend();
    TL.message("reading the capture …");
    try {
      view.meta = await TL.api.meta();
    } catch (problem) { TL.message("cannot read the capture: " + problem.message); TL.release(); return; }
    canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("aria-label", "timeline");
    host.replaceChildren(canvas);
    ctx = canvas.getContext("2d");
    TL.readTheme();
    TL.buildToolbar(view.meta);
    TL.message(view.meta.lanes.length ? "" : "this capture holds no events");
    for (const g of view.meta.groups) if (g.folded) view.collapsed.add(g.id);
    view.layout();
    view.whole();
    resize();
    new ResizeObserver(resize).observe(host);
    TL.bind(canvas);
    await readHash();
    TL.release();
  }
  // Dash renders its layout after the scripts ran.
  function whenReady() {
    const host = document.getElementById(IDS.host);
    if (host) { start(host); return true; }
    return false;
  }
  if (!whenReady()) {
    const watch = new MutationObserver(() => { if (whenReady()) watch.disconnect(); });
    watch.observe(document.documentElement, { childList: true, subtree: true });
  }
})(window.TL);
