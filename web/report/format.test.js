"use strict";

const assert = require("node:assert/strict");
const test = require("node:test");
const f = require("./format.js");

const labels = (ticks) => ticks.map((t) => t.label);

test("numbers are grouped and lose trailing zeros", () => {
  assert.equal(f.number(1234567), "1,234,567");
  assert.equal(f.number(12.5, 2), "12.5");
  assert.equal(f.number(-0.001, 2), "0");
  assert.equal(f.number(null), "–");
  assert.equal(f.figure(12.345), "12.3");
});

test("a share just below all is not shown as all", () => {
  assert.equal(f.percent(1), "100 %");
  assert.equal(f.percent(0.9996), "99.96 %");
  assert.equal(f.percent(0.5), "50.0 %");
  assert.equal(f.percent(0.5, 0), "50 %");
  assert.equal(f.percent(0), "0 %");
});

test("durations read as ebb prints them", () => {
  assert.equal(f.duration(0), "0 s");
  assert.equal(f.duration(0.12), "120 ms");
  assert.equal(f.duration(45.31), "45.3 s");
  assert.equal(f.duration(330), "5m 30s");
  assert.equal(f.duration(7500), "2h 05m");
  assert.equal(f.duration(3 * f.DAY + 4 * f.HOUR), "3d 04h");
});

test("wall times of traces are read in their usual spellings", () => {
  assert.equal(f.parseWallTime("1970-01-02 00:00:10"), 86410);
  assert.equal(f.parseWallTime("1970-01-02T00:00:10Z"), 86410);
  assert.equal(f.parseWallTime("1970-01-02"), 86400);
  assert.equal(f.parseWallTime(""), null);
  assert.equal(f.parseWallTime("monday"), null);
});

test("moments name the date if there is one, else the day since time 0", () => {
  assert.equal(f.moment(3600, f.parseWallTime("2017-10-03 13:00:00")), "3 Oct 2017 14:00");
  assert.equal(f.moment(2 * f.DAY + 90 * 60, null), "day 2, 01:30");
});

test("duration ticks stay within bounds and apart", () => {
  assert.deepEqual(labels(f.durationTicks(0, Math.log10(3600))), ["1 s", "10 s", "1 min", "10 min", "1 h"]);
  assert.deepEqual(labels(f.durationTicks(0, Math.log10(3600), 1)), ["1 s", "10 s", "10 min"]);
});

test("relative time ticks count in one unit from time 0", () => {
  assert.deepEqual(labels(f.timeTicks(0, 10 * f.HOUR, 5, null)), ["0", "2 h", "4 h", "6 h", "8 h", "10 h"]);
  assert.deepEqual(labels(f.timeTicks(0, 21 * f.DAY, 4, null)), ["0", "7 d", "14 d", "21 d"]);
  assert.deepEqual(f.timeTicks(5, 5, 4, null), []);
});

test("dated ticks stand at round wall times", () => {
  const zero = f.parseWallTime("2017-10-03 22:30:00");
  const hours = f.timeTicks(0, 6 * f.HOUR, 3, zero);
  assert.deepEqual(labels(hours), ["00:00\n4 Oct 2017", "02:00", "04:00"]);
  assert.equal(hours[0].at, 5400);
  assert.deepEqual(labels(f.timeTicks(0, 3 * f.DAY, 3, zero)), ["4 Oct\n2017", "5 Oct", "6 Oct"]);
  assert.deepEqual(labels(f.timeTicks(0, 150 * f.DAY, 5, zero)), ["Nov\n2017", "Dec", "Jan\n2018", "Feb", "Mar"]);
});

test("weekly ticks stand on Mondays", () => {
  const zero = f.parseWallTime("2017-10-03 00:00:00");
  for (const { at } of f.timeTicks(0, 30 * f.DAY, 5, zero)) assert.equal(new Date((zero + at) * 1000).getUTCDay(), 1);
});

test("a step function holds its value until the next point", () => {
  const at = (x) => f.stepAt([1, 3], [10, 20], x, 0);
  assert.deepEqual([0, 1, 2.9, 3, 99].map(at), [0, 10, 10, 20, 20]);
});

test("rows sort by numbers and texts, the missing ones last both ways", () => {
  const rows = [2, null, 10, 1];
  assert.deepEqual(f.sortedIndices(rows, (r) => r, false), [3, 0, 2, 1]);
  assert.deepEqual(f.sortedIndices(rows, (r) => r, true), [2, 0, 3, 1]);
  assert.deepEqual(f.sortedIndices(["load 10", "load 2"], (r) => r, false), [1, 0]);
});
