// What the GPUs did, and inference and loans, as bars and tables: a row for each run. Knows the data of a run (see
// report.cc) and nothing of the page around it.
"use strict";

const ebbUsage = (() => {
  const f = ebbFormat;
  const { element, swatch } = ebbCharts;

  // In the order of the bars; the colours are in report.css.
  const STATES = [
    ["training", "Training"], ["resizing", "Changing"], ["starting", "Loading"], ["serving", "Serving"],
    ["protected", "Protected"], ["sleeping", "Sleeping"], ["idle", "Idle"],
  ];
  const total = (states) => STATES.reduce((sum, [key]) => sum + Math.max(0, states[key] || 0), 0);
  const hours = (seconds) => f.number(seconds / 3600, seconds < 36000 ? 1 : 0);

  function runName(s) {
    return element("th", { scope: "row", title: s.run.label },
      element("span", {}, swatch(s.style, 18), element("span", { className: "text" }, s.name)));
  }

  function stackedBar(states) {
    const bar = element("div", { className: "stack", "aria-hidden": "true" });
    for (const [key] of STATES) {
      if (!(states[key] > 0)) continue;
      const part = element("span", { className: `state-${key}` });
      part.style.width = `${(100 * states[key]) / total(states)}%`;
      bar.append(part);
    }
    return bar;
  }

  const hasStates = (run) => total(run.gpu_seconds_by_state) > 0;

  /** GPU-seconds by state: a bar and the numbers. */
  function fillStates(box, rows) {
    const known = rows.filter((s) => hasStates(s.run));
    if (known.length === 0) {
      box.replaceChildren();
      return;
    }
    const used = STATES.filter(([key]) => known.some((s) => s.run.gpu_seconds_by_state[key] > 0));
    const head = element("tr", {}, element("th", { scope: "col" }, "Run"), element("td", { className: "bar-cell" }),
      ...used.map(([key, name]) => element("th", { scope: "col", className: "number" },
        element("span", { className: `mark state-${key}`, "aria-hidden": "true" }), name)));
    const body = known.map((s) => {
      const states = s.run.gpu_seconds_by_state;
      return element("tr", {}, runName(s), element("td", { className: "bar-cell" }, stackedBar(states)),
        ...used.map(([key]) => element("td", {}, f.percent(states[key] / total(states)),
          element("small", {}, `${hours(states[key])} h`))));
    });
    box.replaceChildren(element("table", { className: "figures plain usage" },
      element("caption", { className: "visually-hidden" }, "GPU-hours by what the GPUs did"),
      element("thead", {}, head), element("tbody", {}, ...body)));
  }

  // [name, value of the run's part, text, whether 0 says something]; a column without anything to say is left out
  const INFERENCE = [
    ["Tasks", (i) => i.submitted, f.number],
    ["Completed", (i) => i.count, f.number],
    ["Extra latency, mean", (i) => (i.count > 0 ? i.avg_extra_s : null), f.duration, true],
    ["Extra latency, p99", (i) => (i.count > 0 ? i.p99_extra_s : null), f.duration, true],
    ["Requests", (i) => i.requests, f.number],
    ["In target", (i) => (i.count > 0 || i.requests > 0 ? i.in_target_share : null), (share) => f.percent(share, 2), true],
  ];
  const LOANS = [
    ["GPUs lent", (l) => l.count, f.number],
    ["GPU-hours lent", (l) => l.gpu_seconds / 3600, (h) => f.number(h, h < 10 ? 1 : 0)],
    ["Reclaims", (l) => l.reclaims, f.number],
    ["Reclaim latency, p50", (l) => (l.reclaims > 0 ? l.reclaim_p50_s : null), f.duration, true],
    ["Reclaim latency, p99", (l) => (l.reclaims > 0 ? l.reclaim_p99_s : null), f.duration, true],
    ["Forced", (l) => l.forced, f.number],
    ["Late", (l) => l.late, f.number],
  ];

  function fillTable(box, rows, columns, part, caption) {
    const known = rows.filter((s) => part(s.run));
    if (known.length === 0) {
      box.replaceChildren();
      return;
    }
    const says = (value, zero) => value !== null && (zero || value !== 0);
    const used = columns.filter(([, value, , zero]) => known.some((s) => says(value(part(s.run)), zero)));
    box.replaceChildren(element("table", { className: "figures plain" },
      element("caption", { className: "visually-hidden" }, caption),
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Run"),
        ...used.map(([name]) => element("th", { scope: "col", className: "number" }, name)))),
      element("tbody", {}, ...known.map((s) => element("tr", {}, runName(s),
        ...used.map(([, value, text]) => element("td", {}, text(value(part(s.run))))))))));
  }

  return {
    hasStates,
    fillStates,
    fillInference: (box, rows) => fillTable(box, rows, INFERENCE, (run) => run.inference, "Inference of every run"),
    fillLoans: (box, rows) => fillTable(box, rows, LOANS, (run) => run.loans, "Loans of every run"),
  };
})();
