// Draws the lanes of the report page from the JSON in it.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = [];
  const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const font = "11px system-ui, sans-serif";
  const ORDER = ["used", "unused", "dropped", "refused"];
  const WORDS = { used: "used", unused: "not used", dropped: "dropped", refused: "rejected" };
  const EVERY_S = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200];

  const sinceStart = (place) => {
    let found = data.stretches[0];
    for (const each of data.stretches) if (each[0] <= place) found = each;
    return found[1] + Math.min(place - found[0], found[2]);
  };
  const clock = (place, step) => {
    const s = sinceStart(place), sign = s < -0.05 ? "-" : "", all = Math.abs(s);
    const digits = step < 1 ? 1 : 0, tenth = Math.round(all * 10 ** digits) / 10 ** digits;
    const h = Math.floor(tenth / 3600), m = Math.floor(tenth / 60) % 60, rest = (tenth % 60).toFixed(digits);
    const two = (n) => String(n).padStart(2, "0");
    return sign + (h ? `${h}:${two(m)}` : two(m)) + ":" + rest.padStart(digits ? 4 : 2, "0");
  };
  const sync = uPlot.sync("drive");
  const time = { time: false, range: (u, low, high) => [low ?? 0, high ?? data.end] };
  const whole = () => [0, Math.max(data.end, 0.1)];

  function make(host, options, values) {
    const chart = new uPlot({ width: host.clientWidth, height: host.clientHeight, legend: { show: false }, ...options },
                            values, host);
    charts.push({ host, chart });
    return chart;
  }

  // Every chart over time has two more points, at the ends of the axis, so that all show the same time.
  function lane(host, plot) {
    const out = host.parentElement.querySelector("output");
    const x = [...plot.x], columns = ORDER.filter((kind) => plot.counts[kind]);
    const sums = x.map(() => 0), stacks = columns.map((kind) => plot.counts[kind].map((n, i) => (sums[i] += n)));
    const drawn = stacks.map((values, k) => ({
      values: values.map((v, i) => (plot.counts[columns[k]][i] ? v : null)), fill: colour(columns[k]),
    })).reverse();
    const top = Math.max(plot.usual * 1.25, 1);
    const bars = (u, sidx, i0, i1) => {
      const path = new Path2D(), values = u.data[sidx];
      for (let i = i0; i <= i1; i++) {
        if (values[i] == null) continue;
        const left = u.valToPos(x[i], "x", true), right = u.valToPos(x[i] + plot.bin, "x", true);
        const y = u.valToPos(Math.min(values[i], top), "y", true), base = u.valToPos(0, "y", true);
        const thin = right - left > 6 ? 1 : 0;
        path.rect(left, y, Math.max(right - left - thin, 1), base - y);
      }
      return { fill: path };
    };
    const gaps = (u) => {
      const { ctx } = u, height = u.bbox.height, y = u.bbox.top;
      ctx.save();
      for (const [kind, spans] of [["gap", plot.gaps], ["dropped", plot.spells || []]]) {
        ctx.fillStyle = colour(kind)();
        for (const [a, b] of spans) {
          const left = u.valToPos(a, "x", true), width = Math.max(u.valToPos(b, "x", true) - left, 2);
          ctx.globalAlpha = 0.16;
          ctx.fillRect(left, y, width, height);
          ctx.globalAlpha = 1;
          ctx.fillRect(left, y + height - 3 * devicePixelRatio, width, 3 * devicePixelRatio);
        }
      }
      ctx.restore();
    };
    const say = (u) => {
      const i = u.cursor.idx;
      if (i == null || u.cursor.left < 0) { out.textContent = out.dataset.rest; return; }
      const words = columns.filter((kind) => plot.counts[kind][i]).map((kind) => `${plot.counts[kind][i]} ${WORDS[kind]}`);
      const at = u.posToVal(u.cursor.left, "x"), inside = at >= x[i] && at <= x[i] + plot.bin;
      out.textContent = inside && words.length ? words.join(", ") : "nothing";
    };
    make(host, {
      padding: [2, 0, 0, 0],
      cursor: { sync: { key: sync.key, setSeries: false }, y: false, points: { show: false }, drag: { x: true, y: false },
                dataIdx: (u, s, i, value) => { let at = 0; while (at + 1 < x.length && x[at + 1] <= value) at++; return at; } },
      scales: { x: { ...time, range: (u, low, high) => (u.zoomed ? [low, high] : whole()) }, y: { range: [0, top] } },
      axes: [{ show: false }, { show: false }],
      series: [{}, ...drawn.map((each) => ({ fill: each.fill, paths: bars, points: { show: false } }))],
      hooks: { draw: [gaps], setCursor: [say], setSelect: [zoomed] },
    }, [x, ...drawn.map((each) => each.values)]);
  }

  function zoomed(u) {
    for (const { chart } of charts) if (chart.scales.x && chart.cursor.sync && chart.cursor.sync.key === sync.key) chart.zoomed = true;
  }
  document.addEventListener("dblclick", () => {
    for (const { chart } of charts) {
      if (!chart.overTime && !chart.zoomed) continue;
      chart.zoomed = false;
      chart.setScale("x", { min: whole()[0], max: whole()[1] });
    }
  }, true);

  const timeAxis = (extra) => ({
    stroke: colour("soft"), font, grid: { show: false }, ticks: { stroke: colour("line"), width: 1, size: 5 },
    space: 70, incrs: EVERY_S, values: (u, splits, i, space, step) => splits.map((v) => clock(v, step)), ...extra,
  });

  function axis(host) {
    const out = document.getElementById("cursor-time");
    const say = (u) => {
      out.textContent = u.cursor.left < 0 || u.cursor.idx == null ? "" : clock(u.posToVal(u.cursor.left, "x"), 0.1);
    };
    make(host, {
      padding: [0, 16, 0, 16],
      cursor: { sync: { key: sync.key, setSeries: false }, y: false, points: { show: false }, drag: { x: true, y: false } },
      scales: { x: { ...time, range: (u, low, high) => (u.zoomed ? [low, high] : whole()) }, y: { range: [0, 1] } },
      axes: [timeAxis({ size: 24 }), { show: false }],
      series: [{}, { points: { show: false }, stroke: "transparent" }],
      hooks: { setCursor: [say], setSelect: [zoomed] },
    }, [whole(), [null, null]]);
  }

  for (const host of document.querySelectorAll("[data-lane]")) lane(host, data.lanes[host.dataset.lane]);
  if (document.getElementById("axis")) axis(document.getElementById("axis"));

  let due = 0;
  const fit = () => {
    for (const { host, chart } of charts) {
      if (host.clientWidth && host.clientWidth !== chart.width) chart.setSize({ width: host.clientWidth, height: host.clientHeight });
    }
  };
  addEventListener("resize", () => { clearTimeout(due); due = setTimeout(fit, 80); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const { chart } of charts) chart.redraw(true, true);
  });

  const viewer = document.getElementById("viewer"), large = document.getElementById("large");
  for (const button of document.querySelectorAll(".zoom")) {
    button.addEventListener("click", () => {
      const small = button.querySelector("img");
      large.src = small.src;
      large.alt = small.alt;
      viewer.showModal();
    });
  }
  if (viewer) viewer.addEventListener("click", () => viewer.close());
  // A name breaks between its parts, where it has to.
  for (const name of document.querySelectorAll(".lane-name b, .share-name, td b")) {
    const parts = name.textContent.split(/(?<=[/_])/);
    name.replaceChildren(...parts.flatMap((part) => [part, document.createElement("wbr")]));
  }
  document.documentElement.dataset.drawn = String(charts.length);
})();
