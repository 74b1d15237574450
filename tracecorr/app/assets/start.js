// Ties the parts together: start, redraw, fetch, selection.
// Dash loads the scripts by name; this one needs all others and so sorts last.
window.TL = window.TL || {};
window.__perf = { log: [], idle: false };
(function (TL) {
  "use strict";
  const FETCH_DELAY = 25; // ms: a wheel turn fires many events
  const MARGIN = 0.35; // fetched beyond each side, so that short pans need no wait
  const MAX_WIDTH = 8000;
  const FOLLOW_EVERY = 1500; // ms
  // The same names as ids.py.
  const IDS = { host: "tl-canvas-host", selection: "tl-selection" };
  const view = TL.view;
  // old: the picture is of the reading before, and stays until there is another one.
  let canvas, ctx, spans = null, old = false, drawing = false, timer = null, hashTimer = null;
  TL.loadedSpans = () => spans;

  function picture(on) {
    on.fillStyle = TL.theme().bg2;
    on.fillRect(0, 0, view.width, view.height);
    TL.drawLanes(on, spans);
    TL.drawChain(on);
    TL.drawFrame(on);
  }
  TL.drawSvg = function () {
    const vector = new TL.SvgContext(ctx);
    picture(vector);
    return vector.text(view.width, view.height);
  };
  function paint() {
    drawing = false;
    const begun = performance.now();
    if (!old) picture(ctx);
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
    const tint = TL.tinted() ? view.colourBy : "";
    return inTime && sharp && spans.key === JSON.stringify(view.only) + tint && view.wantedLanes().every((lane) => spans.lanes.has(lane));
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
      if (!got) return;
      if (view.problem) TL.message("");
      view.problem = null;
      if (got.edition === view.meta.edition) { spans = got; old = false; loaded.go(); TL.redraw(); TL.loadTicks(); scheduleFetch(); }
    } catch (problem) {
      view.problem = problem.message;
      old = false;
      loaded.go();
      TL.message(problem.message);
      TL.redraw();
    }
  }

  let loaded = later();
  function later() {
    let go;
    const done = new Promise((resolve) => { go = resolve; });
    return { done: done, go: go };
  }

  // Moves the selection; without one, "." takes the first event in view.
  TL.step = (kind, back) => TL.inTurn(async (isOpen) => {
    if (view.selected === null) {
      const first = TL.firstInView();
      if (first !== null) await choose(first); else TL.message("no event in view");
      return;
    }
    const found = await TL.api.step(view.selected, kind, back);
    if (!isOpen()) return;
    if (found.event === null) TL.message(tellNone(kind, back, found.lacks));
    else { TL.message(""); await choose(found.event, true); }
  });

  function tellNone(kind, back, lacks) {
    if (kind === "parent" || lacks) return "this event has no " + kind;
    const none = "no " + (back ? "earlier " : "later ");
    return none + (kind === "error" ? "error" : "event of the same " + (kind === "thread" ? "thread and layer" : kind));
  }

  // Call after every change of the view: draws at once from what is there, fetches what is missing.
  TL.changed = function () {
    TL.keepRange();
    TL.showRange();
    TL.redraw();
    scheduleFetch();
    if (hashTimer === null) hashTimer = setTimeout(() => { hashTimer = null; TL.writeHash(); }, 200);
  };

  // --- selection --------------------------------------------------------------------------------
  // Tells whether the event is the selection now.
  TL.select = function (event, bring) {
    TL.overtake();
    return TL.inTurn(() => choose(event, bring));
  };
  TL.choose = choose;
  async function choose(event, bring) {
    const mine = TL.wish();
    let detail, problem = null;
    try { detail = await TL.api.event(event); } catch (failure) { problem = failure; }
    if (mine !== TL.wish()) return false;
    if (problem) { TL.message("event " + event + ": " + problem.message); return false; }
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
    if (own && !view.laneY.has(own.lane)) TL.message("a filter, or a folded group, hides the lane of this event");
    tellSelection();
    TL.changed();
    return true;
  }
  function tellSelection() {
    if (window.dash_clientside && window.dash_clientside.set_props) window.dash_clientside.set_props(IDS.selection, { data: view.selected });
  }
  // A hit inside a folded group unfolds it.
  function open(laneId) {
    const groups = new Map(view.meta.groups.map((g) => [g.id, g]));
    for (let g = groups.get(view.meta.lanes[laneId].group); g; g = groups.get(g.parent)) view.collapsed.delete(g.id);
    view.layout();
  }
  TL.clear = function () {
    if (document.getElementById("tl-help").classList.contains("open")) { TL.toggleHelp(false); return; }
    if (document.getElementById("tl-card").classList.contains("open")) { TL.clearMark(); return; }
    TL.overtake();
    view.selected = view.detail = view.mark = view.header = null;
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

  // Where nothing is loaded yet, what is clicked on is told when it has come.
  TL.click = function (x, y) {
    const pick = () => {
      const hit = TL.hit(x, y);
      if (hit && hit.event !== TL.NONE) TL.select(hit.event);
      else if (hit) TL.message(hit.lane.label + ": no event stands behind this");
      else if (spans) TL.clear();
    };
    if (spans) pick(); else TL.inTurn(async (isOpen) => { await loaded.done; if (isOpen()) pick(); });
  };

  // --- theme and size ----------------------------------------------------------------------------
  TL.setTheme = function (name) {
    document.documentElement.dataset.theme = name;
    TL.readTheme();
    TL.recolourCharts();
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
    view.setSize(w, h);
    view.scrollBy(0);
    TL.redraw();
    scheduleFetch();
  }

  window.__tl = {
    view: view,
    select: (event) => TL.select(event, true),
    changed: () => TL.changed(),
    state: () => ({
      t0: view.t0, t1: view.t1, selected: view.selected, chainOnly: view.chainOnly, scroll: view.scroll, detail: view.detail,
      theme: document.documentElement.dataset.theme, records: spans ? spans.n : 0, edition: spans ? spans.edition : null, lanes: view.laneY.size,
      mark: view.mark, notes: view.notes, colourBy: view.colourBy, only: view.only, count: view.search ? view.search.count : null,
    }),
    spot: TL.spot,
    locate: TL.locate,
  };

  // Until there is a picture, what goes on stands in its place: large captures take their time at the first look.
  function waiting(text) {
    TL.message(text);
    if (canvas) return;
    const box = TL.make("div", "tl-instead");
    box.append(TL.make("p", "", text));
    document.getElementById(IDS.host).replaceChildren(box);
  }
  async function fetchMeta() {
    let meta = await TL.api.meta();
    for (let wait = 20; meta.goesOn; wait = Math.min(2 * wait, 400)) {
      waiting(meta.goesOn + " …");
      await new Promise((done) => setTimeout(done, wait));
      meta = await TL.api.meta();
    }
    return meta;
  }

  // While the capture is being recorded: shows what has come since, and follows the end when it is in view.
  function follow() {
    if (view.meta.readings === null) return;
    TL.message("recording …");
    setTimeout(async () => {
      try {
        const readings = await TL.api.live();
        if (readings !== view.meta.readings) await reload();
      } catch (problem) { TL.message("following: " + problem.message); }
      follow();
    }, FOLLOW_EVERY);
  }
  // Numbers of events are those of one reading: the selection is found again by its record.
  async function findAgain(detail, meta) {
    const event = detail && detail.record ? await TL.api.same(detail.record, meta.edition) : null;
    return event === null ? null : TL.api.event(event, meta.edition);
  }
  function keepSelection(detail) {
    const known = JSON.stringify(view.detail) === JSON.stringify(detail), top = () => document.querySelector("#tl-detail .tl-left");
    const scrolled = top() ? top().scrollTop : 0;
    view.selected = detail ? detail.event : null;
    view.detail = detail;
    if (known) return; // somebody reads it
    TL.showDetail(detail);
    if (detail) { top().scrollTop = scrolled; tellSelection(); } else { view.chainOnly = false; resize(); }
  }
  async function reload() {
    TL.hold();
    try {
      const meta = await fetchMeta();
      let kept, again, waited;
      // What is being looked for and selected is of the reading before, which still answers: it is waited for.
      do {
        waited = TL.turn();
        await waited;
        kept = view.detail;
        again = await findAgain(kept, meta);
      } while (view.detail !== kept || TL.turn() !== waited);
      TL.hideTip();
      const atEnd = view.t1 >= view.meta.length, span = view.span(), whole = view.t0 <= 0;
      const known = new Set(view.meta.groups.map((g) => g.id));
      for (const g of meta.groups) if (g.folded && !known.has(g.id)) view.collapsed.add(g.id); // as at the start
      const earlier = Number(BigInt(view.meta.t0_abs) - BigInt(meta.t0_abs));
      view.meta = meta;
      view.moveBy(earlier);
      old = old || spans !== null;
      spans = null;
      loaded = later();
      if (atEnd && whole) view.whole(); else if (atEnd) view.setRange(meta.length - span, meta.length);
      keepSelection(again);
      TL.showSize(meta);
      TL.buildLegend(meta.ranges);
      TL.showWarnings(meta.warnings);
      TL.outdatePage();
      await Promise.all([TL.applyFilter(), TL.recount()]); // numbers of lanes and names are those of one reading, too
      TL.measureAnew();
      if (meta.readings === null) TL.message("the recording has ended");
      TL.changed();
    } finally { scheduleFetch(); TL.release(); }
  }

  async function start(host) {
    TL.hold();
    // Before anything else: what goes on, or went wrong, is read in the theme, too.
    TL.setTheme(TL.askedTheme());
    TL.buildLegend([]);
    waiting("reading the capture …");
    try {
      view.meta = await fetchMeta();
    } catch (problem) { await TL.showFailure(host, problem); TL.message(""); TL.release(); return; }
    canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-roledescription", "timeline");
    canvas.setAttribute("aria-label", "timeline: . and , select events, F fits, arrows pan, ? lists all keys");
    host.replaceChildren(canvas);
    ctx = canvas.getContext("2d");
    TL.buildToolbar(view.meta);
    TL.buildTabs(view.meta);
    TL.buildLegend(view.meta.ranges);
    TL.showWarnings(view.meta.warnings);
    for (const g of view.meta.groups) if (g.folded) view.collapsed.add(g.id);
    view.layout();
    view.whole();
    resize();
    new ResizeObserver(resize).observe(host);
    TL.bind(canvas);
    // A link to another view of this capture was pasted here, or gone back to: what the page writes itself is no such event.
    window.addEventListener("hashchange", () => location.reload());
    await TL.readHash();
    TL.release();
    follow();
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
