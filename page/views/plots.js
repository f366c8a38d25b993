/** `Plots`: the charts of variables of an environment on one axis of time, drawn by uPlot from `GET history` and the stream. */
import { get } from "../lib/api.js";
import { clock, day, month, number, second, shown, zoned } from "../lib/format.js";
import { t, variableName } from "../lib/i18n.js";
import { connection, growdTime, topic, variableOf, want } from "../lib/live.js";
import { levelText } from "../lib/reading.js";
import { Signal } from "../lib/signal.js";
import { markOf, MARKS } from "./event.js";
import { Gestures } from "./gestures.js";
import { CATEGORIES, Timeline } from "./timeline.js";

const MOST_POINTS = 1_500;
const MOST_VALUES = 20_000; // points of all variables in an answer
const SETTLED_MS = 250; // of zoom and pan, before growd is asked
const RETRY_MS = 12_000;
const LONGEST_MS = 65_000; // growd answers within a minute
const SPAN_S = [60, 3.16e8]; // of a view; growd answers for twice as long
const LANE = 42; // px of an output

let library = null; // uPlot, loaded with the first chart
let failures = 0; // of loading it

function loadLibrary() {
  const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("../vendor/uplot.css", import.meta.url) });
  const styled = new Promise((done) => (style.onload = style.onerror = done));
  document.head.append(style);
  // Some browsers remember a failed import, so another try has another address.
  const imported = failures ? import(`../vendor/uplot.js?${failures}`) : import("../vendor/uplot.js");
  return Promise.all([imported, styled]).then(
    ([module]) => module.default,
    () => {
      library = null; // the next try asks again
      failures += 1;
      throw new Error(t("no_connection"));
    },
  );
}

/** The charts of an environment: loading, live values, drawing, zoom and pan. Signals say what to draw around them. */
export class Plots {
  view = new Signal(null); // {start, end, follows, grows}: `grows` keeps the start when it follows now
  cursor = new Signal(null); // a time in UNIX seconds
  drawn = new Signal(0); // counts drawings
  failure = new Signal(""); // why there are no stored values, in growd's words
  isLoading = new Signal(false);
  timeline = null;
  elements = new Map(); // variable, or "" for the outputs -> the element for its chart
  #plots = new Map();
  #takes = []; // take the last messages of the topics
  #ends = [];
  #timer = 0;
  #drawnAt = 0;
  #state = {}; // isDue: there is something to draw; isWanted: a further request; isEnded

  constructor(environment, variables, outputs, range, view) {
    Object.assign(this, { environment, variables, outputs, range, names: [...new Set([...variables, ...outputs])] });
    this.view.value = view ?? null;
  }

  get width() {
    return this.box.firstChild.clientWidth || 300;
  }

  /** The outputs that had a command. */
  get lanes() {
    return this.outputs.filter((name) => this.timeline?.of[name].commanded.some((level) => level !== null));
  }

  /** Load, draw and follow, until the returned function is called. */
  begin(box) {
    this.box = box;
    const hear = (name, take) => {
      const signal = topic(`${this.environment}/${name}`);
      const heard = () => {
        if (!this.timeline?.isLive || !(signal.value?.time > this.timeline.start)) return;
        take(signal.value);
        this.#state.isDue = true;
      };
      this.#takes.push(heard);
      this.#ends.push(want(`${this.environment}/${name}`), signal.follow(heard));
    };
    for (const name of this.names) for (const category of CATEGORIES) hear(`${category}/${name}`, (message) => this.timeline.take(name, category, message));
    hear("events", ({ time, value }) => this.timeline.note({ time, ...value }));
    hear("notes", ({ time, value }) => this.timeline.note({ time, kind: "note", message: value }));
    const on = (target, name, does, options) => {
      target.addEventListener(name, does, options);
      this.#ends.push(() => target.removeEventListener(name, does));
    };
    new Gestures(this).begin(box, on);
    on(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.draw());
    on(document, "visibilitychange", () => document.hidden || this.load());
    const tick = setInterval(() => this.#tick(), 1_000);
    const resized = new ResizeObserver(() => this.#resize());
    resized.observe(box);
    let wasConnected = connection.value.isConnected;
    this.#ends.push(
      connection.follow(({ isConnected }) => {
        if (isConnected && !wasConnected) this.load();
        wasConnected = isConnected;
      }),
      growdTime.follow(() => this.view.value || this.reset(this.range)),
      () => clearInterval(tick),
      () => clearTimeout(this.#timer),
      () => resized.disconnect(),
    );
    if (this.view.value) this.load();
    else if (growdTime.value) this.reset(this.range);
    return () => {
      this.#state.isEnded = true;
      for (const end of this.#ends) end();
      for (const plot of this.#plots.values()) plot.destroy();
    };
  }

  /** Show a range, see `Chart`. */
  reset(range) {
    this.range = range;
    const end = range.end ?? growdTime.value;
    this.#look(range.start ?? end - range.seconds, end, range.end == null, range.start != null);
  }

  /** Move the view by a share of its length. */
  pan(share) {
    const { start, end } = this.view.value;
    this.#look(start + share * (end - start), end + share * (end - start));
  }

  /** Make the view so many times as long, around a share of it. */
  zoom(factor, at = 1) {
    const { start, end, follows } = this.view.value;
    const length = Math.min(SPAN_S[1], Math.max(SPAN_S[0], (end - start) * factor));
    const middle = start + at * (end - start);
    this.#look(middle - at * length, middle + (1 - at) * length, follows && at === 1);
  }

  /** Keep the end of the view at now. */
  follow() {
    const { start, end } = this.view.value;
    this.#look(start + growdTime.value - end, growdTime.value, true);
  }

  #look(start, end, follows = false, grows = false) {
    const beyond = Math.max(0, end - growdTime.value); // nothing is known of the future
    this.view.value = { start: grows ? start : start - beyond, end: end - beyond, follows: follows || beyond > 0, grows: grows && follows };
    this.draw();
    this.#later(this.timeline ? SETTLED_MS : 0);
  }

  #later(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.load(), ms);
  }

  /** Ask growd for the view, and half a view at either side. One request at a time: a browser has few connections. */
  async load() {
    clearTimeout(this.#timer);
    if (!this.view.value) return;
    this.#state.isWanted = true;
    if (this.isLoading.value) return;
    this.isLoading.value = true;
    this.#state.isWanted = false;
    const { start, end } = this.view.value;
    const side = (end - start) / 2;
    const points = Math.min(MOST_POINTS, Math.round(1.5 * this.width), Math.floor(MOST_VALUES / this.names.length));
    const range = { start: start - side, end: Math.min(end + side, growdTime.value) };
    const query = new URLSearchParams([...this.names.map((name) => ["variable", name]), ...Object.entries({ ...range, points, events: true })]);
    const answer = await this.#ask(query).catch((refusal) => ({ ...range, bucket_s: Math.max(1, (4 * side) / points), failure: refusal.message }));
    this.isLoading.value = false;
    if (this.#state.isEnded) return;
    this.failure.value = answer.failure ?? "";
    if (this.#state.isWanted) this.load();
    else if (answer.failure || !this.timeline) this.#later(RETRY_MS); // what was too new for the first answer
    if (answer.failure && this.timeline) return; // what is there stays, and goes on with live values
    this.timeline = new Timeline(this.names, answer);
    for (const take of this.#takes) take(); // the newest values may be too new for the database
    this.draw();
  }

  async #ask(query) {
    library ??= loadLibrary();
    this.uPlot = await library;
    const answer = await get(`history/${this.environment}?${query}`, LONGEST_MS);
    for (const each of answer.series) if (variableOf(this.environment, each.variable).manual) each.holds_s = 0; // known at its time only
    return answer;
  }

  /** Whether what is shown was asked. */
  get isKnown() {
    const { start, end } = this.view.value ?? {};
    const { timeline } = this;
    return Boolean(timeline) && timeline.start <= start && timeline.end + timeline.width >= Math.min(end, growdTime.value) - 5;
  }

  /** [least, greatest] in the shown time, in growd's unit; null without a value. */
  span(name, keys) {
    const { start, end } = this.view.value;
    const [least, greatest] = this.timeline?.span(name, start, end, keys) ?? [Infinity];
    return least === Infinity ? null : [least, greatest];
  }

  /** Each second: follow now, and draw what came; not more often than the picture changes. */
  #tick() {
    const { timeline } = this;
    const { start, end, follows, grows } = this.view.value ?? {};
    if (document.hidden || !timeline || !follows) return;
    const now = growdTime.value;
    const pixel = Math.max(1, Math.min(10, (end - start) / this.width));
    if (performance.now() - this.#drawnAt < 1_000 * pixel - 100 || !(this.#state.isDue || now - end > pixel)) return;
    this.#state.isDue = false;
    this.view.value = { start: grows ? start : start + now - end, end: now, follows, grows };
    if (!timeline.isLive) this.load();
    else if (connection.value.isConnected) timeline.grow(now);
    if (timeline.times.length > 3 * MOST_POINTS) this.load(); // with wider buckets, or without the oldest
    if (timeline.times.length > 6 * MOST_POINTS) timeline.drop(3 * MOST_POINTS);
    this.draw();
  }

  /** Draw all charts. */
  draw() {
    if (!this.timeline || !this.uPlot) return;
    this.#drawnAt = performance.now();
    this.#readColours();
    const lanes = this.lanes;
    if (lanes.join() !== this.#state.lanes) {
      this.#plots.get("")?.destroy();
      this.#plots.delete("");
    }
    this.#state.lanes = lanes.join();
    const { start: min, end: max } = this.view.value;
    for (const [name, element] of this.elements) {
      if (!name && !lanes.length) continue;
      if (!this.#plots.has(name)) this.#plots.set(name, this.#make(name, element, lanes));
      const plot = this.#plots.get(name);
      plot.batch(() => {
        plot.setData(this.#data(name, lanes), false);
        plot.setScale("x", { min, max });
      });
    }
    this.#placeCursor();
    this.drawn.value += 1;
  }

  /** Times, and columns in the shown unit; {lanes} for the outputs. A value is drawn until the next time. */
  #data(name, lanes) {
    const { times, of, width } = this.timeline;
    const inUnit = name ? (value) => shown(value, variableOf(this.environment, name).unit) : (value) => value;
    const columns = name
      ? ["mean", "min", "max", "desired"].map((key) => of[name][key])
      : lanes.flatMap((lane, n) => ["most", "commanded"].map((key) => of[lane][key].map((level) => (level === null ? null : lanes.length - 1 - n + 0.6 * level))));
    const drawn = columns.map((column) => {
      const values = column.map((value) => (value == null ? null : inUnit(value)));
      const last = values.findLastIndex((value) => value !== null);
      values[last + 1] = values[last] ?? null; // the last value is drawn to the end of its bucket
      if (values.length === times.length) values.push(null);
      return values;
    });
    return [[...times, (times.at(-1) ?? this.timeline.start) + width], ...drawn];
  }

  #make(name, element, lanes) {
    const { uPlot } = this;
    const { manual, precision, unit } = variableOf(this.environment, name);
    const colour = (key) => () => this.#state.colours[key];
    const axis = { stroke: colour("faint"), font: "12px system-ui", grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1, size: 4 } };
    const paths = uPlot.paths.stepped({ align: 1, alignGaps: 1 });
    const line = (key, more) => ({ stroke: colour(key), width: 2, points: { show: false }, paths, ...more });
    const hidden = line("none", { width: 0 });
    const series = name
      ? [line("s1", { points: manual ? { show: true, size: 6 } : {} }), hidden, hidden, line("s2", { dash: [6, 4] })]
      : lanes.flatMap((_, n) => [{ ...hidden, fill: colour("f3"), fillTo: () => lanes.length - 1 - n }, line("s3", { width: 1.5 })]);
    const least = 20 * 10 ** -precision; // so that the noise of a steady value is not magnified
    const isSwitch = unit === "switch";
    const range = () => {
      if (isSwitch) return [-0.05, 1.05];
      const found = this.span(name)?.map((value) => shown(value, unit));
      if (!found) return [0, 1];
      const [low, high] = found;
      const more = Math.max(0.08 * (high - low), (least - high + low) / 2);
      return [low >= 0 ? Math.max(0, low - more) : low - more, high + more];
    };
    const numbers = (_, values, __, ___, step) => values.map((value) => (this.span(name) ? number(value, (String(step).split(".")[1] ?? "").length) : ""));
    const options = {
      tzDate: zoned,
      width: element.clientWidth,
      height: name ? (this.width < 600 ? 150 : 190) : lanes.length * LANE + 36,
      legend: { show: false },
      padding: [10, 8, 0, 0],
      scales: { x: { auto: false, range: () => [this.view.value.start, this.view.value.end] }, y: { range: name ? range : () => [0, lanes.length] } },
      cursor: { y: false, drag: { x: false }, points: { show: false }, bind: Object.fromEntries(["mousedown", "mouseup", "mousemove", "mouseenter", "mouseleave", "click", "dblclick"].map((event) => [event, () => null])) },
      axes: [
        { ...axis, size: 28, space: 72, values: (_, times, __, ___, step) => times.map((time) => timeLabel(time, step)) },
        { ...axis, size: 56, space: 30, ...(isSwitch ? { splits: () => [0, 1], values: (_, values) => values.map((value) => levelText({ variable: name, unit }, value)) } : name ? { values: numbers } : { splits: () => lanes.map((_, n) => n), values: () => [] }) },
      ],
      series: [{}, ...series],
      bands: name ? [{ series: [3, 2], fill: colour("f1") }] : [],
      hooks: { draw: [(plot) => this.#drawMarks(plot, name ? [] : lanes)] },
    };
    return new uPlot(options, this.#data(name, lanes), element);
  }

  /** Lines at the times of events with their mark on top, and the names of outputs. */
  #drawMarks({ ctx, bbox, valToPos }, lanes) {
    const ratio = devicePixelRatio;
    const { colours } = this.#state;
    ctx.save();
    Object.assign(ctx, { font: `${12 * ratio}px system-ui`, lineWidth: ratio, textAlign: "center", textBaseline: "middle" });
    ctx.setLineDash([]);
    let last = -1;
    for (const { time, kind } of this.timeline.events) {
      const x = Math.round(valToPos(time, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width || (x - last < 2 && kind !== "note")) continue;
      last = x;
      const mark = markOf(kind);
      ctx.strokeStyle = ctx.fillStyle = colours[mark];
      ctx.globalAlpha = 0.6;
      ctx.stroke(new Path2D(`M${x} ${bbox.top}v${bbox.height}`));
      ctx.globalAlpha = 1;
      ctx.fillText(MARKS[mark], x, bbox.top - 2 * ratio);
    }
    Object.assign(ctx, { fillStyle: colours.text, textAlign: "left" });
    lanes.forEach((name, n) => ctx.fillText(variableName(name), bbox.left + 4 * ratio, valToPos(lanes.length - n - 0.22, "y", true)));
    ctx.restore();
  }

  /** The present colours of the style sheet, as a canvas takes them. */
  #readColours() {
    const { style } = this.box;
    const colours = { none: "transparent" };
    for (const [key, name] of Object.entries({ s1: "s1", s2: "s2", s3: "s3", line: "line", faint: "faint", text: "text", note: "s4", bad: "bad", other: "faint" })) {
      style.outlineColor = `var(--${name})`;
      colours[key] = getComputedStyle(this.box).outlineColor;
    }
    style.outlineColor = "";
    for (const n of [1, 3]) colours[`f${n}`] = colours[`s${n}`].replace("rgb(", "rgba(").replace(")", ", .22)");
    this.#state.colours = colours;
  }

  #resize() {
    for (const [name, plot] of this.#plots) {
      const { clientWidth: width } = this.elements.get(name) ?? plot;
      if (width && width !== plot.width) plot.setSize({ width, height: plot.height });
    }
    this.#placeCursor();
  }

  /** The shown buckets of these columns that have a value: [[time, value, ...], ...]. */
  rows(columns) {
    const { start, end } = this.view.value;
    const { times, width } = this.timeline;
    const rows = times.map((time, i) => [time, ...columns.map((column) => column[i] ?? null)]);
    return rows.filter(([time, ...values]) => time + width > start && time <= end && values.some((value) => value !== null));
  }

  /** {head, columns} of a variable, or of the outputs in percent. */
  columns(name) {
    if (name) return { head: ["mean", "min", "max", "set_point"], columns: this.#data(name).slice(1) };
    const pairs = this.lanes.flatMap((lane) => [[lane, "commanded"], [lane, "most"]]);
    return { head: pairs, columns: pairs.map(([lane, key]) => this.timeline.of[lane][key].map((level) => level && 100 * level)) };
  }

  /** Set the cursor to a time; null shows the newest values. */
  point(time) {
    const { start, end } = this.view.value;
    this.cursor.value = time === null ? null : Math.min(end, Math.max(start, time));
    this.#placeCursor();
  }

  #placeCursor() {
    const time = this.cursor.value;
    for (const plot of this.#plots.values()) {
      const left = time === null ? -10 : plot.valToPos(time, "x");
      plot.setCursor({ left, top: left < 0 ? -10 : 0 }, false);
    }
  }
}

/** The label of a time on an axis with labels each `step` seconds. */
export function timeLabel(time, step) {
  const date = zoned(time);
  if (step >= 364 * 86_400) return String(date.getFullYear());
  if (step >= 27 * 86_400) return month(time);
  if (step >= 86_400 || (step >= 60 && !date.getHours() && !date.getMinutes())) return day(time);
  return step < 60 ? second(time) : clock(time);
}
