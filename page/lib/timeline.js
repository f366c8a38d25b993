/** Stored values in buckets of equal width, as `GET history` answers them, continued by the stream. */
import { shown } from "./format.js";

const HOLDS_S = 660; // a stored value holds for so long: a little more than `[store] maximum_interval_s`
const MOST_EVENTS = 500;

/** A measured variable: null is a gap, undefined is a bucket without a point between two of one line. */
class Curve {
  mean = [];
  min = [];
  max = [];
  #count = [];
  #at = -1; // the last bucket with a value
  #isBroken = false;

  constructor(holds) {
    this.holds = holds; // buckets
  }

  advance(length) {
    for (const each of [this.mean, this.min, this.max]) while (each.length < length) each.push(null);
  }

  put(i, min, mean, max, count = 1) {
    if (i < this.#at) return;
    this.advance(i + 1);
    if (this.#at >= 0 && !this.#isBroken && i - this.#at <= this.holds) {
      for (const each of [this.mean, this.min, this.max]) each.fill(undefined, this.#at + 1, i);
    }
    const before = i === this.#at ? this.#count[i] : 0;
    this.mean[i] = ((this.mean[i] ?? 0) * before + mean * count) / (before + count);
    this.min[i] = before ? Math.min(this.min[i], min) : min;
    this.max[i] = before ? Math.max(this.max[i], max) : max;
    this.#count[i] = before + count;
    this.#at = i;
    this.#isBroken = false;
  }

  /** The value is not known from now on. */
  cut() {
    this.#isBroken = true;
  }

  /** The bucket whose value holds at a bucket, -1 for none. */
  holding(i) {
    const at = Math.min(i, this.#at);
    if (at < i && this.#isBroken) return -1;
    let n = at;
    while (n >= 0 && this.mean[n] === undefined) n -= 1;
    return n >= 0 && i - n <= this.holds && this.mean[n] !== null ? n : -1;
  }

  drop(buckets) {
    for (const each of [this.mean, this.min, this.max, this.#count]) each.splice(0, buckets);
    this.#at -= buckets;
  }
}

/** A value that holds until the next one: a set point or a command; null is released. */
class Steps {
  last = [];
  most = []; // the greatest value in each bucket

  constructor(value) {
    this.value = value;
  }

  advance(length) {
    while (this.last.length < length) {
      this.last.push(this.value);
      this.most.push(this.value);
    }
  }

  put(i, last, most = last) {
    if (i < this.last.length - 1) return;
    this.advance(i + 1);
    this.most[i] = Math.max(this.most[i] ?? 0, most ?? 0);
    this.last[i] = this.value = last;
  }

  drop(buckets) {
    for (const each of [this.last, this.most]) each.splice(0, buckets);
  }
}

export class Timeline {
  /** `answer` of `GET history`, or one without series; `now` is the time of growd. */
  constructor({ start, end, bucket_s: width, series, events, events_truncated: isShortened }, now) {
    Object.assign(this, { start, end, width, times: [], series: {}, events, isShortened });
    const restarts = events.filter((each) => each.kind === "restart").map((each) => each.time);
    for (const each of series) {
      const { unit, measured, desired, commanded } = each;
      const curve = new Curve(Math.max(1, Math.ceil((each.holds_s ?? HOLDS_S) / width)));
      const breaks = [...(each.breaks ?? []), ...restarts].sort((one, other) => one - other);
      measured.time.forEach((time, n) => {
        while (breaks[0] < time) {
          curve.cut();
          breaks.shift();
        }
        if (measured.count[n]) curve.put(this.index(time), ...["min", "mean", "max"].map((key) => shown(measured[key][n], unit)), measured.count[n]);
      });
      this.series[each.variable] = { unit, curve, desired: this.#steps(desired, unit), commanded: this.#steps(commanded, "") };
    }
    this.advance(Math.min(end, now));
  }

  /** The bucket of a time. */
  index(time) {
    return Math.floor((time - this.start) / this.width);
  }

  /** Whether values that come now belong to it. */
  isLive(now) {
    return now < this.end + 30 * this.width;
  }

  /** Make all columns reach to a time. */
  advance(time) {
    const length = this.index(time) + 1;
    while (this.times.length < length) this.times.push(this.start + (this.times.length + 0.5) * this.width);
    for (const each of this.#columns()) each.advance(length);
    this.end = Math.max(this.end, time);
  }

  /** Take a message of the stream; `category` is "measured", "desired" or "commanded". */
  take(category, variable, { time, value, quality }) {
    const { unit, curve, [category]: steps } = this.series[variable] ?? {};
    if (!curve || time < this.start) return;
    this.advance(time);
    const isKnown = quality === "ok" && Number.isFinite(value);
    const i = this.index(time);
    if (category === "measured") {
      if (isKnown) curve.put(i, ...Array(3).fill(shown(value, unit)));
      else curve.cut();
    } else if (value === null || isKnown) {
      steps.put(i, value === null ? null : category === "desired" ? shown(value, unit) : value);
    }
  }

  /** Take an event that has just happened. */
  note(event) {
    if (event.kind === "restart") for (const { curve } of Object.values(this.series)) curve.cut();
    if (this.events.some((each) => Math.abs(each.time - event.time) < 0.01 && each.message === event.message)) return;
    this.events = [...this.events, event].slice(-MOST_EVENTS);
  }

  /** Forget the oldest buckets. */
  drop(buckets) {
    for (const each of this.#columns()) each.drop(buckets);
    this.times.splice(0, buckets);
    this.start += buckets * this.width;
  }

  /** {mean, min, max, desired, commanded} at a bucket; of a bucket without a point, the value that holds. */
  at(variable, i) {
    const { curve, desired, commanded } = this.series[variable] ?? {};
    if (!curve) return {};
    const n = curve.holding(i);
    return { mean: curve.mean[n], min: curve.min[n], max: curve.max[n], desired: desired.last[i], commanded: commanded.last[i] };
  }

  #steps(column, unit) {
    const of = (value) => (value === null ? null : shown(value, unit));
    const steps = new Steps(column.before ? of(column.before.value) : null);
    column.time.forEach((time, n) => steps.put(this.index(time), of(column.last[n]), of(column.max[n])));
    return steps;
  }

  #columns() {
    return Object.values(this.series).flatMap(({ curve, desired, commanded }) => [curve, desired, commanded]);
  }
}
