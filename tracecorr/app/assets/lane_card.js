// The card of a lane: what it shows of a range as a table, and where the lane stands.
import { button, make } from "./dom.js";
import { lanesChanged } from "./filters.js";
import { openCard } from "./marks.js";
import { sectionBox } from "./pages.js";
import { api, filteredUrl, whole } from "./server.js";
import { message } from "./toolbar.js";
import { view } from "./view.js";

let asked = 0;
function toggle(list, entry, on) {
  if (on) list.add(entry); else list.delete(entry);
}
function actions(lane, again) {
  const bar = make("div", "tl-row"), isPinned = view.pinned.includes(lane.id), isFolded = view.foldedKinds.has(lane.layer);
  const add = (text, title, act, goesOn = true) => bar.append(button(text, title, () => { act(); lanesChanged(); if (goesOn) again(); }));
  add(isPinned ? "Unpin" : "Pin", isPinned ? "back to its group" : "keep it at the top", () => { view.pinned = isPinned ? view.pinned.filter((id) => id !== lane.id) : [...view.pinned, lane.id]; });
  add("▴", "one place up", () => view.move(lane, -1));
  add("▾", "one place down", () => view.move(lane, 1));
  add("Hide", "hide this lane; Filters (G) shows it again", () => { view.hidden.id.add(String(lane.id)); message(lane.label + " is hidden: Filters (G), Clear shows it again"); }, false);
  add(isFolded ? "Unfold kind" : "Fold kind", "all lanes of the layer " + lane.layer, () => toggle(view.foldedKinds, lane.layer, !isFolded));
  return bar;
}
export async function showLane(lane, t0, t1) {
  const mine = ++asked, range = [Math.floor(t0), Math.max(Math.ceil(t1), Math.floor(t0) + 1)];
  let found;
  try { found = await api.list(lane.id, ...range); } catch (problem) { message(problem.message); return; }
  if (mine !== asked) return;
  const csv = filteredUrl("/api/export", { form: "csv", t0: range[0], t1: range[1], lanes: lane.id });
  const note = make("div", "tl-note", "from " + whole(range[0]) + " to " + whole(range[1]));
  openCard(actions(lane, () => showLane(lane, t0, t1)), [note, sectionBox(found, csv)], true);
}
