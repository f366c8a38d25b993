/** The plan of a recipe, drawn: all days small, one day large, and the changes ahead. */
import { duration, number, quantity, shown, symbol } from "../lib/format.js";
import { html, useMemo, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";

const DAY = 86_400;
const WIDE = 1_000; // of a drawing, in its own units
const TALL = 100;
const STEPS = [1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 3 * 3_600];

/** A set point with its unit, with decimals only where it has some; null is a released one. */
export const level = (value, unit) =>
  value === null ? t("recipe_released") : quantity(value, unit, decimals(shown(value, unit)));
const decimals = (value) => (Math.abs(value - Math.round(value)) < 0.005 ? 0 : 2);

/** Whether a plan goes by the time of day. */
export const isByClock = (plan) => plan.set_points.some((each) => each.daily);

/**
 * A plan: {plan, before, elapsed, zone, onPick}.
 *
 * `before` is a plan to compare with, from `elapsed` on. `elapsed` is the present in seconds of the recipe, null
 * before the start. `onPick` is called with the place that a user chooses.
 */
export function Plan({ plan, before, elapsed = null, picked = null, zone, onPick }) {
  const [chosen, choose] = useState(null);
  const dated = elapsed !== null || isByClock(plan);
  const days = useMemo(() => daysOf(plan, zone, dated), [plan, zone, dated]);
  const current = dayOf(days, elapsed ?? picked ?? 0);
  const index = Math.min(chosen ?? current, days.length - 1);
  const [from, to] = days[index];
  const units = useMemo(() => unitsOf(plan, before), [plan, before]);
  const phase = plan.phases.findLast((each) => each.begin < to && each.begin <= Math.max(from, elapsed ?? 0)) ?? plan.phases[0];
  const marks = [[elapsed, "now"], [picked, "picked"]].filter(([at]) => at !== null);
  const title = days.length > 1 && t("recipe_day", { day: number(index + 1), days: number(days.length) });
  const date = dated && zone.day(plan.start + (from + to) / 2);
  return html`<div class="plan">
    ${days.length > 1 && html`<${Strip} ...${{ plan, before, days, index, marks, units, choose }} />
      <div class="turn">
        <button aria-label=${t("recipe_day_before")} disabled=${!index} onClick=${() => choose(index - 1)}>◀</button>
        <b aria-live="polite">${[title, date, phase.name].filter(Boolean).join(" · ")}</b>
        ${index !== current && html`<button onClick=${() => choose(null)}>${t(elapsed === null ? "recipe_to_start" : "recipe_today")}</button>`}
        <button aria-label=${t("recipe_day_after")} disabled=${index > days.length - 2} onClick=${() => choose(index + 1)}>▶</button>
      </div>`}
    ${Object.entries(units).map(([variable, unit], place) => html`<${Chart} key=${variable} large
      ...${{ variable, unit, place, plan, before, from, to, marks, onPick, elapsed }} />`)}
    <${Ticks} ...${{ plan, from, to, zone, dated }} />
    ${plan.truncated && html`<p class="warn">${t("recipe_truncated")}</p>`}
    <details><summary>${t("recipe_table")}</summary><${Table} ...${{ plan, units, from, to, zone, dated }} /></details>
  </div>`;
}

/** The changes ahead, as growd lists them in a plan. */
export function Ahead({ plan, now, zone }) {
  const isPaused = plan.state === "paused";
  const ahead = plan.next.filter((change) => isPaused || change.time > now);
  if (!ahead.length) return html`<p class="faint">${t("recipe_no_change")}</p>`;
  const begin = isPaused ? plan.start + plan.elapsed : now;
  return html`<div class="scroll"><table>
    <thead><tr><th>${t(isPaused ? "recipe_after_pause" : "recipe_when")}</th><th>${t("recipe_variable")}</th><th>${t("recipe_change")}</th></tr></thead>
    <tbody>${ahead.map((change) => html`<tr key=${`${change.time} ${change.variable} ${change.to_next}`}>
      <td>${!isPaused && html`<b>${zone.clock(change.time)}</b> `}<span class="faint">${t("recipe_in", { time: duration(change.time - begin) })}</span></td>
      <td>${variableName(change.variable)}</td>
      <td>${changeText(change)}</td>
    </tr>`)}</tbody>
  </table></div>`;
}

/** "0 lx → 8 000 lx, slowly". */
export const changeText = ({ from, to, unit, to_next: way }) =>
  `${level(from, unit)} → ${level(to, unit)}${way === "hold" ? "" : t("recipe_slowly")}`;

/** The whole recipe, a thin chart for each day, with phases, days that differ from the one before, and marks. */
function Strip({ plan, before, days, index, marks, units, choose }) {
  const from = days[0][0];
  const to = days.at(-1)[1];
  const x = (at) => ((at - from) / (to - from)) * WIDE;
  const differs = useMemo(() => differing(plan, days), [plan, days]);
  const charts = useMemo(
    () => Object.entries(units).map(([variable, unit], place) => html`<${Chart} key=${variable} ...${{ variable, unit, place, plan, before, from, to, marks: [] }} />`),
    [plan, before, days, units],
  );
  const pick = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    choose(dayOf(days, from + ((event.clientX - box.left) / box.width) * (to - from)));
  };
  return html`<div class="strip">
    <div class="phases">${plan.phases.map((phase, i) => html`<span key=${i} title=${phase.name} style=${{ flexGrow: phase.duration - (i ? 0 : from) }}>${phase.name}</span>`)}</div>
    <div class="days" onClick=${pick}>
      ${charts}
      <svg class="over" viewBox=${`0 0 ${WIDE} ${TALL}`} preserveAspectRatio="none" aria-hidden="true">
        ${differs.map((each) => html`<rect key=${each} class="differs" x=${x(days[each][0])} y="0" width=${Math.max(x(days[each][1]) - x(days[each][0]) - 1, 2)} height="3" />`)}
        <rect class="chosen" x=${x(days[index][0])} y="0" width=${x(days[index][1]) - x(days[index][0])} height=${TALL} />
        ${marks.map(([at, style]) => html`<path key=${style} class=${style} d=${`M${x(at)} 0V${TALL}`} />`)}
      </svg>
    </div>
    <input type="range" min="1" max=${days.length} value=${index + 1} aria-label=${t("recipe_choose_day")}
      aria-valuetext=${t("recipe_day", { day: index + 1, days: days.length })} onInput=${(event) => choose(event.target.value - 1)} />
    <p class="faint small">${t("recipe_differs")}</p>
  </div>`;
}

/** A variable between two times of the recipe, on its own scale. */
function Chart({ variable, unit, place, plan, before, from, to, marks, onPick, elapsed = null, large = false }) {
  const line = plan.series[variable] ?? [];
  const other = before?.series[variable];
  const [low, high] = useMemo(() => scale([...line, ...(other ?? [])]), [line, other]);
  const x = (at) => ((at - from) / (to - from)) * WIDE;
  const y = (value) => TALL - 4 - ((value - low) / (high - low)) * (TALL - 8);
  const paths = useMemo(() => {
    const points = thinned(part(line, from, to), from, to);
    return [
      html`<path class="area" d=${path(points, x, y, TALL)} />`,
      other && html`<path class="before" d=${path(thinned(part(other, Math.max(from, elapsed ?? 0), to), from, to), x, y)} />`,
      html`<path class="line" d=${path(points, x, y)} />`,
    ];
  }, [line, other, from, to]);
  const [at] = marks[0] ?? [null];
  const now = at !== null && at >= from && at < to ? valueAt(line, at) : undefined;
  const pick = onPick && ((event) => {
    const box = event.currentTarget.getBoundingClientRect();
    onPick(Math.max(0, Math.min(plan.duration, from + ((event.clientX - box.left) / box.width) * (to - from))));
  });
  return html`<figure class=${`s${(place % 4) + 1}`}>
    ${large && html`<figcaption class="row spread small">
      <span><i></i>${variableName(variable)} ${now !== undefined && html`<b>${level(now, unit)}</b>`}</span>
      <span class="faint">${number(shown(low, unit), decimals(low))} – ${number(shown(high, unit), decimals(high))} ${symbol(unit)}</span>
    </figcaption>`}
    <svg viewBox=${`0 0 ${WIDE} ${TALL}`} preserveAspectRatio="none" aria-hidden="true" onClick=${pick} class=${onPick ? "pick" : ""}>
      ${paths}
      ${marks.map(([at, style]) => at >= from && at <= to && html`<path key=${style} class=${style} d=${`M${x(at)} 0V${TALL}`} />`)}
    </svg>
  </figure>`;
}

/** Times below the charts: of the day, or since the start. */
function Ticks({ plan, from, to, zone, dated }) {
  const step = STEPS.find((each) => (to - from) / each <= 8) ?? (to - from) / 8;
  const byClock = dated && step >= 300;
  const first = byClock ? Math.ceil((plan.start + from) / step) * step - plan.start : from;
  const ticks = [];
  for (let at = first; at < to; at += step) ticks.push(at);
  return html`<div class="ticks small faint" aria-hidden="true">
    ${ticks.map((at) => html`<span key=${at} style=${{ left: `${((at - from) / (to - from)) * 100}%` }}>${byClock ? zone.clock(plan.start + at) : duration(at)}</span>`)}
  </div>`;
}

/** The same as the charts, for screen readers and for copying. */
function Table({ plan, units, from, to, zone, dated }) {
  const rows = Object.entries(units)
    .flatMap(([variable, unit]) => turns(part(plan.series[variable] ?? [], from, to)).map((each) => ({ ...each, variable, unit })))
    .sort((one, other) => one.at - other.at);
  return html`<div class="scroll"><table>
    <thead><tr><th>${t("recipe_when")}</th><th>${t("recipe_variable")}</th><th>${t("recipe_value")}</th></tr></thead>
    <tbody>${rows.map(({ at, value, variable, unit, isSlow }, i) => html`<tr key=${i}>
      <td>${dated ? zone.clock(plan.start + at) : duration(at)}</td><td>${variableName(variable)}</td>
      <td>${level(value, unit)}${isSlow && t("recipe_slowly")}</td>
    </tr>`)}</tbody>
  </table></div>`;
}

/** [begin, end] of each day in seconds of the recipe: by the calendar, or counted from the start. */
function daysOf({ start, duration }, zone, dated) {
  if (duration <= DAY) return [[0, duration]];
  const midnight = (time) => zone.unix(`${zone.text(time).slice(0, 10)}T00:00:00`);
  const edges = [dated ? midnight(start) - start : 0];
  while (edges.at(-1) < duration) {
    const last = edges.at(-1);
    edges.push(dated ? midnight(start + last + 1.5 * DAY) - start : last + DAY);
  }
  return edges.slice(1).map((edge, i) => [edges[i], edge]);
}

const dayOf = (days, at) => Math.max(0, days.findLastIndex(([from]) => from <= at));

const unitsOf = (plan, before) =>
  Object.fromEntries([...plan.set_points, ...(before?.set_points ?? [])].map(({ variable, unit }) => [variable, unit]));

/** The days that are not as the day before. */
function differing(plan, days) {
  const lines = Object.values(plan.series);
  const round = (value) => value && Math.round(value * 100) / 100;
  const texts = days.map(([from, to]) =>
    JSON.stringify(lines.map((line) => part(line, from, to).map(([at, value]) => [Math.round(at - from), round(value)]))),
  );
  return days.map((_, i) => i).filter((i) => i && texts[i] !== texts[i - 1]);
}

/** [low, high] of what is drawn: from zero, unless the values are far from it. */
function scale(line) {
  let low = Infinity;
  let high = -Infinity;
  for (const [, value] of line) {
    if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  if (low > high) return [0, 1];
  if (low >= 0 && low <= high / 2) return [0, high || 1];
  const room = (high - low || 2) / 10;
  return [low - room, high + room];
}

/** The number of points of a line before a time. */
function pointsBefore(line, at) {
  let [from, to] = [0, line.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (line[middle][0] < at) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** The value just before (`isBefore`), or at a time. */
function valueAt(line, at, isBefore = false) {
  let next = pointsBefore(line, at);
  if (!isBefore) while (next < line.length && line[next][0] <= at) next++;
  const [last, following] = [line[next - 1], line[next]];
  if (!last || !following || last[1] === null || following[1] === null) return last?.[1] ?? null;
  return last[1] + ((following[1] - last[1]) * (at - last[0])) / (following[0] - last[0] || 1);
}

/** A line between two times. */
function part(line, from, to) {
  const end = Math.min(to, line.at(-1)?.[0] ?? from);
  if (end < from) return [];
  const inside = line.slice(pointsBefore(line, from), pointsBefore(line, end)).filter(([at]) => at > from);
  return [[from, valueAt(line, from)], ...inside, [end, valueAt(line, end, true)]];
}

/** The points at which a line changes its direction, with the way to them. */
const turns = (points) =>
  points.flatMap(([at, value], i) => {
    const [before, after] = [points[i - 1], points[i + 1]];
    const isStep = after?.[0] === at;
    const isSlow = !!before && before[0] < at && before[1] !== null && value !== null && before[1] !== value;
    const goesOn = isSlow && after && after[0] > at && after[1] !== null && (after[1] - value) * (value - before[1]) > 0;
    const isSame = !!before && before[1] === value && !isSlow && (!after || after[1] === value || isStep);
    return (isStep && !isSlow) || goesOn || isSame ? [] : [{ at, value, isSlow }];
  });

/** Of very many points the first, lowest, highest and last in each of `WIDE` columns. */
function thinned(points, from, to) {
  if (points.length <= 4 * WIDE) return points;
  const columns = new Map();
  for (const point of points) {
    const column = Math.floor(((point[0] - from) / (to - from)) * WIDE);
    const found = columns.get(column) ?? [point, point, point, point];
    if (point[1] < found[1][1]) found[1] = point;
    if (point[1] > found[2][1]) found[2] = point;
    found[3] = point;
    columns.set(column, found);
  }
  return [...columns.values()].flat();
}

/** A line as an SVG path, down to `base` at its ends if that is given. */
function path(points, x, y, base = null) {
  let d = "";
  let last = null;
  for (const [at, value] of [...points, [0, null]]) {
    if (value === null) {
      if (last !== null && base !== null) d += `V${base}Z`;
      last = null;
    } else {
      const place = `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      d += last !== null ? `L${place}` : base === null ? `M${place}` : `M${x(at).toFixed(1)} ${base}L${place}`;
      last = at;
    }
  }
  return d;
}
