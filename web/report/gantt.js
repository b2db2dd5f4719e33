// The chart of a run's jobs: a row for each, on how many GPUs it was when, and where it waited. One canvas, read by
// pointer and by keyboard. Job names come from traces: they are only ever set as text.
"use strict";

const ebbGantt = (() => {
  const f = ebbFormat;
  const { darkQuery, element } = ebbCharts;
  const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", Arial, sans-serif';
  const LOOKS = {
    light: { from: [178, 213, 245], to: [8, 48, 107], wait: "#c9ced6", text: "#55606e", grid: "#e8ebef",
      mark: "#d1550a" },
    dark: { from: [38, 84, 128], to: [190, 224, 255], wait: "#4a535f", text: "#a3adb9", grid: "#2a313b",
      mark: "#ff9153" },
  };
  const look = () => LOOKS[document.documentElement.dataset.theme || (darkQuery.matches ? "dark" : "light")];

  const REASONS = {
    waiting_for_tick: "for the next round", no_capacity: "too few GPUs were free",
    fragmented: "enough GPUs were free, but not together", behind_head: "an earlier job blocked the queue",
    reserved_for_head: "it would have delayed the head of the queue",
    lower_priority: "jobs that go first held the GPUs", impossible: "the cluster can never hold it",
  };

  /** [{name, from, to, spans: [{from, to, gpus, reason}]}] of a run. */
  function jobsOf(run) {
    return run.histories.map(([name, from, flat]) => {
      const spans = [];
      for (let i = 0, at = from; i < flat.length; i += 3) {
        spans.push({ from: at, to: flat[i], gpus: flat[i + 1], reason: flat[i + 2] || "" });
        at = flat[i];
      }
      return { name, from, to: spans.length ? spans[spans.length - 1].to : from, spans };
    });
  }

  // Classes of sizes: 1, 2-3, 4-7, ...
  const classOf = (gpus) => Math.floor(Math.log2(Math.max(gpus, 1)));
  const className = (c) => (c === 0 ? "1 GPU" : `${f.number(2 ** c)}–${f.number(2 ** (c + 1) - 1)} GPUs`);
  function colorOf(c, largest) {
    const { from, to } = look();
    const share = largest > 0 ? c / largest : 0.5;
    return `rgb(${from.map((v, i) => Math.round(v + (to[i] - v) * share)).join(" ")})`;
  }

  function spanText(job, span, zero) {
    const what = span.gpus > 0 ? `on ${f.number(span.gpus)} ${span.gpus === 1 ? "GPU" : "GPUs"}`
      : `waited${span.reason ? `: ${REASONS[span.reason] || span.reason}` : ""}`;
    return [job.name, what, `${f.moment(span.from, zero)}, for ${f.duration(span.to - span.from)}`];
  }

  /** Draws the jobs of `run` into `box`, its key into `legend`. Returns {destroy()}. */
  function draw(box, legend, run, zero) {
    const jobs = jobsOf(run);
    const start = Math.min(...jobs.map((job) => job.from));
    const end = Math.max(...jobs.map((job) => job.to), start + 1e-6);
    const largest = Math.max(0, ...jobs.flatMap((job) => job.spans.map((span) => classOf(span.gpus))));
    const rowHeight = Math.max(4, Math.min(18, Math.floor(900 / jobs.length)));
    const withNames = rowHeight >= 12;
    const axisHeight = zero === null ? 20 : 34;
    const canvas = element("canvas", { "aria-hidden": "true" });
    const readout = element("div", { className: "readout", hidden: true });
    const spoken = element("div", { className: "visually-hidden", "aria-live": "polite" });
    let chosen = null;  // {row, index}

    box.replaceChildren(canvas, readout, spoken);
    box.tabIndex = 0;
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${f.number(jobs.length)} jobs over time; arrow keys up and down choose a job, ` +
      "left and right a part of its life.");
    legend.replaceChildren(...[["waiting", look().wait, "wait"],
      ...Array.from({ length: largest + 1 }, (_, c) => [className(c), colorOf(c, largest), ""])]
      .filter(([name], i) => i === 0 || jobs.some((job) => job.spans.some((span) =>
        span.gpus > 0 && className(classOf(span.gpus)) === name)))
      .map(([name, background, kind]) => {
        const mark = element("span", { className: `mark ${kind}`, "aria-hidden": "true" });
        mark.style.background = background;
        return element("span", {}, mark, name);
      }));

    const width = () => Math.max(box.clientWidth, 200);
    const left = () => (withNames && width() > 600 ? 130 : 4);
    const right = () => width() - 8;
    const xOf = (seconds) => left() + ((seconds - start) / (end - start)) * (right() - left());

    function paintRow(ctx, job, row) {
      const y = row * rowHeight;
      const bar = Math.max(rowHeight - (rowHeight > 6 ? 2 : 1), 2);
      for (const span of job.spans) {
        const x = xOf(span.from);
        const length = Math.max(xOf(span.to) - x, 0.5);
        ctx.fillStyle = span.gpus > 0 ? colorOf(classOf(span.gpus), largest) : look().wait;
        if (span.gpus > 0) ctx.fillRect(x, y, length, bar);
        else ctx.fillRect(x, y + bar / 2 - Math.max(bar / 8, 0.5), length, Math.max(bar / 4, 1));
      }
    }

    function clipped(ctx, text, most) {
      if (ctx.measureText(text).width <= most) return text;
      let length = Math.min(text.length, 60);
      while (length > 1 && ctx.measureText(`${text.slice(0, length)}…`).width > most) --length;
      return `${text.slice(0, length)}…`;
    }

    function paint() {
      const ratio = devicePixelRatio;
      const height = jobs.length * rowHeight + axisHeight;
      canvas.width = Math.round(width() * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width()}px`;
      canvas.style.height = `${height}px`;
      const ctx = canvas.getContext("2d");
      ctx.scale(ratio, ratio);
      ctx.font = FONT;
      const bottom = jobs.length * rowHeight;
      for (const { at, label } of f.timeTicks(start, end, Math.max(1, (right() - left()) / 84), zero)) {
        ctx.fillStyle = look().grid;
        ctx.fillRect(Math.round(xOf(at)), 0, 1, bottom);
        ctx.fillStyle = look().text;
        ctx.textBaseline = "top";
        ctx.textAlign = xOf(at) > right() - 30 ? "right" : xOf(at) < left() + 30 ? "left" : "center";
        label.split("\n").forEach((line, i) => ctx.fillText(line, xOf(at), bottom + 4 + 14 * i));
      }
      jobs.forEach((job, row) => paintRow(ctx, job, row));
      if (left() > 4) {
        ctx.fillStyle = look().text;
        ctx.textAlign = "right";
        ctx.textBaseline = "middle";
        jobs.forEach((job, row) => ctx.fillText(clipped(ctx, job.name, left() - 10), left() - 6,
          row * rowHeight + rowHeight / 2 - 1));
      }
      if (chosen) {
        const span = jobs[chosen.row].spans[chosen.index];
        ctx.strokeStyle = look().mark;
        ctx.lineWidth = 1.5;
        ctx.strokeRect(xOf(span.from) - 1, chosen.row * rowHeight - 1, Math.max(xOf(span.to) - xOf(span.from), 1) + 2,
          rowHeight);
      }
    }

    function choose(row, index) {
      chosen = row === null ? null : { row, index };
      paint();
      readout.hidden = chosen === null;
      if (chosen === null) return "";
      const span = jobs[row].spans[index];
      const [name, what, when] = spanText(jobs[row], span, zero);
      readout.replaceChildren(element("div", { className: "name" }, name), element("div", {}, what),
        element("div", { className: "at" }, when));
      const x = Math.min(Math.max(xOf((span.from + span.to) / 2), left()), right());
      const onLeft = x > width() / 2;
      readout.style.left = onLeft ? "auto" : `${x + 12}px`;
      readout.style.right = onLeft ? `${width() - x + 12}px` : "auto";
      readout.style.top = `${row * rowHeight + rowHeight + 6}px`;
      return `${name}: ${what}; ${when}`;
    }

    canvas.onpointermove = (event) => {
      const bounds = canvas.getBoundingClientRect();
      const row = Math.floor((event.clientY - bounds.top) / rowHeight);
      const x = event.clientX - bounds.left;
      const seconds = start + ((x - left()) / (right() - left())) * (end - start);
      const spans = row >= 0 && row < jobs.length ? jobs[row].spans : [];
      const index = spans.findIndex((span) => span.from <= seconds && seconds < span.to);
      if (index < 0) {
        if (chosen) choose(null);
      } else if (!chosen || chosen.row !== row || chosen.index !== index) {
        choose(row, index);
      }
    };
    canvas.onpointerleave = () => choose(null);
    box.onblur = () => choose(null);
    box.onkeydown = (event) => {
      if (event.key === "Escape") choose(null);
      const [down, across] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ||
        [0, 0];
      if (down === 0 && across === 0) return;
      event.preventDefault();
      const clamp = (v, most) => Math.max(0, Math.min(v, most));
      const row = chosen ? clamp(chosen.row + down, jobs.length - 1) : 0;
      const index = chosen && down === 0 ? clamp(chosen.index + across, jobs[row].spans.length - 1) : 0;
      spoken.textContent = choose(row, index);
    };

    paint();
    let drawnAt = width();
    const resize = new ResizeObserver(() => {
      if (Math.abs(width() - drawnAt) < 1) return;
      drawnAt = width();
      paint();
    });
    resize.observe(box);
    return {
      destroy() {
        resize.disconnect();
        canvas.onpointermove = canvas.onpointerleave = box.onblur = box.onkeydown = null;
        box.replaceChildren();
      },
    };
  }

  return { draw, jobsOf };
})();
