"use strict";
// The columns of data.drives, in the order in which page.py writes them.
const NAME = 0, PAGE = 1, GRADE = 2, DEVICE = 3, START = 4, LENGTH = 5, SAMPLES = 6, SPEED = 7, READ = 8,
  WRITTEN = 9, LOST = 10, PAIRING = 11, WARNINGS = 12, LOSSES = 13;
const data = JSON.parse(document.getElementById("data").textContent);
const GRADES = ["good", "fair", "poor", "empty", "unknown"];
const ROWS = 200, DAY = 86400;
const $ = id => document.getElementById(id);
const make = (name, text, attributes) => {
  const made = Object.assign(document.createElement(name), attributes || {});
  if (text !== undefined && text !== null) made.textContent = text;
  return made;
};
const number = (value, digits) => value === null || value === undefined ? "·"
  : value.toLocaleString("en", {maximumFractionDigits: digits || 0, minimumFractionDigits: digits || 0});
const size = bytes => bytes >= 1e9 ? `${number(bytes / 1e9, 2)} GB` : `${number(bytes / 1e6, 1)} MB`;
const time = seconds => seconds ? new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") : "·";
const clock = s => `${Math.floor(s / 3600)}:${String(Math.floor(s / 60) % 60).padStart(2, "0")}`;
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const drives = data.drives;
const COLUMNS = [
  ["drive", NAME], ["device", DEVICE], ["begun, UTC", START], ["length", LENGTH], ["samples", SAMPLES],
  ["× real time", SPEED], ["read", READ], ["written", WRITTEN], ["lost", LOST], ["worst pairing, ms", PAIRING],
  ["warnings", WARNINGS],
];
const state = {sort: START, up: true, words: "", grades: new Set(), rows: ROWS, found: [], picked: null};
if (!drives.some(drive => drive[START])) state.sort = NAME;

function choose() {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  const has = drive => words.every(word => drive.text.includes(word));
  state.found = drives.filter(drive => (!state.grades.size || state.grades.has(drive[GRADE])) && has(drive));
  const by = state.sort, sign = state.up ? 1 : -1;
  state.found.sort((a, b) => {
    const x = a[by], y = b[by];
    if (x === y) return a.at - b.at;
    if (x === null) return 1;
    if (y === null) return -1;
    return sign * (typeof x === "string" ? x.localeCompare(y, "en", {numeric: true}) : x - y);
  });
  state.rows = ROWS;
  table();
  draw();
}

function table() {
  const body = make("tbody");
  for (const drive of state.found.slice(0, state.rows)) {
    const row = make("tr"), first = make("td", "", {title: drive[NAME]}), text = drive[NAME];
    first.append(make("span", "", {className: `grade ${drive[GRADE]}`, title: drive[GRADE]}));
    first.append(drive[PAGE] ? make("a", text, {href: href(drive[PAGE])}) : text);
    row.append(first);
    const shown = [drive[DEVICE], time(drive[START]), clock(drive[LENGTH]), number(drive[SAMPLES]),
      number(drive[SPEED], 1), size(drive[READ]), size(drive[WRITTEN]), drive[LOSSES],
      number(drive[PAIRING], 1), drive[WARNINGS] || "·"];
    shown.forEach((value, n) => row.append(make("td", value, {className: n === 0 || n === 7 ? "text" : ""})));
    body.append(row);
  }
  const head = make("tr");
  for (const [label, column] of COLUMNS) {
    const cell = make("th"), button = make("button", label, {type: "button"});
    if (column === DEVICE || column === LOST) cell.className = "text";
    if (column === state.sort) cell.setAttribute("aria-sort", state.up ? "ascending" : "descending");
    button.addEventListener("click", () => {
      state.up = state.sort === column ? !state.up : column === NAME || column === DEVICE || column === START;
      state.sort = column;
      choose();
    });
    cell.append(button);
    head.append(cell);
  }
  const whole = make("table");
  whole.append(make("thead"), body);
  whole.firstChild.append(head);
  $("rows").replaceChildren(whole);
  const left = state.found.length - state.rows;
  $("count").textContent = `${number(state.found.length)} of ${number(drives.length)} drives`;
  $("more").hidden = left <= 0;
  $("more").textContent = `show ${number(Math.min(left, 1000))} more`;
}

// Each part is encoded, so that no name is more than a place below this page.
const href = path => "./" + path.split("/").filter(part => part !== ".." && part !== ".").map(encodeURIComponent).join("/");

// A canvas that is zoomed by the wheel and moved by dragging; paint(context, view, scale) draws it.
class Plot {
  constructor(canvas, height, box, both, paint, find) {
    Object.assign(this, {canvas, height, box, both, paint, find, view: [...box]});
    let from = null, moved = false;
    canvas.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.metaKey) return;  // who scrolls the page wants to get past
      event.preventDefault();
      const [x, y] = this.at(event), factor = event.deltaY > 0 ? 1.25 : 0.8, v = this.view;
      this.view = [x + (v[0] - x) * factor, both ? y + (v[1] - y) * factor : v[1],
        x + (v[2] - x) * factor, both ? y + (v[3] - y) * factor : v[3]];
      this.draw();
    }, {passive: false});
    canvas.addEventListener("pointerdown", event => { from = this.at(event); moved = false; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", event => { from = null; if (!moved) this.pick(event, true); });
    canvas.addEventListener("pointermove", event => {
      if (!from) return this.pick(event, false);
      const [x, y] = this.at(event), dx = from[0] - x, dy = both ? from[1] - y : 0;
      if (Math.abs(dx * this.scale[0]) + Math.abs(dy * this.scale[1]) > 3) moved = true;
      this.view = [this.view[0] + dx, this.view[1] + dy, this.view[2] + dx, this.view[3] + dy];
      this.draw();
    });
    canvas.addEventListener("dblclick", () => { this.view = [...box]; this.draw(); });
  }
  at(event) {
    const inside = this.canvas.getBoundingClientRect();
    return [this.view[0] + (event.clientX - inside.left - this.left) / this.scale[0],
      this.view[1] + (event.clientY - inside.top - this.top) / this.scale[1]];
  }
  draw() {
    const wide = this.canvas.clientWidth, dense = devicePixelRatio || 1;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = wide * dense;
    this.canvas.height = this.height * dense;
    const v = this.view, context = this.canvas.getContext("2d");
    let scale = [wide / (v[2] - v[0]), this.height / (v[3] - v[1])];
    if (this.both) scale = [Math.min(...scale), Math.min(...scale)];
    this.scale = scale;
    const left = this.left = (wide - (v[2] - v[0]) * scale[0]) / 2, top = this.top = (this.height - (v[3] - v[1]) * scale[1]) / 2;
    context.scale(dense, dense);
    this.paint(context, (x, y) => [(x - v[0]) * scale[0] + left, (y - v[1]) * scale[1] + top], wide);
  }
  pick(event, click) {
    const drive = this.find(...this.at(event), 6 / this.scale[0], 6 / this.scale[1]);
    this.canvas.nextElementSibling.textContent = drive
      ? `${drive[NAME]}: ${drive[GRADE]}, ${time(drive[START])}, ${clock(drive[LENGTH])} h, ${number(drive[SAMPLES])} samples` : "";
    if (click && drive) { $("words").value = state.words = drive[NAME]; choose(); }
  }
}

const plots = [];
const inOrder = () => [...state.found].sort((a, b) => GRADES.indexOf(a[GRADE]) - GRADES.indexOf(b[GRADE]));
function map() {
  const placed = drives.filter(drive => drive.track.length);
  if (!placed.length) return $("map").remove();
  const all = placed.flatMap(drive => drive.track), mid = (Math.min(...minmax(all, 0)) + Math.max(...minmax(all, 0))) / 2;
  const narrow = Math.max(0.01, Math.cos(mid * Math.PI / 180));
  for (const drive of placed) drive.points = drive.track.map(([lat, lon]) => [lon * narrow, -lat]);
  const [west, east] = minmax(all, 1), [south, north] = minmax(all, 0);
  const pad = 0.03 * Math.max((east - west) * narrow, north - south, 0.001);
  const box = [west * narrow - pad, -north - pad, east * narrow + pad, -south + pad];
  plots.push(new Plot($("places"), 420, box, true, (context, to, wide) => {
    context.lineWidth = 1.5;
    context.lineCap = "round";
    for (const drive of inOrder()) {
      if (!drive.points) continue;
      context.strokeStyle = context.fillStyle = colour(drive[GRADE]);
      context.globalAlpha = state.found.length > 500 ? 0.55 : 0.9;
      context.beginPath();
      drive.points.forEach((point, n) => context[n ? "lineTo" : "moveTo"](...to(...point)));
      context.stroke();
      const [x, y] = to(...drive.points[0]);
      context.fillRect(x - 1.5, y - 1.5, 3, 3);
    }
    context.globalAlpha = 1;
    bar(context, wide, 420);
  }, (x, y, dx, dy) => nearest(x, y, Math.max(dx, dy))));
}
function minmax(points, n) {
  let low = Infinity, high = -Infinity;
  for (const point of points) { low = Math.min(low, point[n]); high = Math.max(high, point[n]); }
  return [low, high];
}
function bar(context, wide, high) {
  const metre = plots[0].scale[0] / 111320, wanted = 110 / metre, power = 10 ** Math.floor(Math.log10(wanted));
  const length = [5, 2, 1].map(n => n * power).find(n => n <= wanted) || power;
  context.fillStyle = colour("ink");
  context.fillRect(12, high - 14, length * metre, 2);
  context.font = "12px system-ui, sans-serif";
  context.fillText(length >= 1000 ? `${length / 1000} km` : `${length} m`, 12, high - 20);
}
function nearest(x, y, within) {
  let best = null, least = within;
  for (const drive of state.found) {
    for (let n = 1; drive.points && n < drive.points.length; n++) {
      const [ax, ay] = drive.points[n - 1], [bx, by] = drive.points[n], lx = bx - ax, ly = by - ay;
      const t = Math.max(0, Math.min(1, ((x - ax) * lx + (y - ay) * ly) / (lx * lx + ly * ly || 1)));
      const far = Math.hypot(x - ax - t * lx, y - ay - t * ly);
      if (far < least) { least = far; best = drive; }
    }
  }
  return best;
}

function timeline() {
  const timed = drives.filter(drive => drive[START]);
  if (!timed.length) return $("timeline").remove();
  const names = [...new Set(timed.map(drive => drive[DEVICE]))].sort((a, b) => a.localeCompare(b, "en", {numeric: true}));
  const lanes = Math.min(names.length, 40), high = Math.max(14, Math.min(26, 420 / lanes));
  for (const drive of timed) drive.lane = Math.min(names.indexOf(drive[DEVICE]), lanes - 1);
  const ends = timed.map(drive => [drive[START], drive[START] + drive[LENGTH]]);
  const [first] = minmax(ends, 0), [, last] = minmax(ends, 1), span = Math.max(last - first, DAY / 24);
  // The names of the devices stand at the left, in a ninth of the width.
  const box = [first - span * 0.12, 0, last + span * 0.02, lanes + 1];
  plots.push(new Plot($("times"), high * (lanes + 1), box, false, (context, to, wide) => {
    context.font = "11px system-ui, sans-serif";
    ticks(context, to, wide, high * lanes, box);
    for (const drive of inOrder()) {
      if (drive.lane === undefined) continue;
      const [x, y] = to(drive[START], drive.lane), [end] = to(drive[START] + drive[LENGTH], 0);
      context.fillStyle = colour(drive[GRADE]);
      context.fillRect(x, y + 3, Math.max(2, end - x), high - 6);
    }
    for (let lane = 0; lane < lanes; lane++) {
      const others = lane === lanes - 1 && names.length > lanes;
      const label = others ? `${names.length - lane} others` : names[lane] || "unknown";
      const shown = label.length > 18 ? `…${label.slice(-17)}` : label, width = context.measureText(shown).width;
      context.fillStyle = colour("faint");
      context.fillRect(0, lane * high, width + 12, high);
      context.fillStyle = colour("ink");
      context.fillText(shown, 6, lane * high + high / 2 + 4);
    }
  }, (x, y, dx) => state.found.find(drive => drive.lane === Math.floor(y) && x > drive[START] - dx
    && x < drive[START] + drive[LENGTH] + dx)));
}
function ticks(context, to, wide, high) {
  const plot = plots[plots.length - 1], seconds = wide / plot.scale[0];
  const step = [1 / 24, 0.25, 1, 7, 30, 91, 365].map(days => days * DAY).find(s => seconds / s < wide / 90) || 3650 * DAY;
  for (let at = Math.ceil(plot.view[0] / step) * step; at < plot.view[2]; at += step) {
    const [x] = to(at, 0), text = new Date(at * 1000).toISOString();
    context.fillStyle = colour("line");
    context.fillRect(x, 0, 1, high);
    context.fillStyle = colour("soft");
    if (x < wide - 70) context.fillText(step < DAY ? text.slice(5, 16).replace("T", " ") : text.slice(0, 10), x + 3, high + 13);
  }
}

function trends() {
  const rows = data.trends.filter(row => row.days.length > 1);
  if (!rows.length) return $("trends").remove();
  const first = Math.min(...rows.map(row => row.days[0])), last = Math.max(...rows.map(row => row.days.at(-1)));
  let shown = 0;
  const show = count => {
    for (const row of rows.slice(shown, shown + count)) {
      const line = make("div", null, {className: "trend"}), name = make("div"), canvas = make("canvas");
      name.append(make("b", `${row.device} · ${row.sensor}`));
      if (row.change) name.append(make("small", row.change));
      line.append(name, canvas);
      $("sensors-by-day").append(line);
      strip(canvas, row, first, last);
    }
    shown += count;
    $("more-trends").hidden = shown >= rows.length;
  };
  $("more-trends").addEventListener("click", () => show(100));
  $("more-trends").textContent = "show more sensors";
  $("from-to").textContent = `${time(first * DAY).slice(0, 10)} to ${time(last * DAY).slice(0, 10)}; a bar is a day's share of lost messages, up to ${(limit() / 1e4).toFixed(1)} %`;
  show(Math.max(12, Math.min(30, rows.filter(row => row.change).length)));
}
// What the worst of all rows lost, but at least one message in a hundred.
const limit = () => Math.min(1e6, Math.max(1e4, ...data.trends.slice(0, 12).flatMap(row => row.lost_ppm)));
function strip(canvas, row, first, last) {
  const wide = canvas.clientWidth, dense = devicePixelRatio || 1, high = 26, day = wide / (last - first + 1), most = limit();
  canvas.width = wide * dense;
  canvas.height = high * dense;
  const context = canvas.getContext("2d");
  context.scale(dense, dense);
  row.days.forEach((at, n) => {
    const share = row.lost_ppm[n] / most, tall = Math.max(1.5, Math.min(1, share) * (high - 2));
    context.fillStyle = colour(row.lost_ppm[n] >= 1e5 ? "poor" : row.lost_ppm[n] >= 1e4 ? "fair" : "good");
    context.fillRect((at - first) * day, high - tall, Math.max(1.5, day - 0.5), tall);
  });
  canvas.title = row.days.slice(-12).map((at, n) => {
    const k = row.days.length - Math.min(12, row.days.length) + n;
    return `${time(at * DAY).slice(0, 10)}: ${(row.lost_ppm[k] / 1e4).toFixed(2)} % lost, p95 ${row.pairing_ms[k]} ms, ${row.drives[k]} drives`;
  }).join("\n");
}

function draw() { for (const plot of plots) plot.draw(); }
drives.forEach((drive, at) => {
  drive.at = at;
  drive.track = unpack(data.tracks[at]);
  drive.text = `${drive[NAME]} ${drive[DEVICE]} ${time(drive[START])} ${drive[LOSSES]} ${data.warnings[at] || ""}`.toLowerCase();
});
// Steps of 1e-4 degrees: latitude, longitude in turn, the first ones from zero.
function unpack(steps) {
  const found = [];
  let lat = 0, lon = 0;
  for (let n = 0; n < steps.length; n += 2) found.push([(lat += steps[n]) / 1e4, (lon += steps[n + 1]) / 1e4]);
  return found;
}
for (const grade of GRADES) {
  const count = drives.filter(drive => drive[GRADE] === grade).length;
  if (!count) continue;
  const button = make("button", null, {type: "button"});
  button.append(make("span", "", {className: `grade ${grade}`}), `${grade} ${number(count)}`);
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    const on = !state.grades.delete(grade) && state.grades.add(grade);
    button.setAttribute("aria-pressed", String(Boolean(on)));
    choose();
  });
  $("grades").append(button);
}
let waiting = 0;
$("words").addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { state.words = $("words").value; choose(); }, 120);
});
$("more").addEventListener("click", () => { state.rows += 1000; table(); });
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
map();
timeline();
trends();
choose();
document.documentElement.dataset.drawn = "";
