// Draws the lanes: headers, spans, labels. Rectangles are grouped by colour, text comes last.
import { chainLabels } from "./chain.js";
import { drawGrid } from "./frame.js";
import { FAILED, FAILURE, HALF, INFERRED, num } from "./server.js";
import { GUTTER, TOP, view } from "./view.js";

const FOLDED_TEXT = 10; // px
const MIN_LABEL = 34; // px: below it a label says nothing
export const FONT = "11px system-ui, 'DejaVu Sans', sans-serif";
export const theme = {};
const fills = new Map();
const widths = new Map();

export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["bg", "bg2", "line", "text", "dim", "accent", "head", "bad", "warn"]) theme[name] = style.getPropertyValue("--" + name).trim();
  fills.clear();
  return theme;
}

function mix(hex, other, share) {
  const parts = [1, 3, 5].map((i) => {
    const a = parseInt(hex.slice(i, i + 2), 16), b = parseInt(other.slice(i, i + 2), 16);
    return Math.round(a + (b - a) * share).toString(16).padStart(2, "0");
  });
  return "#" + parts.join("");
}
// One colour per layer, a shade per name: neighbours of different names stay apart.
export function fill(layer, name) {
  const key = layer + name;
  let found = fills.get(key);
  if (!found) {
    const text = view.meta.names[name] || "";
    const base = view.meta.colours[layer] || "#8A8A8A";
    let hash = 7;
    for (let i = 0; i < text.length; i += 1) hash = (hash * 31 + text.charCodeAt(i)) >>> 0;
    const shade = ((hash % 7) - 3) / 3;
    found = shade < 0 ? mix(base, "#000000", -shade * 0.22) : mix(base, "#ffffff", shade * 0.25);
    if (layer === "aql" && text.startsWith("barrier")) found = mix(base, "#808890", 0.75);
    if (document.documentElement.dataset.theme === "dark") found = mix(found, "#ffffff", 0.2); // else the darkest are hard to see
    fills.set(key, found);
  }
  return found;
}
// Okabe-Ito and Tol's muted colours, in an order that keeps neighbours apart.
const PALETTE = [
  "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E6A817", "#56B4E9", "#882255", "#117733", "#999933", "#6A5ACD",
  "#AA4499", "#44AA99",
];
const NEUTRAL = "#9AA3AD";
export const palette = (n) => PALETTE[n % PALETTE.length];
// The colour of a record in the chosen way of colouring.
export function colourOf(lane, name, style, tint) {
  const by = view.colourBy;
  if (by === "layer") return fill(lane.layer, name);
  if (by === "kernel") return lane.layer === "aql" || lane.layer === "gpu" ? palette(name) : NEUTRAL;
  if (by === "result") return style & FAILED ? FAILURE : style & HALF ? "#E6A817" : "#7FA6C9";
  if (by === "queue" && lane.queue !== null) return palette(lane.queue);
  return tint ? palette(tint - 1) : NEUTRAL;
}
export function inkOn(hex) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b > 128 ? "#111" : "#fff";
}

// Begins a text: in a colour, at its middle, to the right of its place.
export function pen(ctx, colour, bold) {
  ctx.font = (bold ? "600 " : "") + FONT;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.fillStyle = colour;
}
export function textWidth(ctx, text) {
  let w = widths.get(text);
  if (w === undefined) {
    if (widths.size > 20000) widths.clear();
    w = ctx.measureText(text).width;
    widths.set(text, w);
  }
  return w;
}
export function cut(ctx, text, room) {
  const full = textWidth(ctx, text);
  if (full <= room) return text;
  let keep = Math.floor((text.length * room) / full) - 1; // about: some letters are wider
  while (keep >= 3 && textWidth(ctx, text.slice(0, keep) + "…") > room) keep -= 1;
  return keep < 3 ? "" : text.slice(0, keep) + "…";
}

// An inferred span: hatched and dashed, so that it never looks recorded.
export function hollow(ctx, x, y, w, h, colour) {
  if (w < 4) {
    ctx.globalAlpha *= 0.45;
    ctx.fillStyle = colour;
    ctx.fillRect(x, y, w, h);
    ctx.globalAlpha /= 0.45;
    return;
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, w, h);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1;
  ctx.globalAlpha *= 0.6;
  ctx.beginPath();
  const from = Math.max(x, GUTTER) - h, to = Math.min(x + w, view.width);
  for (let k = from - ((from - x) % 6); k < to; k += 6) { ctx.moveTo(k, y + h); ctx.lineTo(k + h, y); }
  ctx.stroke();
  ctx.restore();
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([4, 3]);
  ctx.lineWidth = 1.2;
  ctx.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
  ctx.restore();
}

function push(batches, key, x, y, w, h) {
  let list = batches.get(key);
  if (!list) batches.set(key, (list = []));
  list.push(x, y, w, h);
}

function collect(item, spans, batches, texts, hollows) {
  const h = item.rowH - 2, top = TOP + item.y - view.scroll + 3;
  for (const [row, first, end] of spans.tracks.get(item.lane.id) || []) {
    const place = { y: top + row * item.rowH, h: h, lane: item.lane };
    if (item.lane.counter) strip(place, spans, first, end, batches);
    else track(place, spans, first, end, batches, texts, hollows);
  }
}

// A counter: a bar as high as its value, a line at its top so that zero and small values stay visible.
function strip(place, spans, first, end, batches) {
  const k = spans.unit / view.perPixel(), origin = view.x(spans.t0);
  const colour = fill(place.lane.layer, 0);
  for (let i = first; i < end; i += 1) {
    const x = origin + spans.start[i] * k, w = Math.max(spans.dur[i] * k, 1);
    if (x > view.width || x + w < GUTTER) continue;
    const left = Math.max(x, GUTTER), tall = Math.max(1, (spans.height[i] / 255) * place.h);
    push(batches, colour, left, place.y + place.h - tall, Math.min(x + w, view.width) - left, tall);
  }
}

function track(place, spans, first, end, batches, texts, hollows) {
  const k = spans.unit / view.perPixel(), origin = view.x(spans.t0), right = view.width;
  const names = view.search && view.search.names.length ? view.search.set : null;
  const y = place.y, h = place.h;
  for (let i = first; i < end; i += 1) {
    const x = origin + spans.start[i] * k;
    if (x > right) break;
    // Wide enough to be seen, but never beyond the pixel after the one where the event begins.
    const room = Math.floor(x) + 2 - x, w = Math.max(spans.dur[i] * k, Math.min(room, spans.dur[i] === 0 ? 2 : 1.2));
    if (x + w < GUTTER) continue;
    const name = spans.name[i], style = spans.style[i];
    const colour = colourOf(place.lane, name, style, spans.tint ? spans.tint[i] : 0);
    const faint = names !== null && !names.has(name);
    const left = Math.max(x, GUTTER), cut = Math.min(x + w, right) - left;
    if (style & INFERRED) hollows.push([x, y, w, h, colour, faint]);
    else {
      const share = spans.count[i] > 1 ? 0.4 + (0.6 * spans.height[i]) / 255 : 1;
      push(batches, (faint ? "~" : "") + colour, left, y + h * (1 - share), cut, h * share);
    }
    if (style & FAILED) {
      const wide = Math.max(cut, Math.floor(left) + 2 - left);
      push(batches, FAILURE, left, y, wide, 3);
      if (wide > 9) push(batches, FAILURE, left, y, 3, h);
    }
    if (spans.count[i] > 1 || h < 9) continue; // of a folded kind there is no room for names
    const next = i + 1 < end ? origin + spans.start[i + 1] * k : right;
    label(texts, view.meta.names[name], style, { x: left, y: y + h / 2, w: cut, colour: colour, faint: faint, next: next });
  }
}

// Wide spans carry their name inside; instants and narrow ones beside them when the room is free.
function label(texts, text, style, box) {
  if (box.w >= MIN_LABEL) {
    const ink = style & INFERRED ? null : inkOn(box.colour);
    // A span that overlaps this one in its row begins before its end.
    const own = Math.min(box.w - 7, box.next - box.x - 6);
    if (own >= MIN_LABEL / 2) texts.push([text, box.x + 4, box.y, own, ink, box.faint, Boolean(style & INFERRED)]);
    return;
  }
  const room = Math.min(box.next, view.width) - box.x - box.w - 8;
  if (room >= MIN_LABEL) texts.push([text, box.x + box.w + 4, box.y, room, null, box.faint, false]);
}

export function drawLanes(ctx, spans) {
  const dim = view.detail ? 0.42 : 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, TOP, view.width, view.height - TOP);
  ctx.clip();
  const items = view.visibleItems(0);
  for (const item of items) background(ctx, item);
  drawGrid(ctx);
  for (const item of items) heading(ctx, item);
  ctx.beginPath();
  ctx.rect(GUTTER, TOP, view.width, view.height);
  ctx.clip();
  if (spans) {
    const batches = new Map(), texts = [], hollows = [];
    for (const item of items) if (item.kind === "lane") collect(item, spans, batches, texts, hollows);
    for (const [key, list] of batches) {
      const faint = key[0] === "~";
      ctx.globalAlpha = dim * (faint ? 0.25 : 1);
      ctx.fillStyle = faint ? key.slice(1) : key;
      for (let i = 0; i < list.length; i += 4) ctx.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
    }
    for (const [x, y, w, h, colour, faint] of hollows) {
      ctx.globalAlpha = dim * (faint ? 0.25 : 1);
      hollow(ctx, x, y, w, h, colour);
    }
    const taken = chainLabels(ctx);
    pen(ctx, theme.text);
    for (const [text, x, y, room, ink, faint, hatched] of texts) {
      const shown = cut(ctx, text, room);
      // The name of a stage of the chain stands there: two names over each other read as neither.
      const over = (r) => x < r[0] + r[2] && x + textWidth(ctx, shown) > r[0] && y > r[1] && y < r[1] + r[3];
      if (!shown || taken.some(over)) continue;
      // Hatches of several spans over each other leave no ground to read a name on.
      if (hatched) {
        ctx.globalAlpha = 0.8;
        ctx.fillStyle = theme.bg;
        ctx.fillRect(x - 2, y - 6, textWidth(ctx, shown) + 4, 12);
      }
      ctx.globalAlpha = 1; // what is dimmed can be read, too: its ground is dimmed
      ctx.fillStyle = view.detail || faint ? theme.text : ink || theme.text;
      ctx.fillText(shown, x, y + 0.5);
    }
  }
  ctx.restore();
  ctx.globalAlpha = 1;
}

function background(ctx, item) {
  const y = TOP + item.y - view.scroll;
  ctx.fillStyle = item.kind === "group" ? theme.head : theme.bg;
  ctx.fillRect(0, y, view.width, item.h);
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, y + item.h - 1, view.width, 1);
  if (item.kind === "lane") ctx.fillRect(GUTTER - 1, y, 1, item.h);
  if (item.kind === "group" && item.id === view.header) {
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 2;
    ctx.strokeRect(1, y + 1, view.width - 2, item.h - 3);
  }
}

function shortNumber(n) {
  const unit = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]].find(([size]) => Math.abs(n) >= size * 0.99995); // as it is rounded
  return unit ? (n / (unit[1] === "k" ? 1e3 : unit[0])).toFixed(1) + unit[1] : String(Math.round(n * 100) / 100);
}
function heading(ctx, item) {
  const y = TOP + item.y - view.scroll;
  pen(ctx, theme.text, item.kind === "group");
  const x = 8 + item.level * 12;
  if (item.kind === "group") {
    const arrow = !view.chainOnly && view.collapsed.has(item.id) ? "▸ " : "▾ ";
    ctx.fillText(arrow + cut(ctx, item.label, view.width - x - 40), x, y + item.h / 2);
    return;
  }
  ctx.fillStyle = view.meta.colours[item.lane.layer] || "#888";
  ctx.fillRect(0, y, 4, item.h - 1);
  const left = view.left ? num(view.left[item.lane.id]) + " of " : ""; // what a filter of events leaves
  const count = item.lane.counter ? "max " + shortNumber(item.lane.peak) : left + num(item.lane.count), wide = textWidth(ctx, count);
  const mid = y + 3 + Math.max(item.rowH - 2, FOLDED_TEXT) / 2;
  ctx.fillStyle = view.detail && view.chainLanes().has(item.lane.id) ? theme.accent : theme.text;
  ctx.fillText(cut(ctx, item.lane.label, GUTTER - x - wide - 18), x, mid);
  ctx.fillStyle = theme.dim;
  ctx.textAlign = "right";
  ctx.fillText(count, GUTTER - 8, mid);
  ctx.textAlign = "left";
}
