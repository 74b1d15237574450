// The picture as SVG: takes the calls that the drawing makes on a canvas and writes elements instead.
const escape = (text) => String(text).replace(/[&<>"']/g, (c) => "&#" + c.charCodeAt(0) + ";");
const digits = (n) => Math.round(n * 100) / 100;
const ANCHOR = { left: "start", right: "end", center: "middle" };

export class SvgContext {
  constructor(canvas) {
    this.ruler = canvas; // measures text
    this.out = [];
    this.kept = [];
    this.path = [];
    this.clips = 0;
    this.open = 0; // clip groups since the last save
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "11px sans-serif", textAlign: "left", textBaseline: "middle", dash: [] });
  }
  save() {
    const { fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, dash, open } = this;
    this.kept.push({ fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, dash, open });
    this.open = 0;
  }
  restore() {
    for (; this.open > 0; this.open -= 1) this.out.push("</g>");
    Object.assign(this, this.kept.pop());
  }
  setLineDash(dash) { this.dash = dash; }
  measureText(text) { this.ruler.font = this.font; return this.ruler.measureText(text); }
  beginPath() { this.path = []; }
  moveTo(x, y) { this.path.push("M" + digits(x) + " " + digits(y)); }
  lineTo(x, y) { this.path.push("L" + digits(x) + " " + digits(y)); }
  bezierCurveTo(...points) { this.path.push("C" + points.map(digits).join(" ")); }
  rect(x, y, w, h) { this.path.push("M" + digits(x) + " " + digits(y) + "h" + digits(w) + "v" + digits(h) + "h" + digits(-w) + "z"); }
  roundRect(x, y, w, h) { this.rect(x, y, w, h); }
  clip() {
    const id = "c" + (this.clips += 1);
    this.out.push('<clipPath id="' + id + '"><path d="' + this.path.join("") + '"/></clipPath><g clip-path="url(#' + id + ')">');
    this.open += 1;
  }
  fillLook() { return ' fill="' + escape(this.fillStyle) + '"' + this.alpha(); }
  lineLook() {
    const dash = this.dash.length ? ' stroke-dasharray="' + this.dash.join(" ") + '"' : "";
    return ' fill="none" stroke="' + escape(this.strokeStyle) + '" stroke-width="' + this.lineWidth + '"' + dash + this.alpha();
  }
  alpha() { return this.globalAlpha === 1 ? "" : ' opacity="' + digits(this.globalAlpha) + '"'; }
  box(x, y, w, h, look) { this.out.push('<rect x="' + digits(x) + '" y="' + digits(y) + '" width="' + digits(Math.max(0, w)) + '" height="' + digits(Math.max(0, h)) + '"' + look + "/>"); }
  fillRect(x, y, w, h) { this.box(x, y, w, h, this.fillLook()); }
  strokeRect(x, y, w, h) { this.box(x, y, w, h, this.lineLook()); }
  fill() { this.out.push('<path d="' + this.path.join("") + '"' + this.fillLook() + "/>"); }
  stroke() { this.out.push('<path d="' + this.path.join("") + '"' + this.lineLook() + "/>"); }
  fillText(text, x, y) {
    const bold = this.font.startsWith("600") ? ' font-weight="600"' : "";
    this.out.push('<text x="' + digits(x) + '" y="' + digits(y) + '" dominant-baseline="central" text-anchor="' + ANCHOR[this.textAlign] + '"' + bold + this.fillLook() + ">" + escape(text) + "</text>");
  }
  text(width, height) {
    const open = '<svg xmlns="http://www.w3.org/2000/svg" width="' + width + '" height="' + height + '" font-family="system-ui, DejaVu Sans, sans-serif" font-size="11">';
    return open + this.out.join("\n") + "</svg>\n";
  }
}
