/** The values of variables over time in buckets of equal width: stored ones, continued by the stream. */
import { growdTime } from "../lib/live.js";

const COLUMNS = { measured: ["min", "mean", "max"], desired: ["desired"], commanded: ["commanded", "most"] };
const MOST_EVENTS = 500;

export const CATEGORIES = Object.keys(COLUMNS);

/**
 * A value holds until the next one: a measurement for as long as growd says, or until it is no longer known. `most` is
 * the greatest command in a bucket. null is a gap. While growd did not run, nothing is known.
 */
export class Timeline {
  times = []; // at which buckets begin

  /** Of an answer of `GET history`, or of live values only. */
  constructor(names, { start, end, bucket_s: width, series = [], events = [], events_truncated: isShortened }) {
    Object.assign(this, { start, end, width, events, isShortened });
    this.of = Object.fromEntries(names.map((name) => [name, { min: [], mean: [], max: [], desired: [], commanded: [], most: [], now: {}, at: -1, count: 0, held: null, isCut: true, reach: 60 / width }]));
    const rests = this.#rests(series);
    for (const each of series) this.#read(this.of[each.variable], each, rests);
    this.grow(Math.min(end, growdTime.value));
  }

  index(time) {
    return Math.floor((time - this.start) / this.width);
  }

  /** Whether values that come now belong to it. */
  get isLive() {
    return growdTime.value < this.end + 30 * this.width;
  }

  /** Make all columns reach to a time. */
  grow(time) {
    this.end = Math.max(this.end, time);
    while (this.times.length <= this.index(time)) this.times.push(this.start + this.times.length * this.width);
    for (const one of Object.values(this.of)) for (const category of CATEGORIES) fill(one, category, this.times.length);
  }

  /** Forget the oldest buckets. */
  drop(count) {
    this.start += count * this.width;
    this.times.splice(0, count);
    for (const one of Object.values(this.of)) {
      one.at -= count;
      for (const key in one) if (Array.isArray(one[key])) one[key].splice(0, count);
    }
  }

  /** Take a message of the stream. */
  take(name, category, { time, value, quality }) {
    const one = this.of[name];
    const isKnown = quality === "ok" && Number.isFinite(value);
    if (category === "measured" && !isKnown) this.#lose(one, time);
    else if (isKnown || value === null) this.#put(one, category, this.index(time), { last: value });
  }

  note(event) {
    const isKnown = this.events.some((each) => Math.abs(each.time - event.time) < 0.01 && each.message === event.message);
    if (!isKnown) this.events = [...this.events, event].slice(-MOST_EVENTS);
  }

  /** {min, mean, max, desired} at a time; those that are unknown are null or undefined. */
  at(name, time) {
    const { min, mean, max, desired } = this.of[name];
    const i = Math.min(this.times.length - 1, this.index(time));
    return { min: min[i], mean: mean[i], max: max[i], desired: desired[i] };
  }

  /** {last, desired}: the newest values, of a measurement that still holds. */
  newest(name) {
    const { isCut, at, reach, held, desired } = this.of[name];
    const i = this.times.length - 1;
    return { last: !isCut && i - at <= Math.max(1, reach) ? held : null, desired: desired[i] };
  }

  /** [least, greatest] of a variable and its set point from a time to another; [Infinity, -Infinity] of nothing. */
  span(name, start, end, keys = ["min", "max", "desired"]) {
    const found = [Infinity, -Infinity];
    for (let i = Math.max(0, this.index(start)); i < Math.min(this.times.length, this.index(end) + 1); i += 1) {
      for (const key of keys) {
        const value = this.of[name][key][i];
        if (value == null) continue;
        found[0] = Math.min(found[0], value);
        found[1] = Math.max(found[1], value);
      }
    }
    return found;
  }

  /** The times in which growd did not run: [[from, to], ...]. Without a noted end, from the last bucket with a point. */
  #rests(series) {
    const all = series.flatMap((each) => CATEGORIES.flatMap((category) => each[category].time));
    const rests = [];
    let from = null;
    for (const { kind, time } of this.events) {
      if (kind === "stop") from = time;
      if (kind !== "restart") continue;
      const last = all.reduce((latest, at) => (at + this.width <= time ? Math.max(latest, at + this.width) : latest), this.start);
      rests.push([from ?? last, time]);
      from = null;
    }
    return from === null ? rests : [...rests, [from, Infinity]];
  }

  /** Take a series of an answer: its points, and where its values end, in their order. */
  #read(one, { breaks, resumes = [], holds_s: holds, ...each }, rests) {
    one.reach = holds / this.width;
    const { before } = each.measured;
    if (before && before.value !== null) Object.assign(one, { at: this.index(before.time), held: before.value, isCut: false });
    for (const category of CATEGORIES) {
      const { before: first, time, ...columns } = each[category];
      if (category !== "measured" && first) one.now[category] = first.value;
      // points come after the return of the value in their bucket, and before its end
      const returns = new Map([...rests.map(([, to]) => to), ...(category === "measured" ? resumes : [])].map((at) => [this.index(at), at]));
      const ends = [...rests.map(([from]) => from), ...(category === "measured" ? breaks : [])].map((at) => ({ at, does: () => this.#lose(one, at, category) }));
      const points = time.map((at, n) => {
        const [last, min, mean, max, count] = ["last", "min", "mean", "max", "count"].map((key) => columns[key][n]);
        return { at: returns.get(this.index(at)) ?? at, does: () => (count || category !== "measured") && this.#put(one, category, this.index(at), { last, min, mean, max, count }) };
      });
      for (const { does } of [...ends, ...points].sort((a, b) => a.at - b.at)) does();
    }
  }

  /** The value is no longer known. */
  #lose(one, time, category = "measured") {
    const i = this.index(time);
    if (category === "measured" ? i < one.at : i < 0) return;
    const { length } = one[COLUMNS[category][0]];
    fill(one, category, i);
    for (const key of COLUMNS[category]) one[key].length = category === "measured" ? Math.max(i, one.at + 1) : i;
    if (category === "measured") one.isCut = true;
    else one.now[category] = null;
    fill(one, category, length);
  }

  #put(one, category, i, { last, min = last, mean = last, max = last, count = 1 }) {
    if (i < 0 || (category === "measured" && i < one.at)) return;
    fill(one, category, i + 1);
    if (category !== "measured") {
      one.now[category] = last;
      const most = Math.max(one.most[i], max);
      for (const key of COLUMNS[category]) one[key].fill(last, i);
      if (category === "commanded") one.most[i] = most;
      return;
    }
    const { length } = one.mean;
    const before = i === one.at ? one.count : 0;
    one.min[i] = before ? Math.min(one.min[i], min) : min;
    one.mean[i] = (before * one.mean[i] + count * mean) / (before + count);
    one.max[i] = before ? Math.max(one.max[i], max) : max;
    for (const key of COLUMNS.measured) one[key].length = i + 1; // the value before holds until here
    Object.assign(one, { at: i, count: before + count, held: last, isCut: false });
    fill(one, category, length);
  }
}

/** [[from, to], ...]: when one of `interlocks` (their names) or a hold held outputs, by the events and by what the status has now. */
export function heldSpans(events, interlocks, { holds = [], interlocks: locks = [] } = {}) {
  const spans = [...holds, ...locks.filter(({ name, tripped }) => tripped && interlocks.includes(name.split("/").pop()))].map(({ since }) => [since, Infinity]);
  const begun = {};
  const end = (key, time, from) => (from !== undefined && spans.push([from, time]), delete begun[key]);
  for (const { time, kind, source, code, details } of events) {
    const said = code || details?.code || "";
    if (kind === "stop" || kind === "restart") for (const key of Object.keys(begun)) end(key, time, begun[key]);
    if (kind !== "hold" && !(kind === "interlock" && interlocks.includes(source))) continue;
    const key = kind === "hold" ? kind : source;
    if (said.endsWith("released")) end(key, time, begun[key] ?? -Infinity);
    else if (said === "problem_over") end(key, time); // it held nothing
    else begun[key] ??= time;
  }
  return spans;
}

/** Make the columns of a category so long; what holds goes on. */
function fill(one, category, length) {
  for (const key of COLUMNS[category]) {
    while (one[key].length < length) {
      const holds = category === "measured" ? !one.isCut && one[key].length - one.at <= one.reach : true;
      one[key].push(holds ? (category === "measured" ? one.held : one.now[category] ?? null) : null);
    }
  }
}
