/** The plan of a recipe, drawn: all days small, one day large, and the changes ahead. */
import { clock, date, decimalsIn, duration, local, number, quantity, shown, symbol, unix } from "../lib/format.js";
import { html, useMemo, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";

const DAY = 86_400;
const TALL = 100; // of a drawing; its width is in seconds of the recipe
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 14_400];
const SHOWN = 8; // of the changes ahead, until all are asked for

/** A set point with its unit; null is none. */
const level = (value, unit) =>
  value === null ? t("recipe_released") : unit === "switch" ? t(value >= 0.5 ? "on" : "off")
    : quantity(value, unit, Math.min(2, decimalsIn(shown(value, unit)) ?? 2));

/** "0 lx → 8 000 lx, gradually". */
export const changeText = ({ from, to, unit, to_next: way }) =>
  `${level(from, unit)} → ${level(to, unit)}${way === "hold" ? "" : t("recipe_slowly")}`;

/** Whether a plan goes by the time of day. */
export const isByClock = (plan) => plan.set_points.some((each) => each.daily);

/** The changes ahead, as growd lists them in a plan. */
export function Ahead({ plan, now }) {
  const isPaused = plan.state === "paused";
  const from = isPaused ? plan.start + plan.elapsed : now;
  const [isWhole, showAll] = useState(false);
  const ahead = plan.next.filter((change) => change.time > from);
  if (!ahead.length) return html`<p>${t("recipe_no_change")}</p>`;
  return html`<${Rows} heads=${[isPaused ? "recipe_after_pause" : "recipe_when", "recipe_variable", "recipe_change"]}
    rows=${ahead.slice(0, isWhole ? ahead.length : SHOWN).map((change) => [
      [!isPaused && html`<b>${clock(change.time)}</b> `, html`<span class="faint">${t("recipe_in", { time: duration(change.time - from) })}</span>`],
      variableName(change.variable),
      changeText(change),
    ])} />${!isWhole && ahead.length > SHOWN && html`<button onClick=${() => showAll(true)}>${t("recipe_all_changes", { count: ahead.length })}</button>`}`;
}

/** A table; `heads` are keys of texts. */
export const Rows = ({ heads, rows }) => html`<div class="scroll"><table>
  <thead><tr>${heads.map((each) => html`<th key=${each}>${t(each)}</th>`)}</tr></thead>
  <tbody>${rows.map((row, i) => html`<tr key=${i}>${row.map((each) => html`<td>${each}</td>`)}</tr>`)}</tbody>
</table></div>`;

/**
 * A plan: all days, and one of them large.
 *
 * `before` is a plan to compare with from `elapsed` on, the present in seconds of the recipe (null before a start).
 * `isDated`: its times are those of the clock. `picked` is a chosen place; `onPick` is called with another one.
 */
export function Plan({ plan, before, elapsed = null, isDated, picked = null, onPick }) {
  const [chosen, choose] = useState(null);
  const dated = isDated || elapsed !== null || isByClock(plan);
  const days = useMemo(() => daysOf(plan, dated), [plan, dated]);
  const lines = useMemo(() => linesOf(plan, before, elapsed), [plan, before]);
  const current = dayAt(days, elapsed ?? picked ?? 0);
  const index = Math.min(chosen ?? current, days.length - 1);
  const [from, to] = days[index];
  const about = { plan, days, lines, index, current, from, to, elapsed, picked, dated, choose };
  return html`<div class="plan">
    ${days.length > 1 && html`<${Strip} ...${about} /><${DayPicker} ...${about} />`}
    ${lines.map((line) => html`<${Line} key=${line.variable} ...${about} ...${line} onPick=${onPick} />`)}
    <${Ticks} ...${about} />
    ${plan.truncated && html`<p class="warn">${t("recipe_truncated")}</p>`}
    <${AsTable} ...${about} />
  </div>`;
}

const dayAt = (days, at) => Math.max(0, days.findLastIndex(([from]) => from <= at));

/** Lines at the present and at the chosen place. */
const marks = (elapsed, picked, tall) =>
  [[elapsed, "now"], [picked, "picked"]].map(([at, style]) => at !== null && html`<path class=${style} d=${`M${at} 0V${tall}`} />`);

/** All days, small; a tap chooses one. */
function Strip({ plan, days, lines, from, to, elapsed, picked, choose }) {
  const drawn = useMemo(() => lines.map(({ style, paths }, i) => html`<g class=${style} transform=${`translate(0 ${i * TALL})`}>${paths}</g>`), [lines]);
  const differs = useMemo(() => days.filter(differing(lines, days)), [lines, days]);
  const [first, last] = [days[0][0], days.at(-1)[1]];
  const tall = lines.length * TALL;
  const box = ([from, to], style, tall) => html`<rect class=${style} x=${from} width=${to - from} height=${tall} />`;
  return html`<div class="phases small">
      ${plan.phases.map(({ name, duration }, i) => html`<span title=${name} style=${{ flexGrow: duration - (i ? 0 : first) }}>${name}</span>`)}
    </div>
    <svg class="strip" viewBox=${`${first} -8 ${last - first} ${tall + 8}`} preserveAspectRatio="none" aria-hidden="true"
      onClick=${(event) => choose(dayAt(days, clicked(event, first, last)))}>
      ${drawn}<g transform="translate(0 -8)">${differs.map((day) => box(day, "differs", 6))}</g>
      ${box([from, to], "chosen", tall)}${marks(elapsed, picked, tall)}
    </svg>`;
}

function DayPicker({ plan, days, index, current, from, to, elapsed, picked, dated, choose }) {
  const at = Math.max(from, Math.min(elapsed ?? picked ?? 0, to));
  const phase = plan.phases.findLast(({ begin }) => begin <= at) ?? plan.phases[0];
  const count = Math.max(1, Math.ceil(plan.duration / DAY - 1e-6)); // a plan that starts within a day is on one day more
  const place = t("recipe_day", { day: Math.min(index + 1, count), days: count });
  return html`<input type="range" min="1" max=${days.length} value=${index + 1} aria-label=${t("recipe_choose_day")} aria-valuetext=${place}
      onInput=${({ target }) => choose(target.value - 1)} />
    <p class="faint small">${t("recipe_differs")}</p>
    <div class="turn">
      <button aria-label=${t("recipe_day_before")} disabled=${!index} onClick=${() => choose(index - 1)}>◀</button>
      <b aria-live="polite">${[place, dated && date(plan.start + (from + to) / 2), phase.name].filter(Boolean).join(" · ")}</b>
      ${index !== current && html`<button onClick=${() => choose(null)}>${t(elapsed === null ? "recipe_to_start" : "recipe_today")}</button>`}
      <button aria-label=${t("recipe_day_after")} disabled=${index > days.length - 2} onClick=${() => choose(index + 1)}>▶</button>
    </div>`;
}

/** The day of a variable, large. */
function Line({ plan, from, to, elapsed, picked, onPick, variable, unit, style, line, ends, paths }) {
  const decimals = ends.at(-1) - ends[0] < 10 && ends.some((value) => value % 1) ? 1 : 0;
  const pick = (event) => onPick(Math.max(0, Math.min(plan.duration, clicked(event, from, to))));
  return html`<figure class=${style}>
    <figcaption class="row spread small">
      <span><i></i>${variableName(variable)} <b>${elapsed !== null && elapsed >= from && elapsed < to && level(valueAt(line, elapsed), unit)}</b></span>
      <span class="faint">${ends.map((value) => number(shown(value, unit), decimals)).join(" – ")} ${symbol(unit)}</span>
    </figcaption>
    <svg viewBox=${`${from} 0 ${to - from} ${TALL}`} preserveAspectRatio="none" aria-hidden="true" class=${onPick && "pick"} onClick=${onPick && pick}>
      ${paths}${marks(elapsed, picked, TALL)}
    </svg>
  </figure>`;
}

/** The set points of the day as a table. */
function AsTable({ plan, lines, from, to, dated }) {
  const changes = ({ variable, unit, line }) => inside(line, from, to)
    .filter(([, value], i, all) => value !== all[i - 1]?.[1])
    .map(([at, value]) => ({ at, row: [variableName(variable), level(value, unit)] }));
  const rows = lines.flatMap(changes).sort((one, other) => one.at - other.at);
  return html`<details><summary>${t("recipe_table")}</summary>
    <${Rows} heads=${["recipe_when", "recipe_variable", "recipe_value"]}
      rows=${rows.map(({ at, row }) => [dated && plan.duration > 3_600 ? clock(plan.start + at) : exact(at), ...row])} />
  </details>`;
}

/** Times below the charts: of the day, or since the start. */
function Ticks({ plan, days, from, to, dated }) {
  const step = STEPS.find((each) => (to - from) / each <= 6) ?? DAY / 6;
  const byClock = dated && step >= 300;
  const ticks = [];
  for (let at = byClock && days.length < 2 ? Math.ceil((plan.start + from) / step) * step - plan.start : from; at < to; at += step) ticks.push(at);
  return html`<div class="ticks small faint" aria-hidden="true">
    ${ticks.map((at) => html`<span style=${{ left: `${((at - from) / (to - from)) * 100}%` }}>${byClock ? clock(plan.start + at) : exact(at)}</span>`)}
  </div>`;
}

/** Seconds in words, without rounding: "2 min 30 s". */
export function exact(seconds) {
  let rest = Math.round(seconds);
  const parts = [[DAY, "d"], [3_600, "h"], [60, "min"], [1, "s"]].map(([size, unit]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count && `${count} ${unit}`;
  });
  return parts.filter(Boolean).join(" ") || "0 s";
}

function clicked(event, from, to) {
  const { left, width } = event.currentTarget.getBoundingClientRect();
  return from + ((event.clientX - left) / width) * (to - from);
}

/** [begin, end] of each day in seconds of the recipe: by the calendar, or counted from the start. */
function daysOf({ start, duration }, dated) {
  if (duration <= DAY) return [[0, duration]];
  const midnight = (time) => unix(`${local(time).slice(0, 10)}T00:00`) - start;
  const edges = [dated ? midnight(start) : 0];
  while (edges.at(-1) < duration) edges.push(dated ? midnight(start + edges.at(-1) + 1.5 * DAY) : edges.at(-1) + DAY);
  return edges.slice(1).map((edge, i) => [edges[i], edge]);
}

/** {variable, unit, style, line, ends, paths} of each variable, on its own scale. */
function linesOf(plan, before, elapsed) {
  const units = Object.fromEntries([...plan.set_points, ...(before?.set_points ?? [])].map(({ variable, unit }) => [variable, unit]));
  return Object.entries(units).sort().map(([variable, unit], i) => {
    const line = plan.series[variable] ?? [];
    const other = before?.series[variable] ?? [];
    let [low, high] = [Infinity, -Infinity];
    for (const [, value] of [...line, ...other]) {
      if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
    }
    const isFlat = low === high;
    if (!isFlat && low >= 0 && low <= high / 2) low = 0; // from zero, unless the values are far from it
    const ends = isFlat ? [low] : [low, high];
    if (isFlat) [low, high] = [low - (low ? 1 : 0), high + 1];
    const y = (value) => 99 - ((value - low) / (high - low)) * 95;
    const paths = [html`<path class="line" d=${path(line, y)} />`, html`<path class="before" d=${path(inside(other, elapsed ?? 0, Infinity), y)} />`];
    return { variable, unit, style: `s${(i % 4) + 1}`, line, ends, paths };
  });
}

/** Whether a day is not as the day before. */
function differing(lines, days) {
  const text = ([from, to]) => JSON.stringify(lines.map(({ line }) => inside(line, from, to).map(([at, value]) => [Math.round(at - from), value?.toFixed(1)])));
  const texts = days.map(text);
  return (_, i) => i > 0 && texts[i] !== texts[i - 1];
}

/** The number of points before a time. */
function pointsBefore(line, at) {
  let [from, to] = [0, line.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (line[middle][0] < at) from = middle + 1;
    else to = middle;
  }
  return from;
}

function valueAt(line, at) {
  const next = pointsBefore(line, at + 1e-3);
  const [last, following] = [line[next - 1], line[next]];
  if (!last || !following || last[1] === null || following[1] === null) return last?.[1] ?? null;
  return last[1] + ((following[1] - last[1]) * (at - last[0])) / (following[0] - last[0] || 1);
}

/** The points of a line between two times, with one at the first. */
const inside = (line, from, to) => [[from, valueAt(line, from)], ...line.slice(pointsBefore(line, from + 1e-3), pointsBefore(line, to))];

/** A line as an SVG path; it begins and ends at the bottom. */
function path(line, y) {
  let d = "";
  let isDown = true;
  for (const [at, value] of [...line, [0, null]]) {
    if (value !== null) d += `${isDown ? `M${at} ${TALL}` : ""}L${at} ${y(value).toFixed(1)}`;
    else if (!isDown) d += `V${TALL}`;
    isDown = value === null;
  }
  return d;
}
