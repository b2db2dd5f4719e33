// Numbers, durations and axis ticks of the report: pure functions, tested by format.test.js.
"use strict";

const ebbFormat = (() => {
  const MINUTE = 60;
  const HOUR = 3600;
  const DAY = 86400;
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const NONE = "–";

  const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
  const two = (n) => String(n).padStart(2, "0");

  /** 1234567 -> "1,234,567"; at most `digits` decimals, without trailing zeros. */
  function number(x, digits = 0) {
    if (!isNumber(x)) return NONE;
    const [whole, fraction = ""] = Math.abs(x).toFixed(digits).split(".");
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
    const rest = fraction.replace(/0+$/, "");
    const text = rest ? `${grouped}.${rest}` : grouped;
    return x < 0 && text !== "0" ? `-${text}` : text;
  }

  /** About three significant digits, for read-outs: 0.123, 12.3, 1,234. */
  function figure(x) {
    if (!isNumber(x)) return NONE;
    const size = Math.abs(x);
    return number(x, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
  }

  /** A share 0..1 as "12.0 %". Close to 0 and 100 it keeps a digit more, so that "100 %" means all. */
  function percent(share, digits = 1) {
    if (!isNumber(share)) return NONE;
    const exact = share <= 0 || share >= 1;
    const extra = !exact && (share < 0.001 || share > 0.999) ? digits + 1 : digits;
    return `${(share * 100).toFixed(exact ? 0 : extra)} %`;
  }

  /** Seconds for people, as ebb prints them: "3d 04h", "2h 05m", "5m 30s", "45.3 s", "120 ms". */
  function duration(seconds) {
    if (!isNumber(seconds)) return NONE;
    if (seconds < 0) return `-${duration(-seconds)}`;
    if (seconds === 0) return "0 s";
    if (seconds < 1) return `${(seconds * 1000).toFixed(0)} ms`;
    if (seconds < 2 * MINUTE) return `${seconds.toFixed(1)} s`;
    const minutes = Math.floor(seconds / MINUTE);
    if (minutes < 120) return `${minutes}m ${two(Math.floor(seconds) % 60)}s`;
    if (minutes < 48 * 60) return `${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
    return `${Math.floor(minutes / (24 * 60))}d ${two(Math.floor(minutes / 60) % 24)}h`;
  }

  /** "2017-10-03 14:00:05" (also with "T", without seconds or time) -> seconds since 1970 of that wall clock; null for
   *  anything else. A zone after it is not looked at: wall times are shown as the trace has them. */
  function parseWallTime(text) {
    const match = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?/.exec(text || "");
    if (!match) return null;
    const [year, month, day, hour, minute, second] = match.slice(1).map((part) => Number(part || 0));
    return Date.UTC(year, month - 1, day, hour, minute, second) / 1000;
  }

  /** A point in time for a read-out: "3 Oct 2017 14:00" if `zero` (from parseWallTime) is known, else
   *  "day 3, 14:00". */
  function moment(seconds, zero) {
    if (zero === null) {
      const day = Math.floor(seconds / DAY);
      const rest = seconds - day * DAY;
      return `day ${day}, ${two(Math.floor(rest / HOUR))}:${two(Math.floor(rest / MINUTE) % 60)}`;
    }
    const date = new Date((zero + seconds) * 1000);
    return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()} ` +
      `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  }

  const DURATION_TICKS = [
    [0.001, "1 ms"], [0.01, "10 ms"], [0.1, "100 ms"], [1, "1 s"], [10, "10 s"], [60, "1 min"], [600, "10 min"],
    [3600, "1 h"], [36000, "10 h"], [86400, "1 d"], [864000, "10 d"], [8640000, "100 d"], [86400000, "1,000 d"],
  ];

  /** Ticks of a logarithmic axis of durations: [{at: log10 of seconds, label}] within log10 bounds, at least `apart`
   *  (in the same logarithm) from each other. */
  function durationTicks(low, high, apart = 0) {
    const ticks = [];
    for (const [seconds, label] of DURATION_TICKS) {
      const at = Math.log10(seconds);
      if (at < low || at > high) continue;
      if (ticks.length === 0 || at - ticks[ticks.length - 1].at >= apart) ticks.push({ at, label });
    }
    return ticks;
  }

  const STEPS = [1, 5, 15, 30, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR,
    12 * HOUR, DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY];
  const LONG_STEPS = [28 * DAY, 56 * DAY, 140 * DAY, 280 * DAY, 700 * DAY, 1400 * DAY, 3500 * DAY];
  const MONTH_STEPS = [1, 2, 3, 6, 12, 24, 60, 120];

  /** Ticks of a time axis [{at: seconds since time 0, label}], at most about `count` of them. With a known time 0 they
   *  stand at round wall times and the label has a second line where the day or the year changes. */
  function timeTicks(low, high, count, zero) {
    if (!(high > low) || !(count >= 1)) return [];
    const wanted = (high - low) / count;
    const step = STEPS.find((s) => s >= wanted);
    if (zero === null) {
      return relativeTicks(low, high, step || LONG_STEPS.find((s) => s >= wanted) || LONG_STEPS[LONG_STEPS.length - 1]);
    }
    return step ? datedTicks(low, high, step, zero) : monthTicks(low, high, wanted, zero);
  }

  function relativeTicks(low, high, step) {
    const [unit, name] = step >= DAY || high - low > 4 * DAY ? [DAY, "d"]
      : step >= HOUR ? [HOUR, "h"] : step >= MINUTE ? [MINUTE, "min"] : [1, "s"];
    const ticks = [];
    for (let i = Math.ceil(low / step); i * step <= high; ++i) {
      ticks.push({ at: i * step, label: i === 0 ? "0" : `${number((i * step) / unit, 2)} ${name}` });
    }
    return ticks;
  }

  function datedTicks(low, high, step, zero) {
    const ticks = [];
    let last = null;
    // 1970-01-01 was a Thursday: weekly steps stand on Mondays.
    const origin = step >= 7 * DAY ? 4 * DAY : 0;
    for (let i = Math.ceil((low + zero - origin) / step); i * step + origin - zero <= high; ++i) {
      const date = new Date((i * step + origin) * 1000);
      const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
      const year = date.getUTCFullYear();
      const clock = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
      const label = step >= DAY ? day : step >= MINUTE ? clock : `${clock}:${two(date.getUTCSeconds())}`;
      const under = step >= DAY ? String(year) : last === null ? `${day} ${year}` : day;
      const key = step >= DAY ? String(year) : day;
      ticks.push({ at: i * step + origin - zero, label: key === last ? label : `${label}\n${under}` });
      last = key;
    }
    return ticks;
  }

  function monthTicks(low, high, wanted, zero) {
    const step = MONTH_STEPS.find((months) => months * 30.4 * DAY >= wanted) || MONTH_STEPS[MONTH_STEPS.length - 1];
    const start = new Date((low + zero) * 1000);
    const ticks = [];
    let lastYear = null;
    for (let month = Math.floor((start.getUTCFullYear() * 12 + start.getUTCMonth()) / step) * step;; month += step) {
      const at = Date.UTC(Math.floor(month / 12), month % 12, 1) / 1000 - zero;
      if (at > high) return ticks;
      if (at < low) continue;
      const year = Math.floor(month / 12);
      const label = step >= 12 ? String(year) : MONTHS[month % 12];
      ticks.push({ at, label: step >= 12 || year === lastYear ? label : `${label}\n${year}` });
      lastYear = year;
    }
  }

  /** The value of a step function given by rising `xs` and its `ys` from there on: `before` left of the first. */
  function stepAt(xs, ys, x, before) {
    let low = 0;
    let high = xs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle + 1; else high = middle;
    }
    return low === 0 ? before : ys[low - 1];
  }

  /** Rising numbers of several rising lists, each once. */
  function union(lists) {
    return Array.from(new Set(lists.flat())).sort((a, b) => a - b);
  }

  /** Indices of `rows` by `key`, numbers and texts; rows without a value come last either way. Stable. */
  function sortedIndices(rows, key, descending) {
    const sign = descending ? -1 : 1;
    const missing = (v) => v === null || v === undefined;
    return rows.map((_, i) => i).sort((a, b) => {
      const [x, y] = [key(rows[a]), key(rows[b])];
      if (missing(x) || missing(y)) return missing(x) - missing(y) || a - b;
      if (x === y) return a - b;
      if (typeof x === "string") return sign * x.localeCompare(y, "en", { numeric: true });
      return sign * (x - y);
    });
  }

  return {
    DAY, HOUR, duration, durationTicks, figure, moment, number, parseWallTime, percent, sortedIndices, stepAt,
    timeTicks, union,
  };
})();

if (typeof module !== "undefined") module.exports = ebbFormat;
