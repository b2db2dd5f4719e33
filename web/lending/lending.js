// Fills the lending page from the data in it. Texts from outside (names, settings) are only ever set as text.
"use strict";

(() => {
  const f = ebbFormat;
  const { element, emptyChart, lineChart, swatch } = ebbCharts;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);

  const signed = (share, digits = 1) => {
    const text = f.number(Math.abs(100 * share), digits);
    return `${share < 0 ? "−" : "+"}${text} %`;
  };
  const hours = (h) => f.number(h, h < 10 ? 1 : 0);
  const target = (share) => f.percent(share, 2);
  const isRange = (e) => e.high > e.low;

  // ---- in words --------------------------------------------------------------------------------------------------

  function fillHeader() {
    byId("facts").textContent = [
      data.policy, `lending ${data.lending}`, `cluster ${data.cluster}`,
      `${f.number(data.training_gpus)} GPUs to train, ${f.number(data.serving_gpus)} to serve`,
      data.seeds.length === 1 ? "1 seed" : `${f.number(data.seeds.length)} seeds`, `ebb ${data.ebb_version}`,
    ].join(" · ");
    byId("sentence").textContent = data.sentences[0];
    byId("notes").replaceChildren(...data.sentences.slice(1).map((text) => element("li", {}, text)));
  }

  // ---- the headline's cell in numbers ----------------------------------------------------------------------------

  function fillHeadline() {
    const h = data.headline;
    if (!h) {
      byId("headline-section").hidden = true;
      return;
    }
    byId("headline-hint").textContent =
      `Load ${h.load}, serving mean ${f.percent(h.serving_mean)}, ${f.number(h.jobs)} jobs a run. ` + (h.found
        ? "The load was found by bisection; all figures are of runs at that load."
        : "No load was found at which jobs wait as long as they run.");
    const cell = (e, text) => element("td", {}, e ? text(e.mean) : "–",
      e && isRange(e) ? element("small", {}, ` ${text(Math.max(e.low, 0))} to ${text(e.high)}`) : "");
    const rows = [
      ["Mean completion time", h.jct_none_s, h.jct_lending_s, f.duration],
      ["Mean wait", h.wait_none_s, null, f.duration],
      ["Mean run time", h.run_none_s, null, f.duration],
      ["Requests in target", h.in_target_none, h.in_target_lending, target],
      ["Restarts and changes of size", h.restarts_none, h.restarts_lending, (x) => f.number(x)],
      ["GPU-hours of the serving half lent", null, h.lent_gpu_h, hours],
      ["GPU-hours freed for training", null, h.freed_gpu_h, hours],
      ["GPU-hours that serving leaves idle (bound)", null, h.idle_gpu_h, hours],
      ["Reclaims", null, h.reclaims, (x) => f.number(x)],
    ];
    const head = element("tr", {}, ...["", "without lending", "with lending"].map((text, i) =>
      element("th", { scope: "col", className: i > 0 ? "number" : "" }, text)));
    const body = rows.map(([name, none, lending, text]) =>
      element("tr", {}, element("th", { scope: "row" }, name), cell(none, text), cell(lending, text)));
    body.push(element("tr", {}, element("th", { scope: "row" }, "Reclaim, median and p99"), element("td", {}, "–"),
      element("td", {}, `${f.duration(h.reclaim_p50_s)}, ${f.duration(h.reclaim_p99_s)}`)));
    byId("headline-table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
  }

  // ---- surfaces --------------------------------------------------------------------------------------------------

  /** spec: {title, note, value(cell), text(cell), small(cell), tone(cell), strength(x, least, most)} */
  function heatTable(spec) {
    const values = data.cells.map(spec.value);
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const head = element("tr", {}, element("th", { scope: "col" }, "load"),
      ...data.columns.map((column) => element("th", { scope: "col" }, column.name)));
    const body = data.loads.map((load) => element("tr", {}, element("th", { scope: "row" }, f.number(load, 2)),
      ...data.columns.map((_, i) => {
        const cell = data.cells.find((one) => one.column === i && one.load === load);
        const td = element("td", { className: spec.tone(cell) }, spec.text(cell));
        const small = spec.small(cell);
        if (small) td.append(element("small", {}, small));
        td.style.setProperty("--strength", spec.strength(spec.value(cell), least, most).toFixed(3));
        return td;
      })));
    const box = element("div", { className: "scroll", tabIndex: 0 },
      element("table", { className: "heat" }, element("caption", { className: "visually-hidden" }, spec.title),
        element("thead", {}, head), element("tbody", {}, ...body)));
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", spec.title);
    return element("div", {}, element("h3", {}, spec.title, " ", element("small", {}, spec.note)), box);
  }

  const spread = (x, least, most) => (most > least ? (x - least) / (most - least) : 0.5);
  const interval = (e, text) => (isRange(e) ? `${text(e.low)} to ${text(e.high)}` : "");

  function fillSurfaces() {
    byId("surfaces").replaceChildren(
      heatTable({
        title: "JCT change", note: "mean completion time, with lending against without",
        value: (c) => c.jct_change.mean,
        text: (c) => signed(c.jct_change.mean),
        small: (c) => interval(c.jct_change, (x) => signed(x, 0)),
        tone: (c) => (c.jct_change.mean <= 0 ? "shorter" : "longer"),
        strength: (x, least, most) => Math.abs(x) / Math.max(-least, most, 1e-9),
      }),
      heatTable({
        title: "GPU-hours freed", note: "for training, a run; below: of the bound",
        value: (c) => c.freed_gpu_h.mean,
        text: (c) => hours(c.freed_gpu_h.mean),
        small: (c) => `${f.percent(c.bound_used.mean, 0)} of ${hours(c.idle_gpu_h.mean)}`,
        tone: () => "amount",
        strength: spread,
      }),
      heatTable({
        title: "Requests in target", note: "with lending; below: without",
        value: (c) => c.in_target_lending.mean,
        text: (c) => target(c.in_target_lending.mean),
        small: (c) => target(c.in_target_none.mean),
        tone: () => "amount",
        strength: spread,
      }),
      heatTable({
        title: "Reclaim, p99", note: "from the decision to GPUs confirmed free; below: reclaims a run",
        value: (c) => c.reclaim_p99_s,
        text: (c) => (c.reclaims.mean > 0 ? f.duration(c.reclaim_p99_s) : "–"),
        small: (c) => f.number(c.reclaims.mean),
        tone: () => "amount",
        strength: spread,
      }));
  }

  // ---- one run over time -----------------------------------------------------------------------------------------

  const day = data.day;
  const lines = [
    { key: "training", name: "training", style: 0, series: day.training },
    { key: "lent", name: "of it, on lent GPUs", style: 1, series: day.lent },
    { key: "serving", name: "replicas (loading, serving, warm)", style: 2, series: day.serving },
  ];
  const hidden = new Set();
  let chart = null;

  function fillDayLegend() {
    byId("day-legend").replaceChildren(...lines.map((line) => {
      const button = element("button", { type: "button" }, swatch(line.style), element("span", {}, line.name));
      button.setAttribute("aria-pressed", String(!hidden.has(line.key)));
      button.addEventListener("click", () => {
        if (hidden.has(line.key)) hidden.delete(line.key); else hidden.add(line.key);
        button.setAttribute("aria-pressed", String(!hidden.has(line.key)));
        chart.show(line.key, !hidden.has(line.key));
      });
      return button;
    }));
  }

  function drawDay() {
    if (chart) chart.destroy();
    const box = document.querySelector("#chart-day .chart");
    const { start_s: start, bucket_s: bucket } = day.training;
    const xs = day.training.values.map((_, i) => start + i * bucket);
    if (xs.length === 0) {
      chart = emptyChart(box, "The run recorded nothing over time.");
      return;
    }
    xs.push(start + xs.length * bucket);
    chart = lineChart(box, {
      label: "GPUs that train, that are lent and that serve over one run",
      xs,
      lines: lines.map((line) => ({ ...line, ys: xs.map((_, i) => (line.series.values[i] ?? null)) })),
      height: 300,
      xSize: 28,
      xRange: [xs[0], xs[xs.length - 1]],
      xTicks: (from, to, pixels) => f.timeTicks(from, to, Math.max(1, pixels / 70), null),
      xText: (x) => f.moment(x, null),
      yRange: [0, day.cluster_gpus * 1.1],
      yText: (y) => f.number(y, 2),
      yValue: f.figure,
      reference: { at: day.cluster_gpus, label: `capacity: ${f.number(day.cluster_gpus)} GPUs` },
    });
    for (const key of hidden) chart.show(key, false);
    const peak = (series) => f.figure(Math.max(0, ...series.values));
    document.querySelector("#chart-day figcaption").textContent =
      `At most ${peak(day.training)} GPUs train, ${peak(day.lent)} of them lent; at most ${peak(day.serving)} serve.`;
  }

  // ---- all together ----------------------------------------------------------------------------------------------

  function fillMade() {
    const rows = [
      ["Command", element("code", {}, data.command)],
      ["Serving means", data.columns.map((c) => `${f.percent(c.serving_mean)} (power ${f.figure(c.shape_power)}, in ` +
        `whole replicas ${f.percent(c.replica_mean)})`).join("; ")],
      ["Seeds", data.seeds.join(", ")],
      ...Object.entries(data.settings).map(([name, value]) =>
        [name[0].toUpperCase() + name.slice(1), name === "jobs" ? `${value} (the run drawn above)` : value]),
    ];
    byId("made").replaceChildren(
      ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
    byId("day-hint").textContent = `Load ${day.load}, serving mean ${f.percent(day.serving_mean)}, seed ${day.seed}. ` +
      "Over the chart, drag to enlarge a part; double-click to see all of it.";
    byId("warnings-section").hidden = data.warnings.length === 0;
    byId("warnings").replaceChildren(...data.warnings.map((text) => element("li", {}, text)));
  }

  function draw() {
    fillDayLegend();
    drawDay();
    document.body.dataset.charts = String(ebbCharts.drawn());
  }

  fillHeader();
  fillHeadline();
  fillSurfaces();
  fillMade();
  draw();
  ebbCharts.darkQuery.addEventListener("change", draw);
  // Paper is white whatever the screen is.
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.theme = "light";
    draw();
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.theme;
    draw();
  });
  document.body.dataset.ready = "true";
})();
