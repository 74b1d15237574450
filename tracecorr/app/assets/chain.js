// Draws the chain of the selection over the lanes: its spans, error boxes, and arrows with gaps.
import { pill } from "./frame.js";
import { colourOf, cut, hollow, inkOn, pen, textWidth, theme } from "./lanes.js";
import { FAILED, FAILURE, short, tinted } from "./server.js";
import { GUTTER, TOP, view } from "./view.js";

const CROWD = 80; // with more stages than this names and borders would only cover each other
const MANY = 40; // with more edges than this only those of the selected event are drawn

function boxOf(stage) {
  const y = view.rowTop(stage.lane, stage.row);
  if (y === null) return null;
  const x = view.x(stage.start), w = Math.max(stage.dur / view.perPixel(), view.detail.stages.length > CROWD ? 2 : 3);
  return { x: x, y: y, w: w, h: view.laneY.get(stage.lane).rowH - 2 };
}

function errorBox(ctx, stage, box) {
  const low = (stage.err_lo || 0) / view.perPixel(), high = (stage.err_hi || 0) / view.perPixel();
  if (low + high < 5 || stage.event === null) return;
  ctx.save();
  ctx.setLineDash([3, 3]);
  ctx.strokeStyle = theme.dim;
  ctx.lineWidth = 1;
  ctx.globalAlpha = 0.12;
  ctx.fillStyle = theme.dim;
  ctx.fillRect(box.x - low, box.y - 1, low + high, box.h + 2);
  ctx.globalAlpha = 0.9;
  ctx.strokeRect(box.x - low + 0.5, box.y - 0.5, low + high, box.h + 1);
  ctx.restore();
}

function stageBox(ctx, stage, box, room) {
  box.label = 0;
  const chosen = isChosen(stage);
  const name = view.meta.names.indexOf(stage.name);
  const key = tinted() ? stage[view.colourBy] : null; // as the records are coloured
  const colour = colourOf(view.meta.lanes[stage.lane], name, stage.failed ? FAILED : 0, key === null ? 0 : (key % 0xffff) + 1);
  const left = Math.max(box.x, GUTTER - 4), w = Math.min(box.x + box.w, view.width + 4) - left;
  if (w <= 0) return;
  if (stage.evidence === "inferred") hollow(ctx, left, box.y, w, box.h, colour);
  else {
    ctx.fillStyle = colour;
    ctx.fillRect(left, box.y, w, box.h);
  }
  if (stage.failed) {
    ctx.fillStyle = FAILURE;
    ctx.fillRect(left, box.y, w, 4);
  }
  ctx.strokeStyle = chosen ? theme.accent : theme.text;
  ctx.lineWidth = chosen ? 2.5 : 1;
  const bordered = chosen || (stage.evidence !== "inferred" && (w > 6 || view.detail.stages.length <= CROWD));
  if (bordered) ctx.strokeRect(left, box.y, w, box.h);
  pen(ctx, theme.text, chosen);
  const mid = box.y + box.h / 2 + 0.5;
  if (w > 40) { // what is under a hatched one may be dimmed
    ctx.fillStyle = stage.evidence === "inferred" ? theme.text : inkOn(colour);
    ctx.fillText(cut(ctx, stage.name, w - 8), Math.max(left, GUTTER) + 4, mid);
    return;
  }
  const beside = labelBeside(ctx, stage, box, room);
  if (!beside) return;
  box.label = beside.width + 8;
  ctx.fillStyle = theme.bg;
  ctx.globalAlpha = 0.85;
  ctx.fillRect(beside.at - 2, box.y + 1, Math.min(beside.width + 4, room), box.h - 2);
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.text;
  ctx.fillText(beside.text, beside.at, mid);
}

const isChosen = (stage) => stage.event !== null && stage.event === view.selected;
// The name of a narrow stage stands beside it when there is room.
function labelBeside(ctx, stage, box, room) {
  pen(ctx, theme.text, isChosen(stage));
  const text = room < 30 ? "" : cut(ctx, stage.name, room);
  return text ? { text: text, at: box.x + box.w + 5, width: ctx.measureText(text).width } : null;
}

// An effect inside its cause hangs straight below it; a later one is reached by a curve.
function arrow(ctx, a, b, inferred) {
  const ex = b.x + Math.min(1.5, b.w / 2);
  const sx = Math.min(Math.max(ex, a.x), a.x + a.w);
  const down = b.y >= a.y;
  const sy = down ? a.y + a.h : a.y, ey = down ? b.y : b.y + b.h;
  const bend = Math.max(8, Math.abs(ey - sy) / 2) * (down ? 1 : -1);
  ctx.setLineDash(inferred ? [4, 3] : []);
  ctx.beginPath();
  ctx.moveTo(sx, sy);
  ctx.bezierCurveTo(sx, sy + bend, ex, ey - bend, ex, ey);
  ctx.stroke();
  ctx.setLineDash([]);
  const tip = down ? -6 : 6;
  ctx.beginPath();
  ctx.moveTo(ex, ey);
  ctx.lineTo(ex - 3.5, ey + tip);
  ctx.lineTo(ex + 3.5, ey + tip);
  ctx.fill();
  return [(sx + ex) / 2, (sy + ey) / 2];
}

function roomRight(boxes, i) {
  const mine = boxes[i];
  let next = view.width;
  boxes.forEach((b, j) => {
    if (b && j !== i && Math.abs(b.y - mine.y) < 2 && b.x > mine.x && b.x < next) next = b.x;
  });
  return next - mine.x - mine.w - 10;
}

// Where the names of narrow stages will stand: the lanes leave these places free.
export function chainLabels(ctx) {
  const detail = view.detail;
  if (!detail || detail.stages.length > CROWD) return [];
  const boxes = detail.stages.map(boxOf), places = [];
  detail.stages.forEach((stage, i) => {
    const box = boxes[i];
    if (!box || box.w > 40) return;
    const beside = labelBeside(ctx, stage, box, roomRight(boxes, i));
    if (beside) places.push([beside.at - 2, box.y, beside.width + 4, box.h]);
  });
  return places;
}

export function drawChain(ctx) {
  const detail = view.detail;
  if (!detail) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(GUTTER, TOP, view.width, view.height - TOP);
  ctx.clip();
  const boxes = detail.stages.map(boxOf);
  const inView = (b) => b && b.x < view.width && b.x + b.w > GUTTER && b.y < view.height && b.y + b.h > TOP;
  detail.stages.forEach((s, i) => { if (boxes[i]) errorBox(ctx, s, boxes[i]); });
  detail.stages.forEach((s, i) => {
    if (inView(boxes[i])) stageBox(ctx, s, boxes[i], detail.stages.length > CROWD ? 0 : roomRight(boxes, i));
  });
  const mine = detail.stages.findIndex((s) => s.event === view.selected);
  const edges = detail.edges.length > MANY ? detail.edges.filter((e) => e.from === mine || e.to === mine) : detail.edges;
  ctx.strokeStyle = ctx.fillStyle = theme.accent;
  ctx.lineWidth = 1.6;
  const labels = [];
  for (const e of edges.slice(0, 4 * MANY)) {
    const a = boxes[e.from], b = boxes[e.to];
    if (!a || !b || (!inView(a) && !inView(b))) continue;
    const mid = arrow(ctx, a, b, e.evidence === "inferred");
    labels.push([e, mid, Math.abs(a.y - b.y) + Math.abs(a.x - b.x)]);
  }
  gaps(ctx, labels.filter((l) => l[2] > 34), boxes.filter(Boolean));
  ctx.restore();
}

// An error that is not known is not none.
function errorOf(edge) {
  if (edge.err === null) return " ±?";
  return edge.err ? " ±" + short(edge.err) : "";
}
// The gap on each arrow, where it covers neither a span nor another gap.
function gaps(ctx, labels, boxes) {
  const taken = boxes.map((b) => [b.x, b.y, b.w + (b.label || 0), b.h]);
  for (const [edge, [x, y]] of labels) {
    const text = (edge.gap >= 0 ? "+" : "") + short(edge.gap) + errorOf(edge);
    const w = textWidth(ctx, text) + 16;
    const spot = [x + 5, y - 9, w, 18];
    const hit = (r) => spot[0] < r[0] + r[2] && spot[0] + spot[2] > r[0] && spot[1] < r[1] + r[3] && spot[1] + spot[3] > r[1];
    if (taken.some(hit)) continue;
    taken.push(pill(ctx, text, x + 5 + w / 2, y, theme.accent));
  }
}
