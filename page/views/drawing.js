/** `Drawing`: draws a chart of `Plots` on a canvas: background, axes, lines, outputs and marks. */
import { clock, day, month, number, second, shown, unix, zoned } from "../lib/format.js";
import { t, variableName } from "../lib/i18n.js";
import { status, variableOf } from "../lib/live.js";
import { levelText } from "../lib/reading.js";
import { holderOf } from "../lib/verdict.js";
import { markOf, MARKS } from "./event.js";
import { heldSpans } from "./timeline.js";

export const LANE = 22; // px of an output
export const EDGES = [14, 28]; // px above and below the lines
const AXIS = 46; // px
const SIDE = 8; // px beside the lines without an axis
const DAY = 86_400;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200]; // s
const DAYS = [1, 2, 7, 14];
const MONTHS = [1, 3, 6, 12, 24, 60];

export class Drawing {
  constructor(plots) {
    this.plots = plots;
    const element = (name, style = "") => Object.assign(document.createElement(name), { className: style });
    this.canvas = element("canvas");
    [this.over, this.selected, this.cursor] = ["over", "selected", "cursor"].map((style) => element("div", style));
    this.over.append(this.selected, this.cursor);
    plots.box.append(this.canvas, this.over);
    this.mark();
    this.point(null);
  }

  remove() {
    this.canvas.remove();
    this.over.remove();
  }

  /** Mark the part between two times. */
  mark(from = 0, to = from) {
    this.marked = [from, to];
    const share = 100 / (this.end - this.start);
    Object.assign(this.selected.style, { left: `${share * (from - this.start)}%`, width: `${share * (to - from)}%` });
  }

  /** Set the cursor to a time; null hides it. */
  point(time) {
    this.cursor.hidden = time === null;
    if (time !== null) this.cursor.style.left = `${this.#x(time) - this.left}px`;
  }

  #x = (time) => this.left + ((time - this.start) / (this.end - this.start)) * this.wide;
  #y = (value, [low, high]) => EDGES[0] + (1 - (value - low) / (high - low)) * this.tall;

  draw() {
    const { plots, canvas } = this;
    const { clientWidth: width, clientHeight: height } = plots.box;
    const { start, end } = plots.view.value;
    const ratio = devicePixelRatio;
    this.axes = plots.variables.slice(0, width < 600 ? 2 : 4);
    const room = (count) => AXIS * count || SIDE;
    this.left = room(Math.ceil(this.axes.length / 2));
    Object.assign(this, { start, end, wide: width - this.left - room(Math.floor(this.axes.length / 2)), tall: height - EDGES[0] - EDGES[1] });
    plots.sides = [this.left, width - this.left - this.wide];
    Object.assign(this.over.style, { left: `${this.left}px`, top: `${EDGES[0]}px`, width: `${this.wide}px`, height: `${this.tall}px` });
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    this.ctx = canvas.getContext("2d");
    this.ctx.scale(ratio, ratio);
    Object.assign(this.ctx, { font: "12px system-ui", textBaseline: "middle" });
    this.scales = plots.variables.map((name) => above(plots, rangeOf(plots, name)));
    this.mark(...this.marked);
    this.#drawLight();
    this.#drawTimes(width < 600 ? 64 : 80);
    this.axes.forEach((name, i) => this.#drawAxis(name, i));
    this.ctx.save();
    this.ctx.beginPath();
    this.ctx.rect(this.left, 0, this.wide, height);
    this.ctx.clip();
    plots.variables.forEach((name, i) => this.#drawVariable(name, i));
    plots.lanes.forEach((name, n) => this.#drawLane(name, EDGES[0] + this.tall - (plots.lanes.length - 1 - n) * LANE));
    this.#drawEvents();
    this.ctx.restore();
  }

  #stroke(path, colour, width = 1, dash = []) {
    Object.assign(this.ctx, { strokeStyle: colour, lineWidth: width });
    this.ctx.setLineDash(dash);
    this.ctx.stroke(path);
  }

  /** [[first, next], ...]: the shown buckets with a value, as runs. */
  #runs(isThere) {
    const { timeline } = this.plots;
    const runs = [];
    const last = Math.min(timeline.times.length, timeline.index(this.end) + 1);
    for (let i = Math.max(0, timeline.index(this.start)); i < last; i += 1) {
      if (!isThere(i)) continue;
      if (runs.at(-1)?.[1] === i) runs.at(-1)[1] += 1;
      else runs.push([i, i + 1]);
    }
    return runs;
  }

  #place = (i) => Math.min(this.left + this.wide, Math.max(this.left, this.#x(this.plots.timeline.start + i * this.plots.timeline.width)));

  /** The times with light as a background. */
  #drawLight() {
    const { timeline, light, colours } = this.plots;
    this.ctx.fillStyle = colours.light;
    for (const [from, to] of this.#runs((i) => light.some((name) => timeline.of[name].commanded[i] > 0))) {
      this.ctx.fillRect(this.#place(from), EDGES[0], this.#place(to) - this.#place(from), this.tall);
    }
  }

  #drawTimes(space) {
    const { ctx, plots: { colours } } = this;
    Object.assign(ctx, { fillStyle: colours.faint, textAlign: "center" });
    const { step, times } = timesOf(this.start, this.end, ((this.end - this.start) * space) / this.wide);
    for (const time of times) {
      const x = Math.round(this.#x(time)) + 0.5;
      this.#stroke(new Path2D(`M${x} ${EDGES[0]}v${this.tall}`), colours.line);
      ctx.fillText(timeLabel(time, step), x, EDGES[0] + this.tall + 13);
    }
  }

  /** The axis of a variable in its colour, left and right in turn; the first has a grid. */
  #drawAxis(name, i) {
    const { ctx, plots, scales: { [i]: scale } } = this;
    const { unit } = variableOf(plots.environment, name);
    const [low, high] = rangeOf(plots, name);
    const step = unit === "switch" ? 1 : nice(((scale[1] - scale[0]) * 34) / this.tall);
    const places = (String(Number(step.toPrecision(2))).split(".")[1] ?? "").length;
    const isRight = i % 2 > 0;
    const x = isRight ? this.left + this.wide + 4 + AXIS * ((i - 1) / 2) : this.left - 4 - AXIS * (i / 2);
    Object.assign(ctx, { fillStyle: plots.colours[`s${i + 1}`], textAlign: isRight ? "left" : "right" });
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9; n += 1) { // none beside the outputs
      const y = Math.round(this.#y(n * step, scale)) + 0.5;
      if (!i) this.#stroke(new Path2D(`M${this.left} ${y}h${this.wide}`), plots.colours.line);
      if (plots.span(name)) ctx.fillText(unit === "switch" ? levelText({ variable: name, unit }, n) : number(n * step, places), x, y);
    }
  }

  /** A step line of a column for each run of values: a value is drawn until the next time. */
  #steps(column, scale, runs = this.#runs((i) => column[i] != null)) {
    return new Path2D(runs.map(([from, to]) => {
      let path = `M${this.#place(from)} ${this.#y(column[from], scale)}`;
      for (let i = from; i < to; i += 1) path += `V${this.#y(column[i], scale)}H${this.#place(i + 1)}`;
      return path;
    }).join(""));
  }

  #drawVariable(name, i) {
    const { ctx, plots, scales: { [i]: scale } } = this;
    const { timeline, before, colours } = plots;
    const { unit, manual } = variableOf(plots.environment, name);
    const inUnit = (column) => column.map((value) => (value == null ? null : shown(value, unit)));
    const [mean, min, max, desired] = ["mean", "min", "max", "desired"].map((key) => inUnit(timeline.of[name][key]));
    const then = before?.of[name] ? inUnit(timeline.times.map((time) => before.of[name].mean[before.index(time - DAY)] ?? null)) : [];
    ctx.fillStyle = colours[`b${i + 1}`];
    for (const [from, to] of this.#runs((n) => min[n] != null && max[n] != null)) {
      let path = `M${this.#place(from)} ${this.#y(max[from], scale)}`;
      for (let n = from; n < to; n += 1) path += `V${this.#y(max[n], scale)}H${this.#place(n + 1)}`;
      for (let n = to - 1; n >= from; n -= 1) path += `V${this.#y(min[n], scale)}H${this.#place(n)}`;
      ctx.fill(new Path2D(`${path}Z`));
    }
    this.#stroke(this.#steps(then, scale), colours[`f${i + 1}`], 1.5);
    this.#stroke(this.#steps(desired, scale), colours[`s${i + 1}`], 1.2, [6, 4]);
    this.#stroke(this.#steps(mean, scale), colours[`s${i + 1}`], 1.8);
    if (!manual) return;
    ctx.fillStyle = colours[`s${i + 1}`];
    mean.forEach((value, n) => value != null && ctx.fillRect(this.#x(timeline.times[n]) - 3, this.#y(value, scale) - 3, 6, 6));
  }

  /**
   * An output: its commands, and the line below: solid while it has a command, also "off"; dashed without one, as in a
   * fault. A command against which it is held is faint, with a thick line.
   */
  #drawLane(name, base) {
    const { ctx, plots } = this;
    const { commanded, most } = plots.timeline.of[name];
    const { colours } = plots;
    const spans = this.#spansOf(name);
    const isHeldIn = (i) => spans.some(([from, to]) => from < plots.timeline.times[i] + plots.timeline.width && to > plots.timeline.times[i]);
    for (const [levels, colour] of [[most, "faintLane"], [commanded, "lane"]]) {
      ctx.fillStyle = colours[colour];
      for (const [from, to] of this.#runs((i) => levels[i] > 0 && !(colour === "lane" && isHeldIn(i)))) {
        for (let i = from; i < to; i += 1) ctx.fillRect(this.#place(i), base, this.#place(i + 1) - this.#place(i), -0.7 * LANE * levels[i]);
      }
    }
    const line = (isThere, colour, dash, width = 1) => this.#stroke(new Path2D(this.#runs(isThere).map(([from, to]) => `M${this.#place(from)} ${base}H${this.#place(to)}`).join("")), colour, width, dash);
    line((i) => commanded[i] === null, colours.line, [4, 4]);
    line((i) => commanded[i] !== null, colours.faint);
    line((i) => most[i] > 0 && isHeldIn(i), colours.warn, [], 3);
    const isHeld = plots.view.value.follows && (status.value?.holds.length > 0 || holderOf(status.value, plots.environment, name));
    Object.assign(ctx, { fillStyle: isHeld ? colours.warn : colours.text, textAlign: "left" });
    ctx.fillText(`${variableName(name)}${isHeld ? ` ▲ ${t("lane_held")}` : ""}`, this.left + 4, base - 8);
  }

  #spansOf(name) {
    const names = name === "light_illuminance" ? [name, "white", "red", "blue"] : [name];
    const locks = status.value?.interlocks.filter((each) => each.name.startsWith(`${this.plots.environment}/`) && !each.is_quiet && each.holds.some((one) => names.includes(one))) ?? [];
    return heldSpans(this.plots.timeline.events, locks.map((each) => each.name.split("/").pop()), { ...status.value, interlocks: locks });
  }

  /** Lines at the times of events with their mark on top; the most severe are drawn last, over the others. */
  #drawEvents() {
    for (const mark of Object.keys(MARKS)) this.#drawMarks(mark);
  }

  #drawMarks(mark) {
    const { ctx, plots: { timeline, colours } } = this;
    Object.assign(ctx, { fillStyle: colours[mark], textAlign: "center" });
    let last = -1;
    for (const event of timeline.events) {
      const x = Math.round(this.#x(event.time));
      if (markOf(event) !== mark || x < this.left || x > this.left + this.wide || x - last < 2) continue;
      last = x;
      ctx.globalAlpha = mark === "other" ? 0.25 : 0.6;
      this.#stroke(new Path2D(`M${x} ${EDGES[0]}v${this.tall}`), colours[mark]);
      ctx.globalAlpha = 1;
      ctx.fillText(MARKS[mark], x, EDGES[0] - 5);
    }
  }
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

/** The next of 1, 2, 5, 10, ... */
function nice(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find((each) => each * power >= least) * power;
}

/** {step, times}: times of an axis, at least `least` seconds apart, on round times of the chamber. */
function timesOf(start, end, least) {
  const text = (date) => [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((each) => String(each).padStart(2, "0")).join("-");
  const midnight = (year, month, date) => unix(`${text(new Date(year, month, date))}T00:00`);
  const first = zoned(start);
  const [year, month, date] = [first.getFullYear(), first.getMonth(), first.getDate()];
  const times = [];
  const add = (time) => time >= start && time <= end && times.push(time);
  const step = STEPS.find((each) => each >= least);
  if (step) {
    for (let n = 0, of = midnight(year, month, date); of <= end; of = midnight(year, month, date + (n += 1))) {
      const next = midnight(year, month, date + n + 1);
      for (let time = of + Math.max(0, Math.ceil((start - of) / step)) * step; time < next && time <= end; time += step) add(time);
    }
    return { step, times };
  }
  const days = DAYS.find((each) => each * DAY >= least);
  if (days) {
    for (let n = 0, time = 0; time <= end; n += days) add((time = midnight(year, month, date + n)));
    return { step: days * DAY, times };
  }
  const months = MONTHS.find((each) => each * 30 * DAY >= least) ?? MONTHS.at(-1);
  for (let n = months > 12 ? -(year % (months / 12)) * 12 - month : -(month % months), time = 0; time <= end; n += months) add((time = midnight(year, month + n, 1)));
  return { step: months * 30.5 * DAY, times };
}

/** The present colours of the style sheet, as a canvas takes them. */
export function colours(box) {
  const found = {};
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
  if (step >= 364 * DAY) return String(date.getFullYear());
  if (step >= 27 * DAY) return month(time);
  if (step >= DAY || (step >= 60 && !date.getHours() && !date.getMinutes())) return day(time);
  return step < 60 ? second(time) : clock(time);
}
