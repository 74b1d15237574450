// Draws what frames the lanes: minimap, ruler, grid, marked range, pointer line, scroll bar.
import { FONT, cut, pen, textWidth, theme } from "./lanes.js";
import { drawMarks } from "./marks.js";
import { num, short, whole } from "./server.js";
import { GUTTER, MINIMAP_H, RULER_H, TOP, view } from "./view.js";

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

function ticks() {
  const rough = view.perPixel() * 130;
  const power = Math.pow(10, Math.floor(Math.log10(Math.max(1, rough))));
  const step = Math.max(1, [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) || 10 * power);
  // A base and small offsets: no tick ever shows twelve digits.
  const around = Math.pow(10, Math.ceil(Math.log10(Math.max(10, view.span()))));
  const base = Math.max(0, Math.floor(view.t0 / around) * around);
  const [size, unit] = UNITS.find(([s]) => step >= s);
  const first = Math.ceil(view.t0 / step) * step;
  const list = [];
  for (let t = first; t <= view.t1; t += step) {
    list.push([t, (base ? "+" : "") + num((t - base) / size) + " " + unit]);
  }
  return { base: base, list: list };
}

export function drawGrid(ctx) {
  ctx.fillStyle = theme.line;
  for (const [t] of ticks().list) {
    const x = view.x(t);
    if (x > GUTTER) ctx.fillRect(Math.round(x), TOP, 1, view.height);
  }
}

function ruler(ctx) {
  const y = MINIMAP_H;
  ctx.fillStyle = theme.head;
  ctx.fillRect(0, y, view.width, RULER_H);
  const { base, list } = ticks();
  pen(ctx, theme.text);
  const of = view.meta.zero; // of two captures it says which one begins there
  const zero = base ? ["from " + whole(base) + " after " + of, whole(base) + " +"] : [...(of === "start" ? ["0 = start of the capture"] : []), "0 = " + of];
  ctx.fillText(zero.find((text) => textWidth(ctx, text) < GUTTER - 16) || zero[1], 8, y + RULER_H / 2);
  for (const [t, text] of list) {
    const x = view.x(t);
    if (x < GUTTER) continue;
    ctx.fillStyle = theme.dim;
    ctx.fillRect(Math.round(x), y + RULER_H - 7, 1, 7);
    ctx.fillStyle = theme.text;
    if (x + 4 + textWidth(ctx, text) < view.width) ctx.fillText(text, x + 4, y + RULER_H / 2 - 1);
  }
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, TOP - 1, view.width, 1);
}

function minimap(ctx) {
  const map = view.meta.minimap, h = MINIMAP_H - 6, place = (t) => GUTTER + Math.min(1, Math.max(0, (t - map.from) / (map.to - map.from))) * view.plotWidth();
  ctx.fillStyle = theme.bg;
  ctx.fillRect(0, 0, view.width, MINIMAP_H);
  pen(ctx, theme.text);
  ctx.fillText("Overview: events", 8, 15);
  ctx.fillStyle = view.meta.colours.aql;
  ctx.fillRect(8, 27, 9, 9);
  ctx.fillStyle = theme.dim;
  ctx.fillText(cut(ctx, "of these packets  (square-root scale)", GUTTER - 28), 22, 32);
  const n = map.all.length, w = view.plotWidth() / n;
  const most = Math.sqrt(map.all.reduce((a, b) => Math.max(a, b), 1));
  for (const [series, colour] of [[map.all, theme.dim], [map.packets, view.meta.colours.aql]]) {
    ctx.fillStyle = colour;
    for (let i = 0; i < n; i += 1) {
      const tall = (Math.sqrt(series[i]) / most) * h;
      if (tall > 0) ctx.fillRect(GUTTER + i * w, MINIMAP_H - 2 - Math.max(1, tall), Math.max(w, 1), Math.max(1, tall));
    }
  }
  const a = place(view.t0), b = place(view.t1);
  ctx.globalAlpha = 0.55;
  ctx.fillStyle = theme.bg;
  ctx.fillRect(GUTTER, 0, Math.max(0, a - GUTTER), MINIMAP_H);
  ctx.fillRect(b, 0, Math.max(0, view.width - b), MINIMAP_H);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = theme.accent;
  ctx.lineWidth = 2;
  ctx.strokeRect(Math.min(a, view.width - 5), 1, Math.max(3, b - a - 2), MINIMAP_H - 3);
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, MINIMAP_H - 1, view.width, 1);
}
export const minimapTime = (x) => view.meta.minimap.from + ((x - GUTTER) / view.plotWidth()) * (view.meta.minimap.to - view.meta.minimap.from);
// Few events far away from all others do not scale the view: they are told at the edge where they are.
function outliers(ctx) {
  const core = view.meta.core;
  if (!core || view.span() > 2 * (core.to - core.from)) return;
  for (const [n, away, x, text] of [[core.before, core.from, GUTTER, "◂ earlier by up to "], [core.after, view.meta.length - core.to, view.width, "later by up to ▸ "]]) {
    if (n) pill(ctx, num(n) + (n === 1 ? " event " : " events ") + text + short(away) + " (0 twice: all)", x, TOP + 12, theme.dim);
  }
}

export function pill(ctx, text, x, y, colour) {
  ctx.font = "600 " + FONT;
  const w = ctx.measureText(text).width + 12;
  const left = Math.min(Math.max(x - w / 2, GUTTER), view.width - w - 2);
  ctx.fillStyle = colour;
  ctx.beginPath();
  ctx.roundRect(left, y - 9, w, 18, 8);
  ctx.fill();
  pen(ctx, theme.bg, true);
  ctx.fillText(text, left + 6, y + 0.5);
  return [left, y - 9, w, 18];
}

function marked(ctx) {
  const mark = view.mark;
  if (!mark) return;
  const a = view.x(Math.min(mark.a, mark.b)), b = view.x(Math.max(mark.a, mark.b));
  ctx.save();
  ctx.beginPath();
  ctx.rect(GUTTER, MINIMAP_H, view.width, view.height);
  ctx.clip();
  // What lies outside is dimmed: what is measured keeps its colours.
  ctx.globalAlpha = mark.a === mark.b ? 0 : 0.35;
  ctx.fillStyle = theme.bg2;
  ctx.fillRect(GUTTER, TOP, Math.max(0, a - GUTTER), view.height);
  ctx.fillRect(b, TOP, Math.max(0, view.width - b), view.height);
  ctx.globalAlpha = 0.8;
  ctx.fillStyle = theme.accent;
  for (const x of [a, b]) ctx.fillRect(x, MINIMAP_H, 1.2, view.height);
  ctx.globalAlpha = 0.16;
  ctx.fillRect(a, MINIMAP_H, Math.max(1, b - a), RULER_H);
  ctx.globalAlpha = 1;
  ctx.restore();
  const text = mark.a === mark.b ? "at " + whole(mark.a) : whole(Math.abs(mark.b - mark.a));
  pill(ctx, text, (a + b) / 2, TOP - RULER_H / 2, theme.accent);
}

function pointer(ctx) {
  if (!view.cursor || view.cursor.x < GUTTER || view.cursor.y < MINIMAP_H) return;
  ctx.globalAlpha = 0.5;
  ctx.fillStyle = theme.dim;
  ctx.fillRect(Math.round(view.cursor.x), TOP, 1, view.height);
  ctx.globalAlpha = 1;
  if (!view.mark) pill(ctx, whole(view.time(view.cursor.x)), view.cursor.x, TOP - RULER_H / 2, theme.dim);
}

function scrollBar(ctx) {
  const room = view.height - TOP;
  if (view.total <= room) return;
  ctx.globalAlpha = 0.5;
  ctx.fillStyle = theme.dim;
  ctx.fillRect(view.width - 6, TOP + (view.scroll / view.total) * room, 5, Math.max(20, (room / view.total) * room));
  ctx.globalAlpha = 1;
}

// An empty picture says that it is empty, where people look.
function nothing(ctx) {
  if (view.items.length) return;
  const text = view.meta.lanes.length
    ? "No event passes the filters. Filters (G), Clear shows all events."
    : view.meta.readings !== null ? "This recording holds no event yet."
    : "This capture has no events. The page Ledger shows how its files were read.";
  pen(ctx, theme.dim);
  ctx.fillText(text, GUTTER + 20, TOP + 40);
}

// Lanes that look empty because nothing came are no empty lanes.
function unloaded(ctx) {
  const problem = view.problem;
  if (!problem) return;
  ctx.font = "600 " + FONT;
  const text = "Not all of this view is loaded: " + problem.replaceAll("\n", " · "), x = GUTTER + 12, y = TOP + 10;
  const room = view.width - x - 24, shown = cut(ctx, text, room);
  ctx.fillStyle = theme.bg;
  ctx.fillRect(x, y, Math.min(room, ctx.measureText(shown).width) + 16, 22);
  ctx.strokeStyle = ctx.fillStyle = theme.bad;
  ctx.lineWidth = 1;
  ctx.strokeRect(x + 0.5, y + 0.5, Math.min(room, ctx.measureText(shown).width) + 15, 21);
  pen(ctx, theme.bad, true);
  ctx.fillText(shown, x + 8, y + 11.5);
}

export function drawFrame(ctx) {
  minimap(ctx);
  ruler(ctx);
  drawMarks(ctx);
  marked(ctx);
  pointer(ctx);
  scrollBar(ctx);
  nothing(ctx);
  outliers(ctx);
  unloaded(ctx);
  ctx.fillStyle = theme.line;
  ctx.fillRect(GUTTER - 1, 0, 1, TOP);
}
