// Line charts of the report on top of uPlot: colours and dashes of runs, direct read-out by pointer and keyboard, steps
// on axes whose ticks people can read. Knows nothing of runs beyond {name, style}.
"use strict";

const ebbCharts = (() => {
  // Eight hues that stay apart with the common kinds of colour blindness (after Okabe and Ito's set), each darkened or
  // lightened for its ground; dashes tell them apart without any colour.
  const PALETTES = {
    light: ["#0068b5", "#d1550a", "#008561", "#b3478f", "#a87700", "#4c5561", "#3d9bd9", "#7a48b8"],
    dark: ["#58b0ff", "#ff9153", "#36cda3", "#f08ac6", "#efc04a", "#c3cad3", "#9ad8ff", "#b99cff"],
  };
  const DASHES = [[], [9, 4], [3, 3], [11, 3, 3, 3], [6, 3], [15, 4], [2, 4], [11, 3, 3, 3, 3, 3]];
  const INKS = {
    light: { text: "#55606e", grid: "#e8ebef", reference: "#1b2430", paper: "#ffffff" },
    dark: { text: "#a3adb9", grid: "#2a313b", reference: "#e8ebef", paper: "#14181e" },
  };
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", Arial, sans-serif';

  const darkQuery = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => (document.documentElement.dataset.theme || (darkQuery.matches ? "dark" : "light"));
  const color = (style) => PALETTES[theme()][style % 8];
  // The ninth run and later ones reuse a colour with another dash.
  const dash = (style) => DASHES[(style + Math.floor(style / 8)) % 8];

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(properties)) {
      if (key in made) made[key] = value; else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  /** A short piece of a run's line, as the legend shows it. */
  function swatch(style, width = 26) {
    const namespace = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(namespace, "svg");
    const line = document.createElementNS(namespace, "line");
    const set = (node, attributes) => Object.entries(attributes).forEach(([k, v]) => node.setAttribute(k, v));
    set(svg, { class: "swatch", width, height: 10, "aria-hidden": "true" });
    set(line, { x1: 0, x2: width, y1: 5, y2: 5, stroke: color(style), "stroke-width": 2.5,
      "stroke-dasharray": dash(style).join(" ") });
    svg.append(line);
    return svg;
  }

  const charts = new Set();

  /**
   * Draws lines that are step functions into `box`.
   * spec: {label, xs, lines: [{name, style, key, ys}], height, xRange: [low, high], xTicks(low, high, pixels) -> [{at,
   * label}], xText(x), yRange, yText(y) (axis), yValue(y) (read-out), yTicks?, reference?: {at, label}, sync?: key,
   * dots?: [{x, y, style, key}]}. Returns {show(key, on), focus(key or null), destroy()}.
   */
  function lineChart(box, spec) {
    box.replaceChildren();
    box.classList.remove("empty");
    const readout = element("div", { className: "readout", hidden: true });
    const spoken = element("div", { className: "visually-hidden", "aria-live": "polite" });
    const hidden = new Set();
    let focused = null;

    const faded = (line) => focused !== null && line.key !== focused;
    const withAlpha = (line) => color(line.style) + (faded(line) ? "30" : "");
    const steps = uPlot.paths.stepped({ align: 1 });
    const ink = (name) => () => INKS[theme()][name];

    const axis = {
      stroke: ink("text"), font: FONT, ticks: { show: false }, grid: { stroke: ink("grid"), width: 1 },
    };
    const xTicks = (u, low, high) => spec.xTicks(low, high, u.bbox.width / devicePixelRatio);
    const options = {
      width: Math.max(box.clientWidth, 200),
      height: spec.height,
      padding: [10, 22, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: true },
        sync: spec.sync ? { key: spec.sync, setSeries: false } : undefined,
      },
      scales: { x: { time: false, range: (_, low, high) => [low, high] }, y: { range: () => spec.yRange } },
      axes: [
        { ...axis, size: spec.xSize, gap: 6,
          splits: (u, _, low, high) => xTicks(u, low, high).map((tick) => tick.at),
          values: (u, splits) => {
            const { min, max } = u.scales.x;
            const labels = new Map(xTicks(u, min, max).map((tick) => [tick.at, tick.label]));
            return splits.map((at) => labels.get(at) || "");
          } },
        { ...axis, size: 56, gap: 6, values: (_, splits) => splits.map(spec.yText),
          ...(spec.yTicks ? { splits: () => spec.yTicks } : {}) },
      ],
      series: [
        {},
        ...spec.lines.map((line) => ({
          label: line.name,
          stroke: () => withAlpha(line),
          width: 1.75,
          dash: dash(line.style),
          paths: steps,
          points: { show: false },
        })),
      ],
      hooks: {
        drawClear: [(u) => drawReference(u, spec.reference)],
        draw: [(u) => drawDots(u, (spec.dots || []).filter((dot) => !hidden.has(dot.key)))],
        setCursor: [(u) => showReadout(u)],
      },
    };
    const plot = new uPlot(options, [spec.xs, ...spec.lines.map((line) => line.ys)], box);
    plot.setScale("x", { min: spec.xRange[0], max: spec.xRange[1] });
    // uPlot's double click shows all the data; here, the whole axis.
    plot.over.addEventListener("dblclick", () =>
      setTimeout(() => plot.setScale("x", { min: spec.xRange[0], max: spec.xRange[1] })));
    plot.over.append(readout);
    box.append(spoken);

    function valuesAt(x) {
      const rows = [];
      spec.lines.forEach((line) => {
        if (hidden.has(line.key)) return;
        rows.push([line, ebbFormat.stepAt(spec.xs, line.ys, x, null)]);
      });
      return rows;
    }

    function showReadout(u) {
      const { left } = u.cursor;
      if (left === null || left === undefined || left < 0) {
        readout.hidden = true;
        return;
      }
      const x = u.posToVal(left, "x");
      readout.replaceChildren(element("div", { className: "at" }, spec.xText(x)));
      for (const [line, y] of valuesAt(x)) {
        readout.append(element("div", { className: "row" }, swatch(line.style, 18), element("span", {}, line.name),
          element("span", { className: "value" }, y === null || y === undefined ? "–" : spec.yValue(y))));
      }
      readout.hidden = false;
      const width = u.over.clientWidth;
      const onLeft = left > width / 2;
      readout.style.top = "8px";
      readout.style.left = onLeft ? "auto" : `${left + 14}px`;
      readout.style.right = onLeft ? `${width - left + 14}px` : "auto";
    }

    // The same read-out by keyboard: arrows move it, Escape ends it.
    box.tabIndex = 0;
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", spec.label);
    box.onkeydown = (event) => {
      const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") plot.setCursor({ left: -10, top: -10 });
      if (!direction) return;
      event.preventDefault();
      const width = plot.over.clientWidth;
      const from = plot.cursor.left >= 0 ? plot.cursor.left : direction > 0 ? -width / 50 : width;
      const left = Math.min(width - 1, Math.max(0, from + (direction * width) / (event.shiftKey ? 10 : 50)));
      plot.setCursor({ left, top: plot.over.clientHeight / 2 });
      const x = plot.posToVal(left, "x");
      spoken.textContent = `${spec.xText(x)}: ` +
        valuesAt(x).map(([line, y]) => `${line.name} ${y === null ? "nothing" : spec.yValue(y)}`).join(", ");
    };
    box.onblur = () => plot.setCursor({ left: -10, top: -10 });

    const resize = new ResizeObserver(() => {
      const width = Math.max(box.clientWidth, 200);
      if (Math.abs(width - plot.width) >= 1) plot.setSize({ width, height: spec.height });
    });
    resize.observe(box);

    const chart = {
      show(key, on) {
        if (on) hidden.delete(key); else hidden.add(key);
        spec.lines.forEach((line, i) => {
          if (line.key === key) plot.setSeries(i + 1, { show: on });
        });
      },
      focus(key) {
        focused = key;
        plot.redraw(false);
      },
      destroy() {
        resize.disconnect();
        plot.destroy();
        charts.delete(chart);
        box.replaceChildren();
      },
    };
    charts.add(chart);
    return chart;
  }

  /** A level that lines can be read against, such as the cluster's size. */
  function drawReference(u, reference) {
    if (!reference) return;
    const { ctx } = u;
    const ratio = devicePixelRatio;
    const y = Math.round(u.valToPos(reference.at, "y", true));
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = INKS[theme()].reference;
    ctx.lineWidth = ratio;
    ctx.setLineDash([2 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(u.bbox.left, y);
    ctx.lineTo(u.bbox.left + u.bbox.width, y);
    ctx.stroke();
    ctx.font = FONT.replace("12px", `${12 * ratio}px`);
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    ctx.fillText(reference.label, u.bbox.left + u.bbox.width, y - 3 * ratio);
    ctx.restore();
  }

  function drawDots(u, dots) {
    const { ctx } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.setLineDash([]);
    for (const dot of dots) {
      ctx.beginPath();
      ctx.arc(u.valToPos(dot.x, "x", true), u.valToPos(dot.y, "y", true), 4 * ratio, 0, 2 * Math.PI);
      ctx.fillStyle = color(dot.style);
      ctx.strokeStyle = INKS[theme()].paper;
      ctx.lineWidth = 1.5 * ratio;
      ctx.fill();
      ctx.stroke();
    }
    ctx.restore();
  }

  /** In the place of a chart that has nothing to show. */
  function emptyChart(box, text) {
    box.classList.add("empty");
    box.removeAttribute("role");
    box.removeAttribute("aria-label");
    box.removeAttribute("tabindex");
    box.replaceChildren(text);
    return { show() {}, focus() {}, destroy() { box.replaceChildren(); } };
  }

  return { color, darkQuery, element, emptyChart, lineChart, swatch, drawn: () => charts.size };
})();
