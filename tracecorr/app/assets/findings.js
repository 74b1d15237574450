// The first view: what a reader should know first, and one steady launch on the lanes of its chain.
import { button, make } from "./dom.js";
import { goTo, plain } from "./pages.js";
import { api } from "./server.js";
import { changed, choose } from "./start.js";
import { view } from "./view.js";

const WORDS = { open: "OPEN", failed: "FAILED", found: "FOUND", slow: "SLOWEST", good: "OK" };

// They may take seconds on a large capture: the timeline does not wait for them.
export async function showFindings() {
  const bar = document.getElementById("tl-findings");
  bar.setAttribute("role", "region");
  bar.setAttribute("aria-label", "findings");
  let found;
  try { found = await api.findings(); } catch (problem) { found = [{ kind: "failed", text: problem.message, lead: ["page", "verdicts"] }]; }
  bar.replaceChildren(...found.map(line));
}
function line(finding) {
  const row = make("div", "tl-found " + finding.kind);
  const lead = button(WORDS[finding.kind], "show it: " + finding.text, () => goTo(finding.lead));
  row.append(lead, plain("", finding.text, "span"));
  row.title = finding.text;
  return row;
}

// Who came by an address has asked for another view.
export async function showSteadyLaunch() {
  if (view.meta.steady === null || !(await choose(view.meta.steady))) return;
  view.chainOnly = true;
  view.layout();
  view.fit();
  changed();
}
