/** `Plots`: variables of an environment on one axis of time, from `GET history` and the stream. */
import { get } from "../lib/api.js";
import { shown } from "../lib/format.js";
import { connection, growdTime, topic, variableOf, want } from "../lib/live.js";
import { Signal } from "../lib/signal.js";
import { Gestures } from "./gestures.js";
import { colours, Drawing, EDGES, LANE } from "./drawing.js";
import { CATEGORIES, Timeline } from "./timeline.js";

const MOST_POINTS = 1_500;
const MOST_VALUES = 20_000; // points of all variables in an answer
const SETTLED_MS = 250; // of zoom and pan, before growd is asked
const RETRY_MS = 12_000;
const LONGEST_MS = 65_000; // growd answers within a minute
const YOUNG_S = 300; // the shortest view that begins with the first value
const SPAN_S = [60, 3.16e8]; // of a view; growd answers for twice as long
const STEP_MS = 1_000; // moves within it are one step for "back"
const MOST_STEPS = 50;
const DAY = 86_400;
const LANES = 0.45; // of the height at most

/** A chart of an environment: loading, live values, drawing, zoom and pan. Signals say what to draw around it. */
export class Plots {
  view = new Signal(null); // {start, end, follows, grows}: `grows` keeps the start when it follows now
  cursor = new Signal(null); // a time in UNIX seconds
  drawn = new Signal(0); // counts drawings
  failure = new Signal(""); // why there are no stored values, in growd's words
  asked = new Signal(0); // when growd was asked for what is not there yet, by performance.now(); 0: nothing is awaited
  steps = new Signal([]); // the views before
  isOver = new Signal(false); // yesterday is drawn too
  timeline = null;
  before = null; // the timeline of the day before
  sides = [0, 0]; // px left and right of the lines
  #drawing = null;
  #takes = []; // take the last messages of the topics
  #ends = [];
  #timer = 0;
  #drawnAt = 0;
  #movedAt = -Infinity;
  #state = {}; // isDue: there is something to draw; isWanted: a further request; isEnded

  constructor(environment, variables, outputs, light, range, last) {
    Object.assign(this, { environment, variables, outputs, light, range, names: [...new Set([...variables, ...outputs, ...light])] });
    if (last) for (const key of ["view", "steps", "isOver"]) this[key].value = last[key].value;
  }

  get width() {
    return this.box?.clientWidth || 300;
  }

  /** Room for the lines and the outputs, without the axis of time. */
  get height() {
    return Math.max(80, (this.box?.clientHeight || 300) - EDGES[0] - EDGES[1]);
  }

  /** The outputs, as many as there is room for; those without a command go first. */
  get lanes() {
    const most = Math.floor((LANES * this.height) / LANE);
    const kept = [...this.outputs].sort((one, other) => this.#hasCommand(other) - this.#hasCommand(one)).slice(0, most);
    return this.outputs.filter((name) => kept.includes(name));
  }

  /** The outputs that had a command in the loaded time. */
  get commanded() {
    return this.lanes.filter((name) => this.#hasCommand(name));
  }

  #hasCommand = (name) => Boolean(this.timeline?.of[name].commanded.some((level) => level !== null));

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
    const resized = new ResizeObserver(() => this.draw());
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
      this.#drawing?.remove();
    };
  }

  /** Show a range, see `Chart`. */
  reset(range) {
    this.range = range;
    this.steps.value = [];
    this.#movedAt = -Infinity;
    this.#state.isFit = false;
    const end = range.end ?? growdTime.value;
    this.#look(range.start ?? end - range.seconds, end, range.end == null, range.start != null);
  }

  /** Move the view by a share of its length. */
  pan(share) {
    const { start, end } = this.view.value;
    this.#step();
    this.#look(start + share * (end - start), end + share * (end - start));
  }

  /** Make the view so many times as long, around a share of it. */
  zoom(factor, at = 1) {
    const { start, end, follows } = this.view.value;
    const length = Math.min(SPAN_S[1], Math.max(SPAN_S[0], (end - start) * factor));
    const middle = start + at * (end - start);
    this.#step();
    this.#look(middle - at * length, middle + (1 - at) * length, follows && at === 1);
  }

  /** Show the part between two times. */
  part(from, to) {
    const more = Math.max(0, SPAN_S[0] - (to - from)) / 2;
    this.#movedAt = -Infinity;
    this.#step();
    this.#look(from - more, to + more);
  }

  /** Mark the part between two times; nothing without them. */
  mark(...part) {
    this.#drawing?.mark(...part);
  }

  /** Return to the view before. */
  back() {
    const last = this.steps.value.at(-1);
    this.steps.value = this.steps.value.slice(0, -1);
    this.#movedAt = -Infinity;
    if (last.follows) this.#look(last.start + growdTime.value - last.end, growdTime.value, true);
    else this.#look(last.start, last.end);
  }

  /** Keep the end of the view at now. */
  follow() {
    const { start, end } = this.view.value;
    this.#look(start + growdTime.value - end, growdTime.value, true);
  }

  /** Draw the day before too, or no longer. */
  overYesterday() {
    this.isOver.value = !this.isOver.value;
    this.load();
  }

  #step() {
    if (performance.now() - this.#movedAt > STEP_MS) this.steps.value = [...this.steps.value, this.view.value].slice(-MOST_STEPS);
    this.#movedAt = performance.now();
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
    if (this.asked.value) return;
    this.asked.value = performance.now();
    this.#state.isWanted = false;
    const { start, end } = this.view.value;
    const side = (end - start) / 2;
    const points = Math.min(MOST_POINTS, Math.round(1.5 * this.width), Math.floor(MOST_VALUES / this.names.length));
    const range = { start: start - side, end: Math.min(end + side, growdTime.value) };
    const answer = await this.#ask(range, points).catch((refusal) => ({ ...range, bucket_s: Math.max(1, (4 * side) / points), failure: refusal.message }));
    this.asked.value = 0;
    if (this.#state.isEnded) return;
    this.failure.value = answer.failure ?? "";
    if (this.#state.isWanted) this.load();
    else if (answer.failure || !this.timeline) this.#later(RETRY_MS); // what was too new for the first answer
    if (answer.failure && this.timeline) return; // what is there stays, and goes on with live values
    this.timeline = new Timeline(this.names, answer);
    this.before = answer.before ? new Timeline(this.variables, answer.before) : null;
    for (const take of this.#takes) take(); // the newest values may be too new for the database
    if (!this.#state.isFit) this.#fit(answer.series ?? []);
    this.draw();
  }

  /** Begin with the first value, if the chamber is younger than the range. */
  #fit(series) {
    this.#state.isFit = true;
    const { start, end, follows } = this.view.value;
    const first = Math.min(...series.flatMap((each) => CATEGORIES.map((category) => (each[category].before ? -Infinity : each[category].time[0] ?? Infinity))));
    if (this.range.seconds && follows && series.length && first > start) this.#look(Math.min(first, end - YOUNG_S), end, true, true);
  }

  async #ask({ start, end }, points) {
    const query = (names, more) => new URLSearchParams([...names.map((name) => ["variable", name]), ...Object.entries({ points, ...more })]);
    const ask = async (names, more) => {
      const answer = await get(`history/${this.environment}?${query(names, more)}`, LONGEST_MS);
      for (const each of answer.series) if (variableOf(this.environment, each.variable).manual) each.holds_s = 0; // known at its time only
      return answer;
    };
    const answer = await ask(this.names, { start, end, events: true });
    const before = this.isOver.value && (await ask(this.variables, { start: start - DAY, end: end - DAY, events: false }));
    return { ...answer, before };
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
    const spans = [this.timeline?.span(name, start, end, keys), this.before?.span(name, start - DAY, end - DAY, ["mean"])].filter(Boolean);
    const [least, greatest] = [Math.min(...spans.map(([low]) => low)), Math.max(...spans.map(([, high]) => high))];
    return Number.isFinite(least) ? [least, greatest] : null;
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
    this.view.value = { start: grows ? Math.max(start, now - (this.range.seconds ?? Infinity)) : start + now - end, end: now, follows, grows };
    if (!timeline.isLive) this.load();
    else if (connection.value.isConnected) timeline.grow(now);
    if (timeline.times.length > 3 * MOST_POINTS) this.load(); // with wider buckets, or without the oldest
    if (timeline.times.length > 6 * MOST_POINTS) timeline.drop(3 * MOST_POINTS);
    this.draw();
  }

  draw() {
    if (!this.timeline || !this.box?.clientHeight) return;
    this.#drawnAt = performance.now();
    this.colours = colours(this.box);
    this.#drawing ??= new Drawing(this);
    this.#drawing.draw();
    this.#drawing.point(this.cursor.value);
    this.drawn.value += 1;
  }

  /** The shown buckets of these columns that have a value: [[time, value, ...], ...]. */
  rows(columns) {
    const { start, end } = this.view.value;
    const { times, width } = this.timeline;
    const rows = times.map((time, i) => [time, ...columns.map((column) => column[i] ?? null)]);
    return rows.filter(([time, ...values]) => time + width > start && time <= end && values.some((value) => value !== null));
  }

  /** [{name, key, values}] of the variables in their shown units, and of the outputs in percent. */
  columns() {
    const { of } = this.timeline;
    const keys = { mean: "mean", min: "min", max: "max", set_point: "desired" };
    const variables = this.variables.flatMap((name) => Object.entries(keys).map(([key, source]) => ({ name, key, values: of[name][source].map((value) => value == null ? null : shown(value, variableOf(this.environment, name).unit)) })));
    const outputs = this.commanded.flatMap((name) => ["commanded", "most"].map((key) => ({ name, key, values: of[name][key].map((level) => level && 100 * level) })));
    return [...variables, ...outputs];
  }

  /** Set the cursor to a time; null shows the newest values. */
  point(time) {
    const { start, end } = this.view.value;
    this.cursor.value = time === null ? null : Math.min(end, Math.max(start, time));
    this.#drawing?.point(this.cursor.value);
  }
}
