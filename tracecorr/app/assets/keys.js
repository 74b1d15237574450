// Keyboard and mouse.
window.TL = window.TL || {};
(function (TL) {
  "use strict";
  TL.KEYS = [
    ["W / S, + / −", "zoom in / out at the pointer"], ["A / D, ← / →", "pan left / right"], ["↑ / ↓, wheel", "scroll the lanes"],
    ["Ctrl + wheel", "zoom at the pointer"], ["Shift + wheel, drag", "pan"], ["drag the ruler, Shift + drag", "measure; over events from and to their edges"],
    ["click", "select; click on nothing clears"], ["click a header", "fold a process, thread or group"],
    ["H / Shift + H, Enter", "the next / previous header; fold it or unfold it"],
    ["drag the overview", "move the view"], ["F", "fit the chain of the selection; once more: the event alone"], ["P", "only the lanes of the chain"],
    ["0", "whole capture"], ["Backspace", "the range before; with Shift the one after"], ["/", "search: name or result (\"whole name\"), #event, 0xaddress, queue 2, stream 1, thread 123, pid; Enter next, Shift + Enter previous"],
    ["/ @180.5ms", "go to a time after the start, or of the host's clock; @10ms..20ms shows a range"],
    [". / ,", "next / previous event of the same thread and layer; without a selection the first one in view"],
    ["U", "the parent of the selection"], ["N, K, Q", "next of the same name, kernel, queue; with Shift the previous one"],
    ["E / Shift + E", "next / previous error"], ["M, Z", "measure the selection; zoom to the measured range"],
    ["B", "write a note"], ["G", "filters and colours"], ["T", "light or dark"], ["Esc", "clear"], ["?", "this help"],
  ];
  // What acts on the selection waits for the one that is being asked for.
  function onSelection(act) {
    return () => TL.inTurn(() => { act(); TL.changed(); });
  }
  const ACTIONS = {
    w: () => TL.view.zoom(1 / 1.5, pointerX()), "+": () => TL.view.zoom(1 / 1.5, pointerX()), "=": () => TL.view.zoom(1 / 1.5, pointerX()),
    s: () => TL.view.zoom(1.5, pointerX()), "-": () => TL.view.zoom(1.5, pointerX()),
    a: () => TL.view.pan(-0.15), d: () => TL.view.pan(0.15),
    arrowleft: () => TL.view.pan(-0.15), arrowright: () => TL.view.pan(0.15),
    arrowup: () => TL.view.scrollBy(-60), arrowdown: () => TL.view.scrollBy(60),
    backspace: (event) => TL.goToRange(event.shiftKey), 0: () => TL.view.whole(), f: onSelection(() => TL.fit()), p: onSelection(() => TL.toggleChain()), t: () => TL.toggleTheme(),
    u: () => TL.step("parent", false), g: () => TL.toggleFilters(), m: onSelection(() => TL.markSelection()), z: onSelection(() => TL.zoomMark()),
    ".": () => TL.step("thread", false), ",": () => TL.step("thread", true), b: () => TL.editNote(),
    h: (event) => chooseHeader(event.shiftKey ? -1 : 1), enter: () => foldChosen(),
    "/": () => TL.focusSearch(), "?": () => TL.toggleHelp(), escape: () => TL.clear(),
  };
  for (const [key, kind] of [["n", "name"], ["k", "kernel"], ["q", "queue"], ["e", "error"]]) {
    ACTIONS[key] = (event) => TL.step(kind, event.shiftKey);
  }
  const EVERYWHERE = ["/", "?", "t"]; // also on the pages beside the timeline
  function pointerX() { return TL.view.cursor ? TL.view.cursor.x : null; }

  function onKey(event) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape" && event.target.closest("#tl-side")) { TL.toggleFilters(false); return; }
    // The browser would empty a search box: what is searched for stays until it is cleared.
    if (typing && event.key === "Escape") { event.preventDefault(); TL.closeCard(); TL.focusCanvas(); return; }
    const pressing = /^(BUTTON|A|SUMMARY)$/.test(event.target.tagName) && (event.key === "Enter" || event.key === " ");
    if (typing || pressing || event.altKey || event.metaKey) return;
    if (TL.page && event.key === "Escape") { TL.toggleHelp(false); return; }
    if (TL.page && (event.ctrlKey || !EVERYWHERE.includes(event.key.toLowerCase()))) return;
    if (event.ctrlKey) {
      if (event.key.toLowerCase() !== "f") return;
      event.preventDefault();
      TL.focusSearch();
      return;
    }
    const action = ACTIONS[event.key.toLowerCase()];
    if (!action || !TL.view.meta) return;
    event.preventDefault();
    action(event);
    TL.hideTip(); // the pointer is on something else now
    TL.changed();
  }

  function onWheel(event) {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    const dx = event.deltaX * lines, dy = event.deltaY * lines;
    if (event.ctrlKey) TL.view.zoom(Math.pow(1.0022, dy), event.offsetX);
    else if (event.shiftKey) TL.view.pan((dy + dx) / TL.view.plotWidth());
    else {
      TL.view.scrollBy(dy);
      if (dx) TL.view.pan(dx / TL.view.plotWidth());
    }
    TL.hideTip();
    TL.changed();
  }

  let drag = null;
  function onDown(event) {
    if (event.button !== 0) return;
    const x = event.offsetX, y = event.offsetY;
    event.target.setPointerCapture(event.pointerId);
    let kind = "pan";
    if (y < TL.MINIMAP_H && x >= TL.GUTTER) kind = "minimap";
    else if (x >= TL.GUTTER && (y < TL.TOP || event.shiftKey)) kind = "measure";
    drag = { kind: kind, from: measured(x, y), x: x, y: y, lastX: x, lastY: y, moved: false };
    if (kind === "minimap") centre(x);
  }
  // Near an edge of an event it is the edge, else the moment under the pointer.
  function measured(x, y) {
    const edge = TL.edge(x, y);
    return edge === null ? Math.round(TL.view.time(x)) : edge;
  }
  function centre(x) {
    const at = TL.minimapTime(x), half = TL.view.span() / 2;
    TL.view.setRange(at - half, at + half);
    TL.changed();
  }
  function onMove(event) {
    const x = event.offsetX, y = event.offsetY, view = TL.view;
    view.cursor = { x: x, y: y };
    if (!drag) { TL.hover(x, y, event); TL.redraw(); return; }
    if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3) drag.moved = true;
    if (!drag.moved) return;
    TL.hover(-1, -1, event);
    if (drag.kind === "minimap") centre(x);
    else if (drag.kind === "measure") view.mark = { a: drag.from, b: measured(x, y) };
    else {
      if (drag.x >= TL.GUTTER) view.pan((drag.lastX - x) / view.plotWidth());
      view.scrollBy(drag.lastY - y);
    }
    drag.lastX = x;
    drag.lastY = y;
    TL.changed();
  }
  function onUp(event) {
    const was = drag;
    drag = null;
    if (was && was.moved && was.kind === "measure") TL.showMeasure();
    if (!was || was.moved || was.kind === "minimap") return;
    if (was.kind === "measure" && was.y < TL.TOP) {
      const note = TL.noteAt(was.x);
      if (note) TL.editNote(note); else TL.clearMark();
      return;
    }
    click(event.offsetX, event.offsetY);
  }
  function click(x, y) {
    const item = TL.view.itemAt(y);
    if (item && item.kind === "group") { fold(item); return; }
    if (x < TL.GUTTER) return;
    TL.click(x, y);
  }

  // --- headers ------------------------------------------------------------------------------------
  function fold(item) {
    const closed = TL.view.collapsed;
    if (closed.has(item.id)) closed.delete(item.id); else closed.add(item.id);
    TL.view.layout();
    TL.changed();
  }
  function chosenHeader() {
    return TL.view.items.find((i) => i.kind === "group" && i.id === TL.view.header);
  }
  function tellHeader(item) {
    TL.message(item.label + (TL.view.collapsed.has(item.id) ? ": folded, Enter unfolds it" : ": Enter folds it"));
  }
  // From the one that is chosen, else from the first in view, around the ends.
  function chooseHeader(step) {
    const view = TL.view, headers = view.items.filter((i) => i.kind === "group");
    if (!headers.length) return;
    const at = headers.indexOf(chosenHeader()), first = headers.findIndex((i) => i.y + i.h > view.scroll);
    const next = at >= 0 ? at + step : step > 0 ? first : first - 1;
    const item = headers[(next + headers.length) % headers.length];
    view.header = item.id;
    view.revealItem(item);
    tellHeader(item);
  }
  function foldChosen() {
    const item = chosenHeader();
    if (!item || TL.view.chainOnly) return; // of a chain no group is folded
    fold(item);
    tellHeader(item);
  }

  TL.bind = function (canvas) {
    document.addEventListener("keydown", onKey);
    canvas.addEventListener("wheel", onWheel, { passive: false });
    canvas.addEventListener("pointerdown", onDown);
    canvas.addEventListener("pointermove", onMove);
    canvas.addEventListener("pointerup", onUp);
    canvas.addEventListener("pointercancel", () => { drag = null; });
    canvas.addEventListener("pointerleave", (e) => { TL.view.cursor = null; TL.hover(-1, -1, e); TL.redraw(); });
  };
})(window.TL);
