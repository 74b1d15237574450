// The palette of commands (Ctrl + K or :): everything that a key, a tab or an export does, by its name.
import { make } from "./dom.js";
import { NAMED, act } from "./keys.js";
import { exportView, openPage, showTimeline } from "./pages.js";
import { find, setSearch } from "./toolbar.js";
import { view } from "./view.js";

const MOST = 12;
function commands(text) {
  const all = [
    ...NAMED.map(([name, key]) => [name, key, () => { showTimeline(); act(key); }]),
    ["page Timeline", "", () => showTimeline()], ...view.meta.pages.map(([name, title]) => ["page " + title, "", () => { openPage(name); }]),
    ...["png", "svg", "csv", "perfetto"].map((form) => ["export " + form, "", () => exportView(form)]),
  ];
  const words = text.toLowerCase().split(/\s+/), fits = all.filter(([name]) => words.every((word) => name.toLowerCase().includes(word)));
  return [...fits, ...(text ? [["search for " + text, "Enter", () => { setSearch(text); find(false); }]] : [])].slice(0, MOST);
}
let dialog = null;
export function openPalette() {
  if (dialog) return;
  const input = make("input"), list = make("ul");
  let shown = [], at = 0;
  dialog = make("dialog", "tl-palette");
  dialog.setAttribute("aria-label", "commands");
  Object.assign(input, { type: "text", placeholder: "a command, or what to search for" });
  for (const [name, value] of [["role", "combobox"], ["aria-label", "command"], ["aria-expanded", "true"], ["aria-controls", "tl-commands"]]) input.setAttribute(name, value);
  list.id = "tl-commands";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "commands");
  const run = (i) => { const command = shown[i]; dialog.close(); if (command) command[2](); };
  const mark = () => [...list.children].forEach((row, i) => row.setAttribute("aria-selected", String(i === at)));
  const fill = () => {
    shown = commands(input.value.trim());
    at = 0;
    list.replaceChildren(...shown.map(([name, key], i) => {
      const row = make("li");
      row.setAttribute("role", "option");
      row.append(make("span", "", name), make("kbd", "", key));
      row.addEventListener("click", () => run(i));
      return row;
    }));
    mark();
  };
  input.addEventListener("input", fill);
  dialog.addEventListener("keydown", (e) => {
    e.stopPropagation();
    if (e.key === "Enter") { e.preventDefault(); run(at); }
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step && shown.length) { e.preventDefault(); at = (at + step + shown.length) % shown.length; mark(); }
  });
  dialog.addEventListener("close", () => { dialog.remove(); dialog = null; });
  dialog.append(input, list);
  document.body.append(dialog);
  fill();
  dialog.showModal();
}
