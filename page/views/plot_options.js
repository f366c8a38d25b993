/** How uPlot draws a chart: its lines, axes, background and marks. */
import { clock, day, month, number, second, shown, zoned } from "../lib/format.js";
import { t, variableName } from "../lib/i18n.js";
import { status, variableOf } from "../lib/live.js";
import { levelText } from "../lib/reading.js";
import { holderOf } from "../lib/verdict.js";
import { markOf, MARKS } from "./event.js";

export const LANE = 22; // px of an output
const AXIS = 46; // px
const FONT = "12px system-ui";
const IGNORED = ["mousedown", "mouseup", "mousemove", "mouseenter", "mouseleave", "click", "dblclick"]; // `Gestures` hears them

/** The options of a uPlot for `plots`; it calls back for scales and colours at each drawing. */
export function options(plots) {
  const { uPlot, variables, lanes } = plots;
  const isNarrow = plots.width < 600;
  const colour = (key) => () => plots.colours[key];
  const paths = uPlot.paths.stepped({ align: 1, alignGaps: 1 });
  const line = (scale, key, more) => ({ scale, stroke: colour(key), width: 1.8, points: { show: false }, paths, ...more });
  const lines = variables.flatMap((name, i) => {
    const [scale, key] = [`v${i}`, `s${i + 1}`];
    const { manual } = variableOf(plots.environment, name);
    const hidden = line(scale, "none", { width: 0 });
    return [line(scale, key, { points: manual ? { show: true, size: 6 } : {} }), hidden, hidden, line(scale, key, { width: 1.2, dash: [6, 4] }), line(scale, `f${i + 1}`, { width: 1.5 })];
  });
  const bars = lanes.flatMap((_, n) => ["faintLane", "lane"].map((key) => line("lanes", "none", { width: 0, fill: colour(key), fillTo: () => lanes.length - 1 - n })));
  const grid = { stroke: colour("line"), width: 1 };
  const time = { stroke: colour("faint"), font: FONT, grid, ticks: { show: false }, size: 28, space: isNarrow ? 64 : 80, values: (_, times, __, ___, step) => times.map((each) => timeLabel(each, step)) };
  return {
    tzDate: zoned,
    width: plots.width,
    height: plots.box.clientHeight,
    legend: { show: false },
    padding: [14, variables.length > 1 ? 0 : 8, 0, variables.length ? 0 : 8],
    scales: {
      x: { auto: false, range: () => [plots.view.value.start, plots.view.value.end] },
      lanes: { range: () => [0, Math.max(1, plots.height / LANE)] },
      ...Object.fromEntries(variables.map((name, i) => [`v${i}`, { range: () => above(plots, rangeOf(plots, name)) }])),
    },
    cursor: { y: false, drag: { x: false }, points: { show: false }, bind: Object.fromEntries(IGNORED.map((event) => [event, () => null])) },
    axes: [time, ...variables.slice(0, isNarrow ? 2 : 4).map((name, i) => axis(plots, name, i, i ? { show: false } : grid))],
    series: [{}, ...lines, ...bars],
    bands: variables.map((_, i) => ({ series: [5 * i + 3, 5 * i + 2], fill: colour(`b${i + 1}`) })),
    hooks: { drawClear: [(plot) => drawLight(plots, plot)], draw: [(plot) => drawMarks(plots, plot, lanes)] },
  };
}

/** The axis of a variable in its colour, left and right in turn. */
function axis(plots, name, i, grid) {
  const { unit } = variableOf(plots.environment, name);
  const only = (_, splits) => splits.map((value) => (value >= rangeOf(plots, name)[0] - 1e-9 ? value : null)); // none beside the outputs
  const text = (value, step) => (unit === "switch" ? levelText({ variable: name, unit }, value) : number(value, (String(step).split(".")[1] ?? "").length));
  return {
    scale: `v${i}`, side: i % 2 ? 1 : 3, stroke: () => plots.colours[`s${i + 1}`], font: FONT, size: AXIS, gap: 3, space: 34, ticks: { show: false },
    grid: { filter: only, ...grid }, filter: only, ...(unit === "switch" && { splits: () => [0, 1] }),
    values: (_, values, __, ___, step) => values.map((value) => (value === null || !plots.span(name) ? "" : text(value, step))),
  };
}

/** [least, greatest] of the axis of a variable, in its shown unit. */
function rangeOf(plots, name) {
  const { precision, unit } = variableOf(plots.environment, name);
  if (unit === "switch") return [-0.05, 1.05];
  const found = plots.span(name)?.map((value) => shown(value, unit));
  if (!found) return [0, 1];
  const [low, high] = found;
  const least = 20 * 10 ** -precision; // so that the noise of a steady value is not magnified
  const more = Math.max(0.08 * (high - low), (least - high + low) / 2);
  return [low >= 0 ? Math.max(0, low - more) : low - more, high + more];
}

/** A scale that leaves room for the outputs below. */
function above(plots, [low, high]) {
  const share = (plots.lanes.length * LANE) / plots.height;
  return [low - ((high - low) * share) / (1 - share), high];
}

/** The times with light as a background. */
function drawLight({ timeline, light, colours }, { ctx, bbox, valToPos }) {
  ctx.save();
  ctx.fillStyle = colours.light;
  const isOn = (i) => light.some((name) => timeline.of[name].commanded[i] > 0);
  const place = (i) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, valToPos(timeline.start + i * timeline.width, "x", true)));
  for (let i = 0, from = -1; i <= timeline.times.length; i += 1) {
    const isLit = i < timeline.times.length && isOn(i);
    if (isLit && from < 0) from = i;
    if (isLit || from < 0) continue;
    ctx.fillRect(place(from), bbox.top, place(i) - place(from), bbox.height);
    from = -1;
  }
  ctx.restore();
}

/** Lines at the times of events with their mark on top, and the names of outputs. */
function drawMarks(plots, plot, lanes) {
  const { timeline, colours } = plots;
  const { ctx, bbox, valToPos } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  Object.assign(ctx, { font: `${12 * ratio}px system-ui`, lineWidth: ratio, textAlign: "center", textBaseline: "middle" });
  ctx.setLineDash([]);
  let last = -1;
  for (const { time, kind } of timeline.events) {
    const x = Math.round(valToPos(time, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width || (x - last < 2 && kind !== "note")) continue;
    last = x;
    const mark = markOf(kind);
    ctx.strokeStyle = ctx.fillStyle = colours[mark];
    ctx.globalAlpha = mark === "other" ? 0.25 : 0.6;
    ctx.stroke(new Path2D(`M${x} ${bbox.top}v${bbox.height}`));
    ctx.globalAlpha = 1;
    ctx.fillText(MARKS[mark], x, bbox.top - 5 * ratio);
  }
  Object.assign(ctx, { fillStyle: colours.text, strokeStyle: colours.line, textAlign: "left" });
  lanes.forEach((name, n) => {
    const base = Math.round(valToPos(lanes.length - n - 1, "lanes", true));
    drawBase(plots, plot, name, base);
    const holder = plots.view.value.follows && holderOf(status.value, plots.environment, name);
    ctx.fillStyle = holder ? colours.warn : colours.text;
    ctx.fillText(`${variableName(name)}${holder ? ` ▲ ${t("lane_held")}` : ""}`, bbox.left + 4 * ratio, base - 8 * ratio);
  });
  ctx.restore();
}

/** The line below an output: solid while it has a command, also "off"; dashed without one, as in a fault. */
function drawBase({ timeline, colours }, { ctx, bbox, valToPos }, name, y) {
  const { commanded } = timeline.of[name];
  const place = (i) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, valToPos(timeline.start + i * timeline.width, "x", true)));
  for (let from = 0, to; from < commanded.length; from = to) {
    const isKnown = commanded[from] !== null;
    for (to = from + 1; to < commanded.length && (commanded[to] !== null) === isKnown;) to += 1;
    ctx.strokeStyle = isKnown ? colours.faint : colours.line;
    ctx.setLineDash(isKnown ? [] : [4 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.stroke(new Path2D(`M${place(from)} ${y}H${place(to)}`));
  }
}

/** The present colours of the style sheet, as a canvas takes them. */
export function colours(box) {
  const found = { none: "transparent" };
  const names = { s1: "s1", s2: "s2", s3: "s3", s4: "s4", accent: "accent", line: "line", faint: "faint", text: "text", note: "s4", bad: "bad", warn: "warn", other: "faint", light: "light" };
  for (const [key, name] of Object.entries(names)) {
    box.style.outlineColor = `var(--${name})`;
    found[key] = getComputedStyle(box).outlineColor;
  }
  box.style.outlineColor = "";
  const faded = (key, alpha) => found[key].replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
  for (const n of [1, 2, 3, 4]) Object.assign(found, { [`b${n}`]: faded(`s${n}`, 0.15), [`f${n}`]: faded(`s${n}`, 0.45) });
  return { ...found, lane: faded("accent", 0.5), faintLane: faded("accent", 0.2), light: faded("light", 0.18) };
}

/** The label of a time on an axis with labels each `step` seconds. */
export function timeLabel(time, step) {
  const date = zoned(time);
  if (step >= 364 * 86_400) return String(date.getFullYear());
  if (step >= 27 * 86_400) return month(time);
  if (step >= 86_400 || (step >= 60 && !date.getHours() && !date.getMinutes())) return day(time);
  return step < 60 ? second(time) : clock(time);
}
