// Fills the report from the data in the page. Texts from traces (labels, tenants, warnings) are only ever set as text.
"use strict";

(() => {
  const f = ebbFormat;
  const { color, element, emptyChart, lineChart, swatch } = ebbCharts;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const runs = data.runs;
  const distinct = (list) => Array.from(new Set(list));

  // Contenders keep their colour over all views.
  const contenders = distinct(runs.map((run) => run.contender));

  /** The runs of a view as they are drawn: {run, index, key, name, style}. */
  function shownRuns(view) {
    return view.runs.map((index, position) => {
      const run = runs[index];
      return {
        run,
        index,
        key: view.by_label ? index : run.contender,
        name: view.by_label ? run.label : run.contender,
        style: view.by_label ? position : contenders.indexOf(run.contender),
      };
    });
  }

  let view = data.views[0];
  let shown = shownRuns(view);
  const hidden = new Set();
  let charts = [];
  const visible = () => shown.filter((s) => !hidden.has(s.key));

  // ---- header ----------------------------------------------------------------------------------------------------

  function plural(n, one, many = `${one}s`) {
    return `${f.number(n)} ${n === 1 ? one : many}`;
  }

  function rangeText(values, text, unit) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return low === high ? text(low, unit) : `${f.number(low)}–${text(high, unit)}`;
  }

  function fillHeader() {
    const clusters = distinct(runs.map((run) => run.cluster).filter(Boolean));
    const tasks = runs.some((run) => run.inference && run.inference.submitted > 0);
    const facts = [
      contenders.length > 1 ? plural(contenders.length, "policy", "policies") : contenders[0],
      runs.length > contenders.length ? plural(runs.length, "run") : null,
      rangeText(runs.map((run) => run.summary.jobs_total), plural, tasks ? "training job" : "job"),
      tasks ? rangeText(runs.map((run) => (run.inference ? run.inference.submitted : 0)), plural, "inference task")
        : null,
      rangeText(runs.map((run) => run.cluster_gpus), plural, "GPU") +
        (clusters.length === 1 ? ` (cluster ${clusters[0]})` : ""),
      data.ebb_version ? `ebb ${data.ebb_version}` : null,
    ];
    byId("facts").textContent = facts.filter(Boolean).join(" · ");
  }

  // ---- choice of runs ----------------------------------------------------------------------------------------------

  function fillViews() {
    if (data.views.length < 2) return;
    byId("view-choice").hidden = false;
    const select = byId("view");
    data.views.forEach((v, i) => select.append(element("option", { value: String(i) }, v.name)));
    select.addEventListener("change", () => {
      view = data.views[Number(select.value)];
      shown = shownRuns(view);
      const keys = new Set(shown.map((s) => s.key));
      for (const key of hidden) if (!keys.has(key)) hidden.delete(key);
      fillView();
    });
  }

  function fillLegend() {
    const legend = byId("legend");
    legend.replaceChildren(...shown.map((s) => {
      const button = element("button", { type: "button", title: s.run.label }, swatch(s.style),
        element("span", {}, s.name));
      button.setAttribute("aria-pressed", String(!hidden.has(s.key)));
      button.addEventListener("click", () => toggle(s.key, button));
      for (const [name, key] of [["pointerenter", s.key], ["focus", s.key], ["pointerleave", null], ["blur", null]]) {
        button.addEventListener(name, () => charts.forEach((chart) => chart.focus(hidden.has(key) ? null : key)));
      }
      return button;
    }));
  }

  function toggle(key, button) {
    const on = hidden.has(key);
    if (on) hidden.delete(key); else hidden.add(key);
    button.setAttribute("aria-pressed", String(on));
    charts.forEach((chart) => {
      chart.focus(null);
      chart.show(key, on);
    });
    fillGlance();
    fillCaptions();
    fillUsage();
    fillTenants();
  }

  // ---- summary -----------------------------------------------------------------------------------------------------

  function fillSummary() {
    byId("sentence").textContent = view.sentence;
    byId("notes").replaceChildren(...view.notes.map((note) => element("li", {}, note)));
  }

  const GLANCE = [
    ["Average completion time", "lower is better", (s) => s.training.avg_s, f.duration, Math.min],
    ["p99 pending time", "lower is better", (s) => s.queue.p99_s, f.duration, Math.min],
    ["Utilisation", "GPUs held", (s) => s.utilisation, f.percent, Math.max],
  ];

  function fillGlance() {
    const rows = visible();
    if (shown.length < 2) {  // the sentence says it all
      byId("glance").replaceChildren();
      return;
    }
    byId("glance").replaceChildren(...GLANCE.map(([title, hint, value, text, best]) => {
      const has = (s) => value === GLANCE[2][2] || s.run.summary.jobs_completed > 0;
      const values = rows.filter(has).map((s) => value(s.run.summary));
      const scale = text === f.percent ? 1 : Math.max(...values, 0);
      const top = values.length > 1 && Math.min(...values) !== Math.max(...values) ? best(...values) : null;
      return element("div", {},
        element("h3", {}, `${title} `, element("small", {}, hint)),
        element("ul", {}, ...rows.map((s) => {
          const v = has(s) ? value(s.run.summary) : null;
          const bar = element("span", { className: "bar" });
          bar.style.width = v && scale ? `${Math.min(100, (100 * v) / scale)}%` : "0";
          bar.style.background = color(s.style);
          const classes = v !== null && top !== null && text(v) === text(top) ? " best" : "";
          return element("li", {}, element("span", { className: `name${classes}`, title: s.run.label }, s.name),
            element("span", { "aria-hidden": "true" }, bar),
            element("span", { className: `value${classes}` }, text(v)));
        })));
    }));
  }

  // ---- table of figures --------------------------------------------------------------------------------------------

  const completedOnly = (value) => (s) => (s.jobs_completed > 0 ? value(s) : null);
  // [group, name, value, text, which is best, spoken name]
  const COLUMNS = [
    ["Completion time (JCT)", "avg", completedOnly((s) => s.training.avg_s), f.duration, Math.min],
    ["Completion time (JCT)", "p50", completedOnly((s) => s.training.p50_s), f.duration, Math.min],
    ["Completion time (JCT)", "p99", completedOnly((s) => s.training.p99_s), f.duration, Math.min],
    ["Pending time", "avg", completedOnly((s) => s.queue.avg_s), f.duration, Math.min],
    ["Pending time", "p50", completedOnly((s) => s.queue.p50_s), f.duration, Math.min],
    ["Pending time", "p99", completedOnly((s) => s.queue.p99_s), f.duration, Math.min],
    ["", "Makespan", completedOnly((s) => s.makespan_s), f.duration, Math.min],
    ["", "Utilisation", (s) => s.utilisation, f.percent, Math.max],
    ["", "Preemptions", (s) => s.preemptions, f.number, null],
    ["", "Restarts", (s) => s.restarts, f.number, null],
    ["", "Max ρ", completedOnly((s) => s.max_rho), (x) => f.number(x, x >= 10 ? 1 : 2), Math.min],
    ["", "Completed", (s) => s.jobs_completed, f.number, null],
    ["", "Impossible", (s) => s.jobs_impossible, f.number, null],
  ];

  let sortBy = null;  // {column (-1: the run's name), descending}

  /** For every run and column, whether it is the best of a comparison (a view of one condition). */
  function bestCells() {
    const best = new Set();
    const comparisons = data.views.filter((v) => !v.by_label || data.views.length === 1);
    for (const { runs: indices } of comparisons) {
      COLUMNS.forEach(([, , value, text, better], column) => {
        const cells = indices.map((i) => [i, value(runs[i].summary)]).filter(([, v]) => v !== null);
        if (!better || distinct(cells.map(([, v]) => text(v))).length < 2) return;
        const top = better(...cells.map(([, v]) => v));
        for (const [i, v] of cells) if (text(v) === text(top)) best.add(`${i}/${column}`);
      });
    }
    return best;
  }
  const best = bestCells();

  function sortButton(column, name, spoken) {
    const button = element("button", { type: "button" }, name);
    button.setAttribute("aria-label", `Sort by ${spoken}`);
    button.addEventListener("click", () => {
      sortBy = { column, descending: sortBy !== null && sortBy.column === column && !sortBy.descending };
      fillTable();
      byId("figures-table").querySelectorAll("thead button")[column + 1].focus();
    });
    return button;
  }

  function tableHead() {
    const groups = element("tr");
    const names = element("tr");
    const sorted = (th, column) => {
      if (sortBy !== null && sortBy.column === column) {
        th.setAttribute("aria-sort", sortBy.descending ? "descending" : "ascending");
      }
      return th;
    };
    groups.append(element("td"));
    names.append(sorted(element("th", { scope: "col" }, sortButton(-1, "Run", "run")), -1));
    COLUMNS.forEach(([group, name], column) => {
      const first = column === 0 || COLUMNS[column - 1][0] !== group;
      if (group && first) {
        const span = COLUMNS.filter(([g]) => g === group).length;
        groups.append(element("th", { scope: "colgroup", colSpan: span, className: "group-start" },
          element("span", {}, group)));
      } else if (!group) {
        groups.append(element("td"));
      }
      const th = element("th", { scope: "col", className: first && column > 0 ? "number group-start" : "number" },
        sortButton(column, name, group ? `${group}, ${name}` : name));
      names.append(sorted(th, column));
    });
    return element("thead", {}, groups, names);
  }

  function fillTable() {
    const inView = new Map(shown.map((s) => [s.index, s]));
    const key = sortBy === null ? null
      : sortBy.column < 0 ? (run) => run.label : (run) => COLUMNS[sortBy.column][2](run.summary);
    const order = key ? f.sortedIndices(runs, key, sortBy.descending) : runs.map((_, i) => i);
    const body = element("tbody", {}, ...order.map((i) => {
      const run = runs[i];
      const s = inView.get(i);
      const name = element("span", {}, element("span", { className: "text", title: run.label }, run.label));
      if (s) name.prepend(swatch(s.style, 18));
      if (run.oracle && !/oracle/i.test(run.label)) name.append(element("span", { className: "tag" }, "oracle"));
      const row = element("tr", { className: s ? "" : "off" }, element("th", { scope: "row" }, name));
      COLUMNS.forEach(([group, , value, text], column) => {
        const classes = [best.has(`${i}/${column}`) ? "best" : "",
          column > 0 && (COLUMNS[column - 1][0] !== group) ? "group-start" : ""].join(" ").trim();
        row.append(element("td", { className: classes }, text(value(run.summary))));
      });
      return row;
    }));
    const table = byId("figures-table");
    table.classList.toggle("long", runs.length > 12);
    const caption = element("caption", { className: "visually-hidden" }, "Figures of every run");
    table.replaceChildren(caption, tableHead(), body);
    byId("best-hint").hidden = best.size === 0;
  }

  // ---- distributions -----------------------------------------------------------------------------------------------

  const PERCENT_TICKS = [0, 0.25, 0.5, 0.75, 1];

  /** Seconds to a place on the axis: their logarithm; what lies below the axis, its left end. */
  function drawCurve(id, curveOf, { withZero, noun }) {
    const box = byId(id).querySelector(".chart");
    const drawn = shown.filter((s) => curveOf(s.run).count > 0);
    if (drawn.length === 0) return emptyChart(box, "No job completed, so there is nothing to draw.");
    const positive = drawn.flatMap((s) => curveOf(s.run).values_s.filter((v) => v > 0));
    const smallest = positive.length ? Math.max(Math.min(...positive), 0.001) : 1;
    const low = Math.log10(smallest) - 0.05;
    const high = Math.max(positive.length ? Math.log10(Math.max(...positive)) : 0, low + 1);
    const hasZero = withZero && drawn.some((s) => curveOf(s.run).zero_share > 0);
    const zeroAt = low - Math.max(0.08 * (high - low), 0.1);
    const left = hasZero ? zeroAt : low;
    const place = (seconds) => (seconds > 0 ? Math.max(Math.log10(seconds), low) : left);
    const curves = drawn.map((s) => ({ xs: curveOf(s.run).values_s.map(place), ys: curveOf(s.run).shares }));
    const margin = 0.02 * (high - left);
    const xs = f.union([...curves.map((c) => c.xs), [left, high + margin]]);
    const byKey = new Map(drawn.map((s, i) => [s.key, curves[i]]));
    return lineChart(box, {
      label: `${noun}: share of completed jobs within a time, a line for each run. ${captionOf(id)}`,
      xs,
      lines: drawn.map((s) => ({
        ...s, ys: xs.map((x) => f.stepAt(byKey.get(s.key).xs, byKey.get(s.key).ys, x, 0)),
      })),
      dots: hasZero ? drawn.filter((s) => curveOf(s.run).zero_share > 0)
        .map((s) => ({ x: left, y: curveOf(s.run).zero_share, style: s.style, key: s.key })) : [],
      height: 280,
      xSize: 28,
      xRange: [left - (hasZero ? margin : 0), high + margin],
      xTicks: (from, to, pixels) => {
        const ticks = f.durationTicks(Math.max(from, low), to, ((to - from) * 44) / pixels);
        if (!hasZero || from > left) return ticks;
        return [{ at: left, label: "none" }, ...ticks.filter((t) => t.at - left >= ((to - from) * 44) / pixels)];
      },
      xText: (x) => (hasZero && x < low ? "did not wait" : `within ${f.duration(10 ** x)}`),
      yRange: [0, 1.03],
      yTicks: PERCENT_TICKS,
      yText: (y) => f.percent(y, 0),
      yValue: (y) => f.percent(y),
    });
  }

  const peakOf = (series) => (series ? `at most ${f.figure(Math.max(0, ...series.values))}` : "none");
  // What stands below each chart, and in its label for readers who do not see it: a text for each run.
  const captions = {
    "chart-jct": (s) => (s.run.jct.count === 0 ? "no completed job"
      : `half within ${f.duration(s.run.summary.training.p50_s)}, ` +
        `99 % within ${f.duration(s.run.summary.training.p99_s)}`),
    "chart-pending": (s) => (s.run.pending.count === 0 ? "no completed job"
      : `${f.percent(s.run.pending.zero_share)} never waited, ` +
        `99 % at most ${f.duration(s.run.summary.queue.p99_s)}`),
    "chart-gpus": (s) => `${f.percent(s.run.summary.utilisation)} on average`,
    "chart-serving": (s) => peakOf(s.run.gpus_serving),
    "chart-lent": (s) => (s.run.loans
      ? `${f.number(s.run.loans.gpu_seconds / 3600, 1)} GPU-hours, ${peakOf(s.run.gpus_lent)}` : peakOf(null)),
    "chart-queue": (s) => `at most ${f.figure(Math.max(0, ...s.run.queue_length.values))}`,
  };
  function captionOf(id) {
    return `${shown.map((s) => `${s.name}: ${captions[id](s)}`).join("; ")}.`;
  }
  function fillCaptions() {
    for (const [id, text] of Object.entries(captions)) {
      byId(id).querySelector("figcaption").replaceChildren(element("ul", {}, ...visible().map((s) => element("li", {},
        swatch(s.style, 18), element("span", { className: "name" }, s.name), " ", element("span", {}, text(s))))));
    }
  }

  // ---- series over time --------------------------------------------------------------------------------------------

  /** Wall time of time 0 in seconds if all runs of the view agree on it, else null. */
  function timeZero() {
    const zeros = distinct(shown.map((s) => s.run.time_zero));
    return zeros.length === 1 ? f.parseWallTime(zeros[0]) : null;
  }

  function drawSeries(id, seriesOf, { noun, reference, emptyText }) {
    const box = byId(id).querySelector(".chart");
    const drawn = shown.filter((s) => seriesOf(s.run) && seriesOf(s.run).values.length > 0 &&
      seriesOf(s.run).bucket_s > 0);
    if (drawn.length === 0) return emptyChart(box, emptyText);
    const steps = drawn.map((s) => {
      const { start_s: start, bucket_s: bucket, values } = seriesOf(s.run);
      const ends = start + values.length * bucket;
      return { xs: [...values.map((_, i) => start + i * bucket), ends], ys: [...values, null] };
    });
    const xs = f.union(steps.map((s) => s.xs));
    const top = Math.max(reference ? reference.at : 0, ...steps.flatMap((s) => s.ys));
    const zero = timeZero();
    const tickPixels = zero === null ? 70 : 84;
    return lineChart(box, {
      label: `${noun} over time, a line for each run. ${captionOf(id)}`,
      xs,
      lines: drawn.map((s, i) => ({ ...s, ys: xs.map((x) => f.stepAt(steps[i].xs, steps[i].ys, x, null)) })),
      height: 260,
      xSize: zero === null ? 28 : 42,
      xRange: [xs[0], xs[xs.length - 1]],
      xTicks: (from, to, pixels) => f.timeTicks(from, to, Math.max(1, pixels / tickPixels), zero),
      xText: (x) => f.moment(x, zero),
      yRange: [0, top > 0 ? top * 1.1 : 1],
      yText: (y) => f.number(y, 2),
      yValue: f.figure,
      reference,
      sync: "time",
    });
  }

  function drawCharts() {
    charts.forEach((chart) => chart.destroy());
    fillCaptions();
    const sizes = distinct(shown.map((s) => s.run.cluster_gpus));
    const reference = sizes.length === 1 && sizes[0] > 0
      ? { at: sizes[0], label: `capacity: ${plural(sizes[0], "GPU")}` } : null;
    charts = [
      drawCurve("chart-jct", (run) => run.jct, { withZero: false, noun: "Completion time" }),
      drawCurve("chart-pending", (run) => run.pending, { withZero: true, noun: "Pending time" }),
      drawSeries("chart-gpus", (run) => run.gpus_in_use,
        { noun: "GPUs in use", reference, emptyText: "The runs recorded no use of GPUs over time." }),
      drawSeries("chart-queue", (run) => run.queue_length,
        { noun: "Jobs waiting", emptyText: "The runs recorded no queue over time." }),
    ];
    const optional = [["chart-serving", (run) => run.gpus_serving, "GPUs of services"],
      ["chart-lent", (run) => run.gpus_lent, "GPUs lent to training"]];
    for (const [id, seriesOf, noun] of optional) {
      byId(id).hidden = !runs.some(seriesOf);
      if (byId(id).hidden) continue;
      charts.push(drawSeries(id, seriesOf, { noun, reference, emptyText: "None in these runs." }));
    }
    if (runs.some((run) => run.gpus_serving)) byId("gpus-title").textContent = "GPUs in use by training";
    for (const key of hidden) charts.forEach((chart) => chart.show(key, false));
  }

  // ---- what GPUs did, inference, loans -----------------------------------------------------------------------------

  function fillUsage() {
    ebbUsage.fillStates(byId("states"), visible());
    byId("states-section").hidden = !runs.some(ebbUsage.hasStates);
    ebbUsage.fillInference(byId("inference"), visible());
    ebbUsage.fillLoans(byId("loans"), visible());
    byId("inference-section").hidden = !runs.some((run) => run.inference);
    byId("loans-section").hidden = !runs.some((run) => run.loans);
  }

  // ---- job by job --------------------------------------------------------------------------------------------------

  let gantt = null;

  function drawGantt() {
    if (gantt) gantt.destroy();
    gantt = null;
    const s = shown.find((one) => String(one.index) === byId("gantt-run").value);
    byId("gantt").hidden = byId("gantt-key").hidden = !s;
    if (s) gantt = ebbGantt.draw(byId("gantt"), byId("gantt-key"), s.run, timeZero());
  }

  function fillGantt() {
    const rows = shown.filter((s) => s.run.histories && s.run.histories.length > 0);
    const select = byId("gantt-run");
    const before = select.value;
    select.replaceChildren(...rows.map((s) => element("option", { value: String(s.index) }, s.name)));
    if (rows.some((s) => String(s.index) === before)) select.value = before;
    byId("gantt-choice").hidden = rows.length < 2;
    byId("jobs-section").hidden = shown.every((s) => s.run.histories && s.run.histories.length === 0);
    byId("jobs-hint").textContent = rows.length > 0
      ? "A line for each training job in order of submission: thin where it waits, in a stronger colour the more GPUs " +
        "it is on. Point at it to read it."
      : `Drawn for runs of up to ${f.number(data.history_limits.jobs)} training jobs with up to ` +
        `${f.number(data.history_limits.spans)} changes of their GPUs; these have more.`;
    drawGantt();
  }

  // ---- tenants -----------------------------------------------------------------------------------------------------

  function tenantName(row) {
    if (row.folded > 0) return `${f.number(row.folded)} others`;
    return row.tenant || "(no tenant)";
  }

  function fillTenants() {
    const rows = view.tenants;
    const box = byId("tenants");
    const columns = shown.map((s, i) => ({ ...s, i, total: rows.reduce((sum, row) => sum + row.gpu_seconds[i], 0) }))
      .filter((c) => !hidden.has(c.key) && c.total > 0);
    if (rows.length === 0 || columns.length === 0) {
      byId("tenants-hint").textContent = rows.length === 0 ? "No job held a GPU in these runs." : "";
      box.replaceChildren();
      return;
    }
    const share = (row, c) => row.gpu_seconds[c.i] / c.total;
    const same = rows.every((row) => {
      const shares = columns.map((c) => share(row, c));
      return Math.max(...shares) - Math.min(...shares) < 0.0005;
    });
    const drawn = same ? columns.slice(0, 1) : columns;
    const names = same && columns.length > 1 ? `The shares are the same under all ${columns.length} runs shown.`
      : same ? `Under ${columns[0].name}.` : "A bar for each run, in the order of the legend.";
    const largest = rows.some((row) => row.folded > 0) ? ", the largest ten" : "";
    byId("tenants-hint").textContent = `Share of the GPU-seconds that jobs held, by tenant${largest}. ${names}`;
    const longest = Math.max(...rows.flatMap((row) => drawn.map((c) => share(row, c))));
    const table = element("table", { className: same ? "tenants same" : "tenants" },
      element("caption", { className: "visually-hidden" }, "GPU-seconds held by tenant"),
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Tenant"),
        element("td", {}),
        element("th", { scope: "col" }, "Share", element("span", { className: "wide-only" }, ", GPU-hours")))),
      element("tbody", {}, ...rows.map((row) => element("tr", {},
        element("th", { scope: "row", title: tenantName(row) }, tenantName(row)),
        element("td", { "aria-hidden": "true" }, ...drawn.map((c) => {
          const bar = element("span", { className: "bar" });
          bar.style.width = `${(100 * share(row, c)) / longest}%`;
          if (!same) bar.style.background = color(c.style);
          return bar;
        })),
        element("td", { className: "value" }, ...drawn.map((c) => element("div", {},
          element("span", { className: "visually-hidden" }, same ? "" : `${c.name}: `),
          f.percent(share(row, c)),
          element("span", { className: "wide-only" }, ` · ${f.number(row.gpu_seconds[c.i] / 3600, 0)}`))))))));
    box.replaceChildren(table);
  }

  // ---- warnings and origin -----------------------------------------------------------------------------------------

  function fillWarnings() {
    byId("warnings-section").hidden = data.warnings.length === 0;
    byId("warnings").replaceChildren(...data.warnings.map((warning) => element("li", {}, warning.text,
      runs.length === 1 ? "" : element("small", {}, warning.runs.length === runs.length ? "every run"
        : warning.runs.map((i) => runs[i].label).join("; ")))));
  }

  function fillPolicies() {
    const policies = new Map(runs.filter((run) => run.policy_summary).map((run) => [run.policy, run.policy_summary]));
    byId("policies-section").hidden = policies.size === 0;
    byId("policies").replaceChildren(...[...policies].flatMap(([policy, summary]) =>
      [element("dt", {}, policy), element("dd", {}, summary)]));
  }

  // What the runs were made with: said once where it is the same for all, else by run.
  function settingRows() {
    const names = distinct(runs.flatMap((run) => run.settings.map(([name]) => name)));
    const value = (run, name) => (run.settings.find(([n]) => n === name) ?? ["", "not recorded"])[1];
    return names.map((name) => {
      const values = distinct(runs.map((run) => value(run, name)));
      const text = values.length === 1 ? values[0] : runs.map((run) => `${run.label}: ${value(run, name)}`).join("; ");
      return [name[0].toUpperCase() + name.slice(1), text];
    });
  }

  function fillMade() {
    const list = (values) => distinct(values).join(", ");
    const zeros = distinct(runs.map((run) => run.time_zero));
    const rows = [
      ["Command", data.command ? element("code", {}, data.command) : "not recorded"],
      ["ebb version", data.ebb_version || "not recorded"],
      ["Cluster", list(runs.map((run) => `${run.cluster || "unnamed"} (${plural(run.cluster_gpus, "GPU")})`))],
      ["Time 0 of the trace", zeros.map((zero) => zero || "not dated: times count from the trace's time 0").join(", ")],
      ["Jobs in the trace", rangeText(runs.map((run) => run.summary.jobs_total), (n) => f.number(n))],
      ["Scheduler", `${rangeText(runs.map((run) => run.steps), plural, "decision step")}, ` +
        `${rangeText(runs.map((run) => run.events), plural, "event")}${runs.length > 1 ? " a run" : ""}`],
    ];
    rows.push(...settingRows().filter(([name]) => !["Policy", "Cluster"].includes(name)));
    byId("made").replaceChildren(
      ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  }

  // ---- all together ------------------------------------------------------------------------------------------------

  function fillView() {
    fillLegend();
    fillSummary();
    fillGlance();
    fillTable();
    drawCharts();
    fillUsage();
    fillGantt();
    fillTenants();
    document.body.dataset.charts = String(ebbCharts.drawn());
  }

  byId("gantt-run").addEventListener("change", drawGantt);
  fillHeader();
  fillViews();
  fillWarnings();
  fillPolicies();
  fillMade();
  fillView();
  ebbCharts.darkQuery.addEventListener("change", fillView);
  // Paper is white whatever the screen is.
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.theme = "light";
    fillView();
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.theme;
    fillView();
  });
  document.body.dataset.ready = "true";
})();
