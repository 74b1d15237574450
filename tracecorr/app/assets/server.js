// Talks to the server: meta, spans (binary), chain and detail, search.
import { view } from "./view.js";

const MAGIC = 0x54434f32;
const HEADER = 40;
// The same order as wire.TRACK_COLUMNS and wire.COLUMNS.
const TRACK_COLUMNS = ["lane", "row", "first"];
const columnTypes = (nameBytes) => [
  ["start", Int32Array], ["dur", Uint32Array], ["event", Uint32Array], ["count", Uint32Array],
  ["name", nameBytes === 2 ? Uint16Array : Uint32Array], ["height", Uint8Array], ["style", Uint8Array],
];
const TINTED = ["stream", "queue"]; // ways of colouring that need a key of each event
export const tinted = () => TINTED.includes(view.colourBy);
export const NONE = 0xffffffff; // a record without an event
export const INFERRED = 1;
export const FAILED = 2;
export const FAILURE = "#C00000"; // the colour of what failed
export const HALF = 4;
export const CLIPPED = 8;

const address = new URLSearchParams(location.search);
let pending = 0; // requests and timers under way: the page is idle when none is left
let current = null; // AbortController of the spans request in flight
let sequence = 0;

// Questions are about the edition on the screen: rebuilt tables number their events differently.
const NEWEST = ["/api/captures", "/api/meta", "/api/live"];
function url(path, parameters) {
  const q = new URLSearchParams(parameters), meta = view.meta;
  if (meta && !NEWEST.includes(path) && !q.has("edition")) q.set("edition", meta.edition);
  for (const key of ["capture", "other", "at"]) if (address.get(key)) q.set(key, address.get(key));
  return path + "?" + q.toString();
}

export function hold() { pending += 1; window.__perf.idle = false; }
export function release() {
  pending -= 1;
  if (pending === 0) requestAnimationFrame(() => { if (pending === 0) window.__perf.idle = true; });
}

function filterOnly(parameters) {
  const only = view.only;
  return Object.keys(only).length ? { ...parameters, f: JSON.stringify(only) } : parameters;
}
export const tableUrl = (key, second) => url("/api/table", second ? { key: key, with: second } : { key: key });
export const sqlUrl = (text) => url("/api/sql", { q: text, form: "csv" });
export const filteredUrl = (path, parameters) => url(path, filterOnly(parameters));

// Nobody knows what "Failed to fetch" is.
async function ask(address, options) {
  try { return await fetch(address, options); } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Error("the server does not answer: is tracecorr serve still running?");
  }
}
async function json(path, parameters, options) {
  hold();
  try {
    const answer = await ask(url(path, parameters), options);
    if (!answer.ok) throw new Error((await answer.text()).trim() || "HTTP " + answer.status);
    if (answer.status === 202) return { goesOn: await answer.text() };
    return await answer.json();
  } finally { release(); }
}

function decode(buffer) {
  const head = new DataView(buffer);
  if (head.getUint32(0, true) !== MAGIC) throw new Error("not a spans answer");
  const n = head.getUint32(4, true);
  const out = { n: n, t0: Number(head.getBigInt64(8, true)), t1: Number(head.getBigInt64(16, true)) };
  const tracks = head.getUint32(24, true);
  out.unit = Math.pow(2, head.getUint32(28, true)); // ns
  let at = HEADER;
  const read = (type, count) => {
    const column = new type(buffer, at, count);
    at += Math.ceil((count * type.BYTES_PER_ELEMENT) / 8) * 8;
    return column;
  };
  const [lane, row, first] = TRACK_COLUMNS.map(() => read(Uint32Array, tracks));
  for (const [name, type] of columnTypes(head.getUint32(32, true))) out[name] = read(type, n);
  out.tint = head.getUint32(36, true) ? read(Uint16Array, n) : null;
  out.tracks = new Map(); // lane -> [[row, first record, end], ...]
  for (let i = 0; i < tracks; i += 1) {
    const entry = [row[i], first[i], i + 1 < tracks ? first[i + 1] : n];
    const known = out.tracks.get(lane[i]);
    if (known) known.push(entry); else out.tracks.set(lane[i], [entry]);
  }
  out.at = (i) => out.t0 + out.start[i] * out.unit;
  return out;
}

// 0,1,2,5 -> "0-2,5": keeps the URL short with a thousand lanes.
export function ranges(lanes) {
  const sorted = [...lanes].sort((a, b) => a - b);
  const parts = [];
  for (let i = 0; i < sorted.length; ) {
    let j = i;
    while (j + 1 < sorted.length && sorted[j + 1] === sorted[j] + 1) j += 1;
    parts.push(i === j ? "" + sorted[i] : sorted[i] + "-" + sorted[j]);
    i = j + 1;
  }
  return parts.join(",");
}

const of = (edition) => (edition === undefined ? {} : { edition: edition });
export const api = {
  captures: () => json("/api/captures", {}),
  meta: () => json("/api/meta", {}),
  // Not counted as work of the page: it is asked again and again while a recording runs.
  live: async () => {
    const answer = await ask(url("/api/live", {}));
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return (await answer.json()).readings;
  },
  event: (event, edition) => json("/api/event", { event: event, ...of(edition) }),
  apart: async (event) => (await json("/api/apart", { event: event })).told,
  ticks: (text, t0, t1, width) => json("/api/ticks", { q: text, t0: t0, t1: t1, w: width }),
  filter: (range) => json("/api/filter", filterOnly(range)),
  count: (t0, t1, lanes) => json("/api/count", filterOnly({ t0: t0, t1: t1, lanes: ranges(lanes) })),
  // The event of a record, or null; of another edition than the one on the screen, too.
  same: async ({ file, offset, layer, name }, edition) => (
    (await json("/api/same", { file: file, offset: offset, layer: layer, name: name, ...of(edition) })).event
  ),
  step: (event, kind, back) => json("/api/step", { event: event, kind: kind, back: back ? "1" : "0" }),
  brief: (event) => json("/api/brief", { event: event }),
  value: (lane, t) => json("/api/brief", { lane: lane, t: t }),
  notes: () => json("/api/notes", {}),
  saveNotes: (notes) => json("/api/notes", {}, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(notes),
  }),
  list: (lane, t0, t1) => json("/api/list", filterOnly({ lane: lane, t0: t0, t1: t1 })),
  sql: (text) => json("/api/sql", { q: text }),
  findings: () => json("/api/findings", {}),
  page: (name, second) => json("/api/page", second ? { name: name, with: second } : { name: name }),
  search: (text, at, back) => json("/api/search", { q: text, from: at, back: back ? "1" : "0" }),

  // Returns null when a newer request overtook this one.
  spans: async function (t0, t1, width, lanes) {
    if (current) current.abort();
    current = new AbortController();
    const mine = ++sequence;
    const begun = performance.now();
    hold();
    try {
      const asked = { t0: t0, t1: t1, w: width, lanes: ranges(lanes) };
      const tint = tinted() ? view.colourBy : "";
      if (tint) asked.tint = tint;
      const key = JSON.stringify(view.only) + tint;
      const edition = view.meta.edition, where = filteredUrl("/api/spans", asked);
      const answer = await ask(where, { signal: current.signal });
      if (!answer.ok) throw new Error((await answer.text()).trim());
      const buffer = await answer.arrayBuffer();
      if (mine !== sequence) return null;
      const spans = decode(buffer);
      spans.pixel = (t1 - t0) / width;
      spans.lanes = new Set(lanes);
      Object.assign(spans, { key: key, edition: edition });
      window.__perf.log.push({
        what: "spans", ms: performance.now() - begun, n: spans.n, bytes: buffer.byteLength,
        server: answer.headers.get("Server-Timing"),
      });
      if (window.__perf.log.length > 500) window.__perf.log.shift();
      return spans;
    } catch (problem) {
      if (problem.name === "AbortError") return null;
      throw problem;
    } finally { release(); }
  },
};

// --- numbers as text -------------------------------------------------------------------------
const grouped = new Intl.NumberFormat("en-US");
export const num = (n) => grouped.format(Math.round(n) || 0); // || 0: never "-0"
export const exactNs = (n) => num(n) + " ns";
// Whole: all digits of a time, in the unit in which they are read best: 12.345678 ms.
export function whole(ns) {
  const at = Math.round(ns) || 0;
  const [size, unit, digits] = [[1e9, "s", 9], [1e6, "ms", 6], [1e3, "us", 3]].find(([least]) => Math.abs(at) >= least) || [1, "ns", 0];
  return (at / size).toLocaleString("en-US", { maximumFractionDigits: digits }) + " " + unit;
}
// Short form for labels and gaps: three or four digits and a unit.
export function short(ns) {
  if (Math.abs(Math.round(ns)) < 1e3) return Math.round(ns) + " ns";
  for (const [size, unit] of [[1e3, "us"], [1e6, "ms"]]) {
    const text = (ns / size).toFixed(Math.abs(ns / size) < 99.995 ? 2 : 1);
    if (Math.abs(text) < 1e3) return text + " " + unit;
  }
  return (ns / 1e9).toFixed(3) + " s";
}
