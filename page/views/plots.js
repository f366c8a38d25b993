/** Charts with one axis of time: loading, live values, drawing with uPlot, and zoom and pan by pointer and keys. */
import { get } from "../lib/api.js";
import { clock, day, number, second } from "../lib/format.js";
import { t, variableName } from "../lib/i18n.js";
import { connection, growdTime, topic, variableOf, want } from "../lib/live.js";
import { Signal } from "../lib/signal.js";
import { Timeline } from "../lib/timeline.js";

const CATEGORIES = ["measured", "desired", "commanded"];
const MOST_POINTS = 1_500;
const SETTLED_MS = 250; // of zoom and pan, before growd is asked
const RETRY_MS = 15_000;
const LONGEST_MS = 65_000; // growd answers after a minute
const SHORTEST_S = 60;
const LONGEST_S = 3 * 366 * 86_400;
const LANE = 42; // px
const AXIS = 28;
const MOUSE = ["mousedown", "mouseup", "mousemove", "mouseenter", "mouseleave", "click", "dblclick"];

let library = null; // of uPlot, loaded with the first chart

function loadLibrary() {
  const style = document.createElement("link");
  Object.assign(style, { rel: "stylesheet", href: new URL("../vendor/uplot.css", import.meta.url) });
  const styled = new Promise((done) => (style.onload = style.onerror = done));
  document.head.append(style);
  return Promise.all([import("../vendor/uplot.js"), styled]).then(([module]) => module.default);
}

/** What kind of mark an event gets. */
export const markOf = (kind) => (kind === "note" ? "note" : /fault|fail|interlock|hold|lost|error/.test(kind) ? "bad" : "other");

/** The charts of some variables and outputs of an environment. Its signals say what to draw around them. */
export class Plots {
  view = new Signal({ start: 0, end: 1, follows: true });
  cursor = new Signal(null); // a time in UNIX seconds
  drawn = new Signal(0); // counts what was drawn
  failure = new Signal(""); // why there are no stored values, in growd's words
  isLoading = new Signal(false);
  timeline = null;

  #plots = new Map(); // variable, or "" for the outputs -> uPlot
  #pointers = new Map();
  #ends = [];
  #isWanted = false; // a further request
  #isEnded = false;
  #timer = 0;
  #drawnAt = 0;
  #isDue = false;
  #colours = {};
  #lanes = "";

  /** `elements`: variable, or "" for the outputs -> the element for its chart. `view`: what to show first, in place of `range`. */
  constructor(environment, variables, outputs, range, elements, view) {
    Object.assign(this, { environment, variables, outputs, range, elements, hasView: Boolean(view) });
    if (view) this.view.value = view;
  }

  get width() {
    return this.elements.values().next().value?.clientWidth || 300;
  }

  /** Load, draw and follow, until the returned function is called. */
  begin(box) {
    this.box = box;
    this.#listen(box);
    const names = new Set([...this.variables, ...this.outputs]);
    const topics = [...names].flatMap((variable) => CATEGORIES.map((category) => [`${this.environment}/${category}/${variable}`, (message) => this.timeline?.take(category, variable, message)]));
    topics.push([`${this.environment}/events`, ({ time, value }) => this.timeline?.note({ time, by: "", ...value })]);
    topics.push([`${this.environment}/notes`, ({ time, value }) => this.timeline?.note({ time, kind: "note", source: "", by: "", message: value })]);
    for (const [name, take] of topics) {
      const release = want(name);
      this.#ends.push(
        topic(name).follow((message) => {
          if (!message?.time || !this.timeline?.isLive(message.time)) return;
          take(message);
          this.#isDue = true;
        }),
        () => release?.(),
      );
    }
    const tick = setInterval(() => this.#tick(), 1_000);
    const resized = new ResizeObserver(() => this.#resize());
    resized.observe(box);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => this.draw();
    const shown = () => document.hidden || this.load();
    dark.addEventListener("change", redraw);
    document.addEventListener("visibilitychange", shown);
    let wasConnected = connection.value.isConnected;
    this.#ends.push(
      connection.follow(({ isConnected }) => {
        if (isConnected && !wasConnected) this.load();
        wasConnected = isConnected;
      }),
      () => clearInterval(tick),
      () => clearTimeout(this.#timer),
      () => resized.disconnect(),
      () => dark.removeEventListener("change", redraw),
      () => document.removeEventListener("visibilitychange", shown),
    );
    if (this.hasView) this.load();
    else if (growdTime.value) this.reset(this.range);
    else this.#ends.push(growdTime.follow(() => this.hasView || this.reset(this.range)));
    return () => this.#end();
  }

  #end() {
    this.#isEnded = true;
    for (const end of this.#ends) end();
    for (const plot of this.#plots.values()) plot.destroy();
    this.#plots.clear();
  }

  /** Show a range: {seconds} up to now, or {start, end} in UNIX seconds, with `end` null for now. */
  reset(range) {
    Object.assign(this, { range, hasView: true });
    const end = range.end ?? growdTime.value;
    this.view.value = { start: range.start ?? end - range.seconds, end, follows: range.end == null, grows: range.end == null && range.start != null };
    this.load();
  }

  /** Move the view by a share of its width. */
  pan(share) {
    const { start, end } = this.view.value;
    this.#look(start + share * (end - start), end + share * (end - start));
  }

  /** Make the view so many times as long, around a share of its width. */
  zoom(factor, at = 1) {
    const { start, end, follows } = this.view.value;
    const length = Math.min(LONGEST_S, Math.max(SHORTEST_S, (end - start) * factor));
    const middle = start + at * (end - start);
    this.#look(middle - at * length, middle + (1 - at) * length, follows && at === 1);
  }

  /** Move the end of the view to now, and keep it there. */
  follow() {
    const { start, end } = this.view.value;
    this.#look(growdTime.value - (end - start), growdTime.value, true);
  }

  #look(start, end, follows = false) {
    const beyond = end - growdTime.value; // nothing is known of the future
    this.view.value = beyond > 0 ? { start: start - beyond, end: end - beyond, follows: true } : { start, end, follows };
    this.draw();
    this.#later(SETTLED_MS);
  }

  #later(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.load(), ms);
  }

  /** Ask growd for the view, and half a view at either side. */
  async load() {
    clearTimeout(this.#timer);
    this.#isWanted = true;
    if (this.isLoading.value) return; // one request at a time: a browser has few connections
    this.isLoading.value = true;
    this.#isWanted = false;
    const { start, end, follows } = this.view.value;
    const side = (end - start) / 2;
    const asked = { start: start - side, end: follows ? end : Math.min(end + side, growdTime.value) };
    const query = new URLSearchParams([...new Set([...this.variables, ...this.outputs])].map((name) => ["variable", name]));
    for (const [key, value] of Object.entries({ ...asked, points: Math.min(MOST_POINTS, Math.round(1.5 * this.width)), events: true })) query.append(key, value);
    let answer = null;
    let failure = "";
    try {
      library ??= loadLibrary();
      [answer, this.uplot] = await Promise.all([get(`history/${this.environment}?${query}`, LONGEST_MS), library]);
    } catch (error) {
      this.uplot = await library;
      failure = error.message;
    }
    if (this.#isEnded) return;
    this.isLoading.value = false;
    this.failure.value = failure;
    if (this.#isWanted) this.load();
    else if (failure) this.#later(RETRY_MS);
    if (answer || !this.timeline) this.#take(answer ?? this.#empty(asked));
  }

  /** Only live values, while growd has no stored ones. */
  #empty({ start, end }) {
    const none = { before: null, time: [], min: [], mean: [], max: [], last: [], count: [] };
    const series = [...new Set([...this.variables, ...this.outputs])].map((variable) => ({ variable, unit: variableOf(this.environment, variable).unit, measured: none, desired: none, commanded: none }));
    return { start, end, bucket_s: Math.max(1, Math.round((end - start) / this.width)), series, events: [] };
  }

  #take(answer) {
    const timeline = new Timeline(answer, growdTime.value);
    if (timeline.isLive(growdTime.value)) {
      for (const variable in timeline.series) {
        for (const category of CATEGORIES) {
          const message = topic(`${this.environment}/${category}/${variable}`).value;
          if (message?.time > answer.end - timeline.width) timeline.take(category, variable, message);
        }
      }
    }
    this.timeline = timeline;
    this.draw();
  }

  /** Each second: follow now, and draw what came. */
  #tick() {
    const now = growdTime.value;
    const { start, end, follows, grows } = this.view.value;
    const { timeline } = this;
    if (document.hidden || !timeline) return;
    const most = 3 * MOST_POINTS;
    if (timeline.times.length > 2 * most) timeline.drop(most);
    const pixel = Math.min(10, (end - start) / this.width);
    if (!follows || now === end || !(this.#isDue || now - end > pixel) || performance.now() - this.#drawnAt < 1_000 * pixel) return;
    this.#isDue = false;
    this.view.value = { start: grows ? start : start + now - end, end: now, follows, grows };
    if (connection.value.isConnected) timeline.isLive(now) ? timeline.advance(now) : this.load();
    this.draw();
    if (grows && timeline.times.length > most) this.load(); // wider buckets
  }

  /** Draw all charts. */
  draw() {
    if (!this.timeline || !this.uplot) return;
    this.#drawnAt = performance.now();
    this.#readColours();
    const lanes = this.lanes.join();
    if (lanes !== this.#lanes) this.#remove("");
    this.#lanes = lanes;
    for (const [variable, element] of this.elements) {
      if (!variable && !lanes) continue;
      if (!this.#plots.has(variable) && element.isConnected) this.#plots.set(variable, this.#make(variable, element));
      const plot = this.#plots.get(variable);
      plot?.batch(() => {
        plot.setData(this.#data(variable), false);
        plot.setScale("x", { min: this.view.value.start, max: this.view.value.end });
      });
    }
    this.#placeCursor();
    this.drawn.value += 1;
  }

  /** The outputs that had a command in the time that is loaded. */
  get lanes() {
    return this.outputs.filter((name) => this.timeline?.series[name]?.commanded.last.some((value) => value !== null));
  }

  /** The shown buckets that have values, as rows with the time first; of the outputs in percent. */
  table(variable) {
    if (!this.timeline) return { head: [], rows: [] };
    const { times, series } = this.timeline;
    const { start, end } = this.view.value;
    const first = Math.max(0, this.timeline.index(start));
    const last = Math.min(times.length - 1, this.timeline.index(end));
    const lanes = this.lanes;
    const { curve, desired } = series[variable] ?? {};
    const columns = variable ? [curve?.min, curve?.mean, curve?.max, desired?.last] : lanes.map((name) => series[name].commanded.last.map((level) => level === null ? null : 100 * level));
    const rows = [];
    for (let i = first; i <= last; i += 1) {
      const row = columns.map((column) => column?.[i] ?? null);
      if (row.some((value) => value !== null)) rows.push([times[i] - this.timeline.width / 2, ...row]);
    }
    return { head: [t("charts_time"), ...(variable ? ["min", "mean", "max", "set_point"].map((key) => t(`charts_${key}`)) : lanes.map((name) => `${variableName(name)} (%)`))], rows };
  }

  /** The shown buckets of all charts as CSV: one row a bucket, times in UTC, values in the units of the charts. */
  csv() {
    const { times, series } = this.timeline;
    const { start, end } = this.view.value;
    const names = this.variables.filter((name) => series[name]);
    const lanes = this.lanes;
    const head = ["time", ...names.flatMap((name) => ["mean", "min", "max", "set_point"].map((key) => `${name} ${key}`)), ...lanes.map((name) => `${name} level`)];
    const rows = times.flatMap((time, i) => {
      const row = [...names.flatMap((name) => ["mean", "min", "max"].map((key) => series[name].curve[key][i]).concat(series[name].desired.last[i])), ...lanes.map((name) => series[name].commanded.last[i])];
      const from = time - this.timeline.width / 2;
      return from < start || from > end ? [] : [[new Date(from * 1000).toISOString(), ...row.map((value) => value ?? "")]];
    });
    return [head, ...rows].map((row) => `${row.join()}\r\n`).join("");
  }

  #data(variable) {
    const { times, series } = this.timeline;
    if (!variable) {
      const lane = (steps, key, base) => steps[key].map((value) => (value === null ? null : base + 0.6 * value));
      return [times, ...this.lanes.flatMap((name, n, all) => ["most", "last"].map((key) => lane(series[name].commanded, key, all.length - 1 - n)))];
    }
    const { curve, desired } = series[variable] ?? {};
    return curve ? [times, curve.mean, curve.min, curve.max, desired.last] : [times, [], [], [], []];
  }

  #remove(variable) {
    this.#plots.get(variable)?.destroy();
    this.#plots.delete(variable);
  }

  #make(variable, element) {
    const uPlot = this.uplot;
    const colour = (name) => () => this.#colours[name];
    const line = { stroke: colour("line"), width: 1 };
    const axis = { stroke: colour("faint"), grid: line, ticks: { ...line, size: 4 }, font: "12px system-ui" };
    const hidden = { stroke: "transparent", width: 0, points: { show: false } };
    const stepped = uPlot.paths.stepped({ align: 1 });
    const isManual = variableOf(this.environment, variable).manual;
    const series = variable
      ? [
          { stroke: colour("s1"), width: 2, points: { show: isManual || undefined, size: 6, stroke: colour("s1"), fill: colour("s1") } },
          hidden,
          hidden,
          { stroke: colour("s2"), width: 2, dash: [6, 4], paths: stepped, points: { show: false } },
        ]
      : this.lanes.flatMap((_, n, all) => [
          { ...hidden, fill: colour("fill3"), paths: stepped, fillTo: () => all.length - 1 - n },
          { stroke: colour("s3"), width: 1.5, paths: stepped, points: { show: false } },
        ]);
    return new uPlot(
      {
        width: element.clientWidth,
        height: this.#height(variable),
        legend: { show: false },
        padding: [8, 8, 0, 0],
        scales: {
          x: { auto: false, range: () => [this.view.value.start, this.view.value.end] },
          y: { range: variable ? (_, low, high) => this.#range(variable, low, high) : () => [0, this.lanes.length] },
        },
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false }, bind: Object.fromEntries(MOUSE.map((name) => [name, () => null])) },
        axes: [
          { ...axis, size: AXIS, space: 72, values: (_, times, __, ___, step) => times.map((time) => timeLabel(time, step)) },
          { ...axis, size: 56, space: 30, ...(variable ? { values: (_, values, __, ___, step) => values.map((value) => number(value, decimals(step))) } : { splits: () => this.lanes.map((_, n) => n), values: () => [] }) },
        ],
        series: [{}, ...series],
        bands: variable ? [{ series: [3, 2], fill: colour("fill1") }] : [],
        hooks: { draw: [(plot) => this.#drawMarks(plot, variable)] },
      },
      this.#data(variable),
      element,
    );
  }

  #height(variable) {
    return variable ? (this.width < 600 ? 150 : 190) : this.lanes.length * LANE + AXIS + 8;
  }

  /** A range that does not magnify the noise of a steady value. */
  #range(variable, low, high) {
    if (low === null) return [0, 1];
    const least = 20 * 10 ** -variableOf(this.environment, variable).precision;
    const more = Math.max(0.08 * (high - low), (least - (high - low)) / 2);
    return [low >= 0 ? Math.max(0, low - more) : low - more, high + more];
  }

  /** Lines at the times of events, with a shape on top: a triangle for a note, a cross for what is wrong. */
  #drawMarks(plot, variable) {
    const { ctx, bbox } = plot;
    const size = 5 * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, 0, bbox.width, bbox.top + bbox.height);
    ctx.clip();
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([]);
    let last = -size;
    for (const { time, kind } of this.timeline.events) {
      const x = Math.round(plot.valToPos(time, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width || (x - last < 2 && kind !== "note")) continue;
      last = x;
      const mark = markOf(kind);
      ctx.strokeStyle = ctx.fillStyle = this.#colours[mark];
      ctx.globalAlpha = mark === "other" ? 0.5 : 0.8;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.beginPath();
      if (mark === "note") {
        ctx.moveTo(x - size, bbox.top - size);
        ctx.lineTo(x + size, bbox.top - size);
        ctx.lineTo(x, bbox.top + size);
        ctx.fill();
      } else if (mark === "bad") {
        ctx.lineWidth = 2 * devicePixelRatio;
        for (const side of [-1, 1]) {
          ctx.moveTo(x - side * 0.7 * size, bbox.top - size);
          ctx.lineTo(x + side * 0.7 * size, bbox.top + 0.4 * size);
        }
        ctx.stroke();
        ctx.lineWidth = devicePixelRatio;
      }
    }
    ctx.restore();
    if (!variable) this.#nameLanes(plot);
  }

  #nameLanes(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = this.#colours.text;
    ctx.font = `${12 * devicePixelRatio}px system-ui`;
    Object.assign(ctx, { textBaseline: "bottom", textAlign: "left" });
    this.lanes.forEach((name, n, all) => ctx.fillText(variableName(name), bbox.left + 4 * devicePixelRatio, plot.valToPos(all.length - 0.35 - n, "y", true)));
    ctx.restore();
  }

  #readColours() {
    const style = this.box.style;
    const read = (name) => {
      style.setProperty("outline-color", `var(--${name})`);
      return getComputedStyle(this.box).outlineColor;
    };
    const colours = Object.fromEntries(["s1", "s2", "s3", "line", "faint", "text"].map((name) => [name, read(name)]));
    Object.assign(colours, { note: read("s4"), bad: read("bad"), other: colours.faint });
    for (const n of [1, 3]) colours[`fill${n}`] = colours[`s${n}`].replace("rgb(", "rgba(").replace(")", ", .22)");
    style.removeProperty("outline-color");
    this.#colours = colours;
  }

  #resize() {
    for (const [variable, plot] of this.#plots) {
      const width = this.elements.get(variable)?.clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: this.#height(variable) });
    }
    this.#placeCursor();
  }

  // the cursor, pointers and keys

  /** Show the values at a time, or with null the newest. */
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

  #listen(box) {
    const on = (name, does, options) => {
      box.addEventListener(name, does, options);
      this.#ends.push(() => box.removeEventListener(name, does));
    };
    on("pointerdown", (event) => this.#press(event));
    on("pointermove", (event) => this.#move(event));
    for (const name of ["pointerup", "pointercancel"]) on(name, (event) => this.#lift(event));
    on("pointerleave", (event) => event.pointerType === "mouse" && !this.#pointers.size && this.point(null));
    on("wheel", (event) => this.#turn(event), { passive: false });
    on("dblclick", (event) => this.#over(event) && this.reset(this.range));
    on("keydown", (event) => this.#key(event));
  }

  /** The place of a pointer as a share of the width of the plot under it; null outside. */
  #over(event) {
    const over = event.target.closest?.(".u-over");
    if (!over) return null;
    const { left, width } = over.getBoundingClientRect();
    return (event.clientX - left) / width;
  }

  #press(event) {
    const at = this.#over(event);
    if (at === null || event.button) return;
    this.#pointers.set(event.pointerId, { at, from: at });
  }

  #move(event) {
    const at = this.#over(event);
    const pointer = this.#pointers.get(event.pointerId);
    if (!pointer) {
      if (at !== null && event.pointerType === "mouse") this.point(this.#timeAt(at));
      return;
    }
    if (at === null || at === pointer.at) return;
    const others = [...this.#pointers.values()].filter((each) => each !== pointer);
    if (others.length) {
      const [other] = others;
      const before = Math.abs(pointer.at - other.at);
      const after = Math.abs(at - other.at);
      if (before > 0.02 && after > 0.02) this.zoom(before / after, (at + other.at) / 2);
      pointer.isDrag = true;
    } else if (pointer.isDrag || Math.abs(at - pointer.from) * this.width > 6) {
      if (!pointer.isDrag) event.target.setPointerCapture?.(event.pointerId);
      pointer.isDrag = true;
      this.pan(pointer.at - at);
    } else {
      return;
    }
    pointer.at = at;
  }

  #lift(event) {
    const pointer = this.#pointers.get(event.pointerId);
    this.#pointers.delete(event.pointerId);
    if (pointer && !pointer.isDrag && event.type === "pointerup") this.point(this.#timeAt(pointer.at));
  }

  #timeAt(share) {
    const { start, end } = this.view.value;
    return start + share * (end - start);
  }

  /** The wheel zooms with Ctrl or once the charts have the focus; else it scrolls the page. Sideways it pans. */
  #turn(event) {
    const at = this.#over(event);
    if (at === null) return;
    const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!isSideways && !event.ctrlKey && !this.box.contains(document.activeElement)) return;
    event.preventDefault();
    if (isSideways) this.pan(event.deltaX / this.width);
    else this.zoom(2 ** (Math.max(-100, Math.min(100, event.deltaY)) / 200), this.view.value.follows && at > 0.9 ? 1 : at);
  }

  #key(event) {
    if (event.target !== this.box || event.ctrlKey || event.altKey || event.metaKey) return;
    const { start, end } = this.view.value;
    const step = (event.key === "ArrowLeft" ? -1 : 1) * (event.shiftKey ? this.timeline?.width ?? 1 : 0.1);
    const cursorAt = this.cursor.value ?? end;
    const does = {
      ArrowLeft: () => (event.shiftKey ? this.point(cursorAt + step) : this.pan(step)),
      ArrowRight: () => (event.shiftKey ? this.point(cursorAt + step) : this.pan(step)),
      "+": () => this.zoom(1 / 1.5),
      "=": () => this.zoom(1 / 1.5),
      "-": () => this.zoom(1.5),
      Home: () => this.reset(this.range),
      End: () => this.follow(),
      Escape: () => this.point(null),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  }
}

const decimals = (step) => (String(Number(step.toPrecision(6))).split(".")[1] ?? "").length;

function timeLabel(time, step) {
  const isMidnight = new Date(time * 1000).getHours() === 0 && new Date(time * 1000).getMinutes() === 0;
  if (step >= 86_400 || (isMidnight && step >= 60)) return day(time);
  return step < 60 ? second(time) : clock(time);
}
