// Draws what frames the lanes: minimap, ruler, grid, marked range, pointer line, scroll bar.
window.TL = window.TL || {};
(function (TL) {
  "use strict";
  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

  function ticks() {
    const rough = TL.view.perPixel() * 130;
    const power = Math.pow(10, Math.floor(Math.log10(Math.max(1, rough))));
    const step = Math.max(1, [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) || 10 * power);
    // A base and small offsets: no tick ever shows twelve digits.
    const around = Math.pow(10, Math.ceil(Math.log10(Math.max(10, TL.view.span()))));
    const base = Math.max(0, Math.floor(TL.view.t0 / around) * around);
    const [size, unit] = UNITS.find(([s]) => step >= s);
    const first = Math.ceil(TL.view.t0 / step) * step;
    const list = [];
    for (let t = first; t <= TL.view.t1; t += step) {
      list.push([t, (base ? "+" : "") + TL.num((t - base) / size) + " " + unit]);
    }
    return { base: base, list: list };
  }

  TL.drawGrid = function (ctx) {
    ctx.fillStyle = TL.theme().line;
    for (const [t] of ticks().list) {
      const x = TL.view.x(t);
      if (x > TL.GUTTER) ctx.fillRect(Math.round(x), TL.TOP, 1, TL.view.height);
    }
  };

  function ruler(ctx) {
    const view = TL.view, theme = TL.theme(), y = TL.MINIMAP_H;
    ctx.fillStyle = theme.head;
    ctx.fillRect(0, y, view.width, TL.RULER_H);
    const { base, list } = ticks();
    ctx.font = TL.FONT;
    ctx.textBaseline = "middle";
    ctx.fillStyle = theme.text;
    const of = view.meta.zero; // of two captures it says which one begins there
    const zero = base ? ["from " + TL.ns(base) + " after " + of, TL.ns(base) + " +"] : [...(of === "start" ? ["0 = start of the capture"] : []), "0 = " + of];
    ctx.fillText(zero.find((text) => TL.textWidth(ctx, text) < TL.GUTTER - 16) || zero[1], 8, y + TL.RULER_H / 2);
    for (const [t, text] of list) {
      const x = view.x(t);
      if (x < TL.GUTTER) continue;
      ctx.fillStyle = theme.dim;
      ctx.fillRect(Math.round(x), y + TL.RULER_H - 7, 1, 7);
      ctx.fillStyle = theme.text;
      if (x + 4 + TL.textWidth(ctx, text) < view.width) ctx.fillText(text, x + 4, y + TL.RULER_H / 2 - 1);
    }
    ctx.fillStyle = theme.line;
    ctx.fillRect(0, TL.TOP - 1, view.width, 1);
  }

  function minimap(ctx) {
    const view = TL.view, theme = TL.theme(), map = view.meta.minimap, h = TL.MINIMAP_H - 6;
    ctx.fillStyle = theme.bg;
    ctx.fillRect(0, 0, view.width, TL.MINIMAP_H);
    ctx.font = TL.FONT;
    ctx.textBaseline = "middle";
    ctx.fillStyle = theme.text;
    ctx.fillText("Overview: events", 8, 15);
    ctx.fillStyle = view.meta.colours.aql;
    ctx.fillRect(8, 27, 9, 9);
    ctx.fillStyle = theme.dim;
    ctx.fillText(TL.cut(ctx, "of these packets  (square-root scale)", TL.GUTTER - 28), 22, 32);
    const n = map.all.length, w = view.plotWidth() / n;
    const most = Math.sqrt(map.all.reduce((a, b) => Math.max(a, b), 1));
    for (const [series, colour] of [[map.all, theme.dim], [map.packets, view.meta.colours.aql]]) {
      ctx.fillStyle = colour;
      for (let i = 0; i < n; i += 1) {
        const tall = (Math.sqrt(series[i]) / most) * h;
        if (tall > 0) ctx.fillRect(TL.GUTTER + i * w, TL.MINIMAP_H - 2 - Math.max(1, tall), Math.max(w, 1), Math.max(1, tall));
      }
    }
    const a = TL.GUTTER + (Math.max(0, view.t0) / view.meta.length) * view.plotWidth();
    const b = TL.GUTTER + (Math.min(view.meta.length, view.t1) / view.meta.length) * view.plotWidth();
    ctx.globalAlpha = 0.55;
    ctx.fillStyle = theme.bg;
    ctx.fillRect(TL.GUTTER, 0, Math.max(0, a - TL.GUTTER), TL.MINIMAP_H);
    ctx.fillRect(b, 0, Math.max(0, view.width - b), TL.MINIMAP_H);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 2;
    ctx.strokeRect(Math.min(a, view.width - 5), 1, Math.max(3, b - a - 2), TL.MINIMAP_H - 3);
    ctx.fillStyle = theme.line;
    ctx.fillRect(0, TL.MINIMAP_H - 1, view.width, 1);
  }
  TL.minimapTime = (x) => ((x - TL.GUTTER) / TL.view.plotWidth()) * TL.view.meta.length;

  function pill(ctx, text, x, y, colour) {
    ctx.font = "600 " + TL.FONT;
    const w = ctx.measureText(text).width + 12;
    const left = Math.min(Math.max(x - w / 2, TL.GUTTER), TL.view.width - w - 2);
    ctx.fillStyle = colour;
    ctx.beginPath();
    ctx.roundRect(left, y - 9, w, 18, 8);
    ctx.fill();
    ctx.fillStyle = TL.theme().bg;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.fillText(text, left + 6, y + 0.5);
    return [left, y - 9, w, 18];
  }
  TL.pill = pill;

  function marked(ctx) {
    const view = TL.view, mark = view.mark;
    if (!mark) return;
    const a = view.x(Math.min(mark.a, mark.b)), b = view.x(Math.max(mark.a, mark.b));
    ctx.save();
    ctx.beginPath();
    ctx.rect(TL.GUTTER, TL.MINIMAP_H, view.width, view.height);
    ctx.clip();
    // What lies outside is dimmed: what is measured keeps its colours.
    ctx.globalAlpha = mark.a === mark.b ? 0 : 0.35;
    ctx.fillStyle = TL.theme().bg2;
    ctx.fillRect(TL.GUTTER, TL.TOP, Math.max(0, a - TL.GUTTER), view.height);
    ctx.fillRect(b, TL.TOP, Math.max(0, view.width - b), view.height);
    ctx.globalAlpha = 0.8;
    ctx.fillStyle = TL.theme().accent;
    for (const x of [a, b]) ctx.fillRect(x, TL.MINIMAP_H, 1.2, view.height);
    ctx.globalAlpha = 0.16;
    ctx.fillRect(a, TL.MINIMAP_H, Math.max(1, b - a), TL.RULER_H);
    ctx.globalAlpha = 1;
    ctx.restore();
    const text = mark.a === mark.b ? "at " + TL.ns(mark.a) : TL.ns(Math.abs(mark.b - mark.a));
    pill(ctx, text, (a + b) / 2, TL.TOP - TL.RULER_H / 2, TL.theme().accent);
  }

  function pointer(ctx) {
    const view = TL.view;
    if (!view.cursor || view.cursor.x < TL.GUTTER || view.cursor.y < TL.MINIMAP_H) return;
    ctx.globalAlpha = 0.5;
    ctx.fillStyle = TL.theme().dim;
    ctx.fillRect(Math.round(view.cursor.x), TL.TOP, 1, view.height);
    ctx.globalAlpha = 1;
    if (!view.mark) pill(ctx, TL.ns(view.time(view.cursor.x)), view.cursor.x, TL.TOP - TL.RULER_H / 2, TL.theme().dim);
  }

  function scrollBar(ctx) {
    const view = TL.view, room = view.height - TL.TOP;
    if (view.total <= room) return;
    ctx.globalAlpha = 0.5;
    ctx.fillStyle = TL.theme().dim;
    ctx.fillRect(view.width - 6, TL.TOP + (view.scroll / view.total) * room, 5, Math.max(20, (room / view.total) * room));
    ctx.globalAlpha = 1;
  }

  // An empty picture says that it is empty, where people look.
  function nothing(ctx) {
    const view = TL.view;
    if (view.items.length) return;
    const text = view.meta.lanes.length
      ? "The filters leave nothing. Filters (G), Clear shows everything again."
      : view.meta.readings !== null ? "The HIP log of this recording holds nothing yet. The kernel trace comes when it has ended."
      : "This capture holds no events. The page Ledger says what became of its files.";
    ctx.font = TL.FONT;
    ctx.fillStyle = TL.theme().dim;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.fillText(text, TL.GUTTER + 20, TL.TOP + 40);
  }

  // Lanes that look empty because nothing came are no empty lanes.
  function unloaded(ctx) {
    const problem = TL.view.problem;
    if (!problem) return;
    ctx.font = "600 " + TL.FONT;
    const text = "Not all of this view is loaded: " + problem.replaceAll("\n", " · "), x = TL.GUTTER + 12, y = TL.TOP + 10;
    const room = TL.view.width - x - 24, shown = TL.cut(ctx, text, room);
    ctx.fillStyle = TL.theme().bg;
    ctx.fillRect(x, y, Math.min(room, ctx.measureText(shown).width) + 16, 22);
    ctx.strokeStyle = ctx.fillStyle = TL.theme().bad;
    ctx.lineWidth = 1;
    ctx.strokeRect(x + 0.5, y + 0.5, Math.min(room, ctx.measureText(shown).width) + 15, 21);
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.fillText(shown, x + 8, y + 11.5);
  }

  TL.drawFrame = function (ctx) {
    minimap(ctx);
    ruler(ctx);
    TL.drawMarks(ctx);
    marked(ctx);
    pointer(ctx);
    scrollBar(ctx);
    nothing(ctx);
    unloaded(ctx);
    ctx.fillStyle = TL.theme().line;
    ctx.fillRect(TL.GUTTER - 1, 0, 1, TL.TOP);
  };
})(window.TL);
