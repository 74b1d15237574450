// Elements of the page. Names come from traces: textContent only, never markup.
export function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined && text !== null) node.textContent = text;
  return node;
}
export function button(text, title, action) {
  const node = make("button", "", text);
  node.type = "button";
  node.title = title;
  // Who speaks to the page says what is written on it.
  const isTold = title.toLowerCase().includes(text.toLowerCase()) || !/\w/.test(text);
  node.setAttribute("aria-label", isTold ? title : text + ": " + title);
  node.addEventListener("click", () => action());
  return node;
}
// A link whose address is worked out when it is followed.
export function link(text, title, address) {
  const node = make("a", "tl-link", text);
  node.href = address();
  node.title = title;
  node.setAttribute("download", "");
  for (const event of ["focus", "pointerdown"]) node.addEventListener(event, () => { node.href = address(); });
  return node;
}
// A time for people; its ns stand in the title, and are what is copied.
export function timeNode(tag, className, text, ns) {
  const node = make(tag, className, text);
  node.title = ns.toLocaleString("en-US") + " ns";
  node.dataset.ns = ns;
  return node;
}
document.addEventListener("copy", (event) => {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed) return;
  const range = selection.getRangeAt(0), around = range.commonAncestorContainer, box = make("div");
  const alone = (around.nodeType === 1 ? around : around.parentElement).closest("[data-ns]");
  box.append(range.cloneContents());
  for (const node of box.querySelectorAll("[data-ns]")) node.textContent = node.dataset.ns;
  if (!alone && !box.querySelector("[data-ns]")) return;
  const rows = [...box.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.textContent).join("\t"));
  event.clipboardData.setData("text/plain", alone ? alone.dataset.ns : rows.length ? rows.join("\n") : box.textContent);
  event.preventDefault();
});
// A list of [value, text]; what is done with a choice gets the list.
export function dropdown(label, choices, chosen, act) {
  const list = make("select");
  if (label) list.setAttribute("aria-label", label);
  for (const [value, text] of choices) {
    const option = make("option", "", text);
    option.value = value;
    option.selected = value === chosen;
    list.append(option);
  }
  list.addEventListener("change", () => act(list));
  return list;
}
export function checkbox(checked, text, act) {
  const input = make("input"), row = make("label", "tl-check");
  input.type = "checkbox";
  input.checked = checked;
  input.addEventListener("change", () => act(input.checked));
  row.append(input, make("span", "", text));
  return row;
}
// A heading that sorts: `sorted` keeps by what (`key`) and in which direction; numbers begin with the largest.
export function sortHead(key, title, isNumber, sorted, act) {
  const cell = make("th", isNumber ? "n" : "");
  const tell = () => cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
  cell.append(button(title, "sort by " + title, () => {
    Object.assign(sorted, { by: key, down: sorted.by === key ? !sorted.down : isNumber });
    for (const one of cell.parentNode.children) one.removeAttribute("aria-sort");
    tell();
    act();
  }));
  if (sorted.by === key) tell();
  return cell;
}
// A table of texts and elements; `classes` are those of the columns.
export function table(className, head, rows, classes = []) {
  const out = make("table", className), body = out.createTBody();
  const line = (row, tag, cells) => cells.forEach((cell, i) => {
    const node = make(tag, classes[i]);
    node.append(cell);
    row.append(node);
  });
  if (head.length) line(out.createTHead().insertRow(), "th", head);
  for (const cells of rows) line(body.insertRow(), "td", cells);
  return out;
}
