/** `Chart`: variables of an environment on one axis of time, drawn by uPlot from `GET history` and the stream. */
import { get } from "../lib/api.js";
import { clock, day, duration, number, second, shown, symbol, zoned } from "../lib/format.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { connection, growdTime, topic, variableOf, want } from "../lib/live.js";
import { Signal, useSignal } from "../lib/signal.js";
import { CATEGORIES, Timeline } from "./timeline.js";

const MOST = { points: 1_500, rows: 300 };
const SETTLED_MS = 250; // of zoom and pan, before growd is asked
const RETRY_MS = 12_000;
const LONGEST_MS = 65_000; // growd answers within a minute
const SPAN_S = [60, 1e8]; // of a view
const LANE = 42; // px of an output
const MARKS = { note: "▼", bad: "▲", other: "·" };

let library = null; // uPlot, loaded with the first chart

function loadLibrary() {
  const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("../vendor/uplot.css", import.meta.url) });
  const styled = new Promise((done) => (style.onload = style.onerror = done));
  document.head.append(style);
  return Promise.all([import("../vendor/uplot.js"), styled]).then(
    ([module]) => module.default,
    () => {
      library = null; // the next try asks again
      throw new Error(t("no_connection"));
    },
  );
}

/** The charts of an environment: loading, live values, drawing, zoom and pan. Signals say what to draw around them. */
class Plots {
  view = new Signal(null); // {start, end, follows, grows}: `grows` keeps the start when it follows now
  cursor = new Signal(null); // a time in UNIX seconds
  drawn = new Signal(0); // counts drawings
  failure = new Signal(""); // why there are no stored values, in growd's words
  isLoading = new Signal(false);
  timeline = null;
  elements = new Map(); // variable, or "" for the outputs -> the element for its chart
  #plots = new Map();
  #pointers = new Map();
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
    for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel", "pointerleave"]) on(box, name, (event) => this.#point(event));
    on(box, "wheel", (event) => this.#turn(event), { passive: false });
    on(box, "dblclick", (event) => this.#share(event) !== null && this.reset(this.range));
    on(box, "keydown", (event) => this.#press(event));
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
    const points = Math.min(MOST.points, Math.round(1.5 * this.width));
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
    if (timeline.times.length > 3 * MOST.points) this.load(); // with wider buckets, or without the oldest
    if (timeline.times.length > 6 * MOST.points) timeline.drop(3 * MOST.points);
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
    const range = () => {
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
        { ...axis, size: 56, space: 30, ...(name ? { values: numbers } : { splits: () => lanes.map((_, n) => n), values: () => [] }) },
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

  /** The place of a pointer as a share of the plot under it; null outside. */
  #share(event) {
    const over = event.target.closest?.(".u-over")?.getBoundingClientRect();
    return over ? (event.clientX - over.left) / over.width : null;
  }

  /** One pointer pans or, without a move, sets the cursor; two zoom. */
  #point(event) {
    const { type, pointerId: id } = event;
    const at = this.#share(event);
    const pointer = this.#pointers.get(id);
    const { start, end } = this.view.value ?? {};
    if (type === "pointerdown") {
      if (at !== null && !event.button) this.#pointers.set(id, { at, from: at });
    } else if (type !== "pointermove") {
      this.#pointers.delete(id);
      if (type === "pointerup" && pointer && !pointer.isMoved) this.point(start + pointer.at * (end - start));
      else if (type === "pointerleave" && event.pointerType === "mouse") this.point(null);
    } else if (!pointer) {
      if (at !== null) this.point(start + at * (end - start));
    } else if (at !== null) {
      const other = [...this.#pointers.values()].find((each) => each !== pointer);
      if (!other && !pointer.isMoved && Math.abs(at - pointer.from) * this.width < 6) return;
      if (!pointer.isMoved) event.target.setPointerCapture(id);
      const [before, after] = [pointer.at, at].map((place) => Math.abs(place - (other?.at ?? 0)));
      if (!other) this.pan(pointer.at - at);
      else if (Math.min(before, after) > 0.02) this.zoom(before / after, (at + other.at) / 2);
      Object.assign(pointer, { at, isMoved: true });
    }
  }

  /** The wheel zooms with Ctrl, or while the charts have the focus; else it scrolls the page. Sideways it pans. */
  #turn(event) {
    const at = this.#share(event);
    const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (at === null || !(isSideways || event.ctrlKey || this.box.contains(document.activeElement))) return;
    event.preventDefault();
    if (isSideways) this.pan(event.deltaX / this.width);
    else this.zoom(2 ** (Math.sign(event.deltaY) * Math.min(0.5, Math.abs(event.deltaY) / 200)), this.view.value.follows && at > 0.9 ? 1 : at);
  }

  #press(event) {
    if (event.target !== this.box || event.ctrlKey || event.altKey || event.metaKey) return;
    const move = (sign) => (event.shiftKey ? this.point((this.cursor.value ?? this.view.value.end) + sign * this.timeline.width) : this.pan(sign * 0.1));
    const does = { ArrowLeft: () => move(-1), ArrowRight: () => move(1), "+": () => this.zoom(1 / 1.5), "=": () => this.zoom(1 / 1.5), "-": () => this.zoom(1.5), Home: () => this.reset(this.range), End: () => this.follow(), Escape: () => this.point(null) }[event.key];
    if (!does || !this.timeline) return;
    event.preventDefault();
    does();
  }
}

function timeLabel(time, step) {
  const date = zoned(time);
  if (step >= 86_400 || (step >= 60 && !date.getHours() && !date.getMinutes())) return day(time);
  return step < 60 ? second(time) : clock(time);
}

const markOf = (kind) => (kind === "note" ? kind : /(^|_)(fault|fail(ed|ure)?|interlock|hold|lost|error)(_|$)/.test(kind) ? "bad" : "other");

/**
 * `range`: {seconds} up to now, or {start, end} in UNIX seconds with `end` null for now. `outputs`: variables whose
 * commands are drawn below the others. `onPlots` is called with the `Plots`, for downloads.
 */
export function Chart({ environment, variables, outputs = [], range, onPlots }) {
  const box = useRef();
  const last = useRef(null);
  const plots = useMemo(() => new Plots(environment, variables, outputs, range, last.current?.view.value), [[environment, variables, outputs].join("/")]);
  useEffect(() => {
    last.current = plots;
    onPlots?.(plots);
    return plots.begin(box.current);
  }, [plots]);
  useEffect(() => {
    if (JSON.stringify(plots.range) !== JSON.stringify(range)) plots.reset(range);
  }, [JSON.stringify(range)]);
  const failure = useSignal(plots.failure);
  const view = useSignal(plots.view);
  useSignal(plots.drawn);
  const tool = (sign, name, does) => html`<button aria-label=${t(name)} title=${t(name)} onClick=${does}>${sign}</button>`;
  const plot = (name) => html`<div class="plot" ref=${(element) => element && plots.elements.set(name, element)} aria-hidden="true"></div><${Table} plots=${plots} name=${name} />`;
  return html`<div class="chart">
    ${failure && html`<p class="bar warn" role="status">${t("charts_failure", { reason: failure })}</p>`}
    <div class="row spread">
      ${view && html`<${Moment} plots=${plots} />`}
      <span class="row">
        ${tool("◀", "charts_earlier", () => plots.pan(-1))}${tool("−", "charts_out", () => plots.zoom(1.6))}
        ${tool("+", "charts_in", () => plots.zoom(1 / 1.6))}${tool("▶", "charts_later", () => plots.pan(1))}
        <button class=${view?.follows ? "primary" : ""} aria-pressed=${Boolean(view?.follows)} onClick=${() => plots.follow()}>${t("charts_follow")}</button>
      </span>
    </div>
    <div class="chart" ref=${box} tabindex="0" role="group" aria-label=${t("charts")} aria-describedby="charts-help">
      ${variables.map((name) => html`<section key=${name} class="card"><${Legend} plots=${plots} name=${name} />${plot(name)}</section>`)}
      <section class="card" hidden=${!plots.lanes.length}><h3>${t("charts_outputs")}</h3>${plot("")}</section>
    </div>
    <p id="charts-help" class="small faint">${t("charts_help")}</p>
    <${Events} plots=${plots} />
  </div>`;
}

/** The time at the cursor and what happened then; without a cursor the time that is shown. */
function Moment({ plots }) {
  const { start, end } = useSignal(plots.view);
  const time = useSignal(plots.cursor);
  const isLoading = useSignal(plots.isLoading);
  if (time === null) return html`<span class="moment">${day(start)} ${clock(start)} – ${day(start) === day(end) ? "" : day(end)} ${clock(end)} ${isLoading && "…"}</span>`;
  const near = (plots.timeline?.events ?? []).filter((each) => Math.abs(each.time - time) < (8 * (end - start)) / plots.width);
  return html`<span class="moment" role="status"><b>${day(time)} ${second(time)}</b>${near.slice(-3).map((each) => html`<br /><span class="small"><${Event} event=${each} /></span>`)}</span>`;
}

/** An event in words, with its mark. */
export function Event({ event: { kind, source, message, by } }) {
  const mark = markOf(kind);
  return html`<span class=${`mark ${mark}`} aria-hidden="true">${MARKS[mark]}</span> ${kind !== "note" && html`${!`${source} ${message}`.includes(kind) && html`<b>${kind.replaceAll("_", " ")}</b> `}${source && `${source}: `}`}${message}${by && html` <span class="faint">· ${by}</span>`}`;
}

/** The name of a variable with its values: at the cursor, or now, or the least and the greatest of the shown time. */
function Legend({ plots, name }) {
  useSignal(plots.drawn);
  const time = useSignal(plots.cursor);
  const { follows } = useSignal(plots.view) ?? {};
  const { timeline } = plots;
  const { unit, precision } = variableOf(plots.environment, name);
  const text = (value) => (value == null ? "–" : number(shown(value, unit), precision));
  const range = (low, high) => (text(low) === text(high) ? text(low) : `${text(low)} – ${text(high)}`);
  const sign = unit === "switch" ? "" : symbol(unit);
  const values = () => {
    const span = plots.span(name, ["min", "max"]);
    if (time !== null) {
      const { min, mean, max, desired } = timeline.at(name, time);
      const isMean = mean != null && text(min) !== text(max);
      return [html`${isMean && html`<span class="small">${t("charts_mean_of", { time: duration(timeline.width) })}</span> `}<b>${text(mean)}</b> ${sign} ${isMean && html`<span class="faint small">${range(min, max)}</span>`}`, desired];
    }
    const { last, desired } = follows && connection.value.isConnected ? timeline.newest(name) : {};
    const shownSpan = span && html`<span class="faint small">${t("charts_span", { range: `${range(...span)} ${sign}` })}</span>`;
    if (last != null) return [html`<span class="small">${t("charts_now")}</span> <b>${text(last)}</b> ${sign} ${shownSpan}`, desired];
    return [span ? shownSpan : html`<span class="faint">${plots.isKnown ? t("charts_nothing") : plots.failure.value ? "–" : t("loading")}</span>`, desired];
  };
  const [words, desired] = timeline ? values() : [html`<span class="faint">${plots.failure.value ? "–" : t("loading")}</span>`];
  return html`<div class="row spread">
    <h3>${variableName(name)}</h3>
    <span><span class="key" aria-hidden="true"></span> ${words}${desired != null && html` · <span class="key dashed" aria-hidden="true"></span> ${t("set_point")} ${text(desired)}`}</span>
  </div>`;
}

/** The shown buckets of a variable, or of the outputs, in which something changed, newest first. */
function Table({ plots, name }) {
  const [isOpen, setOpen] = useState(false);
  useSignal(plots.drawn);
  const title = `${t("charts_table")}: ${name ? variableName(name) : t("charts_outputs")}`;
  const rows = () => {
    const { head, columns } = plots.columns(name);
    const places = name ? variableOf(plots.environment, name).precision : 0;
    let before = "";
    const changed = plots.rows(columns).filter(([, ...values]) => before !== (before = values.join()));
    return html`<table><thead><tr><th>${t("charts_time")}</th>${head.map((key) => html`<th>${name ? t(key === "set_point" ? key : `charts_${key}`) : `${variableName(key[0])} (%)${key[1] === "most" ? `, ${t("charts_max")}` : ""}`}</th>`)}</tr></thead>
      <tbody>${changed.slice(-MOST.rows).reverse().map(([time, ...values]) => html`<tr><th>${day(time)} ${second(time)}</th>${values.map((value) => html`<td>${value === null ? "–" : number(value, places)}</td>`)}</tr>`)}</tbody></table>`;
  };
  return html`<details onToggle=${(event) => setOpen(event.target.open)}>
    <summary class="small" aria-label=${title}>${t("charts_table")}</summary>
    ${isOpen && plots.timeline && html`<div class="scroll scrolled" tabindex="0" role="region" aria-label=${title}>${rows()}</div>`}
  </details>`;
}

/** What happened in the time that is shown, newest first. */
function Events({ plots }) {
  useSignal(plots.drawn);
  const { start, end } = plots.view.value ?? {};
  const events = (plots.timeline?.events ?? []).filter((each) => each.time >= start && each.time <= end);
  return html`<details class="card">
    <summary>${t("charts_events", { count: events.length })}</summary>
    <ul class="plain scrolled">${events.toReversed().map((each) => html`<li><button class="quiet small" onClick=${() => plots.point(each.time)}>${day(each.time)} ${second(each.time)}</button> <${Event} event=${each} /></li>`)}</ul>
    ${plots.timeline?.isShortened && html`<p class="small faint">${t("charts_shortened")}</p>`}
  </details>`;
}
