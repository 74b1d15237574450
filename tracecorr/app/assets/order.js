// What was asked for is done one after the other, and undone: turns of answers, ranges that were looked at.
import { hold, release } from "./server.js";
import { message } from "./toolbar.js";
import { view } from "./view.js";

// Keys may come faster than answers: each goes on from what the one before it chose. What is chosen or cleared
// otherwise overtakes all that still wait, and the answers under way.
export let wish = 0, turn = Promise.resolve();
export function overtake() { wish += 1; turn = Promise.resolve(); }
export function inTurn(work) {
  const mine = wish, isOpen = () => mine === wish;
  hold();
  turn = turn
    .then(() => (isOpen() ? work(isOpen) : undefined))
    .catch((problem) => { if (isOpen()) message(problem.message); })
    .finally(release);
  return turn;
}

// --- ranges that were looked at ---------------------------------------------------------------
// What one gesture changes (a drag, a turn of the wheel, a key that is held) is one step.
const PAUSE = 400; // ms: a later turn of the wheel is a new gesture
const MOST = 500;
const past = [], future = [];
export let gesture = 0;
let kept = 0, seen = null, turned = -Infinity;
document.addEventListener("keydown", (event) => { if (!event.repeat) gesture += 1; }, true);
document.addEventListener("pointerdown", () => { gesture += 1; }, true);
document.addEventListener("wheel", (event) => {
  if (event.timeStamp - turned > PAUSE) gesture += 1;
  turned = event.timeStamp;
}, { capture: true, passive: true });

export function keepRange() {
  const { t0, t1 } = view;
  if (seen && seen.t0 === t0 && seen.t1 === t1) return;
  // What comes by itself, such as the end of a recording, is no step.
  if (seen && gesture !== kept) {
    past.push(seen);
    if (past.length > MOST) past.shift();
    future.length = 0;
  }
  kept = gesture;
  seen = { t0: t0, t1: t1 };
}
export function goToRange(forth) {
  const [from, to] = forth ? [future, past] : [past, future], found = from.pop();
  if (!found) { message(forth ? "no later range" : "no earlier range"); return; }
  to.push(seen);
  view.setRange(found.t0, found.t1);
  seen = { t0: view.t0, t1: view.t1 };
}
// The capture begins earlier than was known.
export function moveRanges(ns) {
  for (const range of [...past, ...future, ...(seen ? [seen] : [])]) { range.t0 += ns; range.t1 += ns; }
}
