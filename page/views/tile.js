/** `Tile`: one value with its set point, its state by shape and colour, and the last 24 hours. */
import { decimals, decimalsIn, duration, number, shown, symbol } from "../lib/format.js";
import { html, useId, useMemo } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { Age } from "../lib/levels.js";
import { connection, growdNow, useStatus, useTopic } from "../lib/live.js";
import { useSignal } from "../lib/signal.js";
import { interlockName } from "../lib/names.js";
import { lockOf, useJudgement } from "../lib/verdict.js";

const DAY = 86_400;
const SHORTEST_S = 600; // of a curve that begins with the first value
const MARKS = { at_set_point: "✓", approaching: "…", off: "▲", held: "▲", unknown: "✖\ufe0e", free: "", starting: "" };
const SHORT = { "µmol/m²/s": "µmol", "mol/m²": "mol", "°C d": "°C d" };
const TALL = 40; // of the drawing; it is 100 wide
const MANY_LUX = 1_000;

const newest = new Map(); // the last message of each variable that was known, also while another view is shown

export function Tile({ environment, variable, day, kept, isWide, onOpen }) {
  const { variable: name, unit } = variable;
  const id = useId();
  const isLight = ["light_ppfd", "light_illuminance"].includes(name);
  const { isConnected, silence } = useSignal(connection);
  const message = useTopic(`${environment}/measured/${name}`) ?? kept;
  const wanted = useTopic(`${environment}/desired/${name}`)?.value ?? null;
  const judged = useJudgement(environment, name);
  const status = useStatus();
  const hand = status?.set_points.some((each) => each.environment === environment && each.variable === name);
  const isKnown = message?.quality === "ok";
  const isByHand = isKnown && (judged.measured ?? message).by === "hand";
  const place = `${environment}/${name}`;
  if (isKnown) newest.set(place, message);
  const judgement = stateOf(variable, message, wanted, judged);
  const lock = ["approaching", "off"].includes(judgement) ? lockOf(status, environment, [name, ...variable.outputs, ...(isLight ? ["light_illuminance"] : [])]) : "";
  const state = lock ? "held" : judgement;
  const greatest = Math.max(isKnown ? message.value : 0, wanted ?? 0); // both in one unit
  const { text, sign } = short(variable, isKnown ? message.value : null, greatest);
  const target = wanted === null ? "" : short(variable, wanted, greatest, true).text;
  const old = isKnown || state === "starting" ? "" : lastKnown(variable, newest.get(place), day);
  return html`<article class=${`tile ${state} ${isWide ? "wide_only" : ""}`} aria-labelledby=${id}>
    <button aria-haspopup="dialog" onClick=${onOpen}>
      <span class="name"><span id=${id}>${variableName(isLight ? "light_illuminance" : name)}</span>
        ${isLight && html`<${LightOfDay} environment=${environment} />`}
        ${hand && html`<svg class="hand" viewBox="0 0 10 10" role="img" aria-label=${`${t("set_point")} ${t("by_hand")}`}><circle cx="5" cy="2.6" r="2.4" /><path d="M0 10a5 5 0 0 1 10 0z" /></svg>`}
        <span class="state" aria-hidden="true">${MARKS[state]}</span><span class="hidden">${MARKS[state] && t(lock ? "held_interlock" : `state_${state}`)}</span></span>
      ${isKnown ? html`<span class="figure"><strong>${text}</strong> <span class="unit">${sign}</span>
          ${target && html`<span class="target"><span aria-hidden="true">→ </span><span class="hidden">${t("set_point")} </span>${target}</span>`}</span>
          ${lock && html`<span class="old_value">${t("held_for", { name: interlockName(lock) })}</span>`}
          ${!lock && (isByHand || message.isKept || (!isConnected && silence !== null)) && html`<span class="old_value">${isByHand && `${t("by_hand")}, `}<${Age} time=${message.time} /></span>`}`
        : html`<span class="figure"><strong class="words">${message ? t(`quality_${message.quality}`) : "–"}</strong></span>
          ${old && html`<span class="old_value">${old}</span>`}`}
      ${(isKnown || state === "starting") && html`<${Spark} series=${day?.series[name]} step=${day?.bucket_s} message=${message} judged=${judged} unit=${10 ** -decimals(variable)} />`}
    </button>
  </article>`;
}

/** growd's judgement, and what the stream says earlier: a lost value, and a new set point. A calculated value follows from others. */
function stateOf({ derived: isDerived }, message, wanted, judged) {
  if (!message || message.quality === "none" || message.quality === "warm-up") return "starting";
  if (message.quality !== "ok") return isDerived ? "starting" : "unknown";
  if (wanted === null) return "free";
  if ((judged.desired?.value ?? null) !== wanted) return "approaching"; // growd has not judged it yet
  return MARKS[judged.state] === undefined || judged.state === "unknown" ? "approaching" : judged.state;
}

/** A value and its unit, short enough for a tile; a set point with no more decimals than it needs. */
function short({ unit, precision }, value, greatest = value, isPlain = false) {
  const sign = SHORT[symbol(unit)] ?? (unit === "pH" ? "" : symbol(unit));
  if (value === null) return { text: "", sign };
  const inUnit = shown(value, unit);
  const places = (it, most) => (isPlain ? Math.min(most, decimalsIn(it) ?? most) : most);
  if (unit === "lux" && greatest >= MANY_LUX) return { text: number(value / 1_000, places(value / 1_000, 1)), sign: "klx" };
  return { text: number(inUnit, places(inUnit, decimals({ unit, precision }))), sign };
}

/** The newest value that was known: of the stream, else of the history. */
function lastKnown(variable, message, day) {
  const { measured, breaks = [] } = day?.series[variable.variable] ?? {};
  const { time = [], last = [] } = measured ?? {};
  const ended = breaks.findLast((each) => each >= time.at(-1)) ?? time.at(-1) + day?.bucket_s;
  const found = message ?? (time.length ? { value: last.at(-1), time: Math.min(ended, growdNow()) } : null);
  if (!found) return "";
  const { text, sign } = short(variable, found.value);
  return t("last_known", { value: `${text} ${sign}`.trim(), time: duration(growdNow() - found.time) });
}

/** The light of the day so far, as a ring that is full when the day has what it should. */
function LightOfDay({ environment }) {
  const name = "light_daily_integral";
  const value = useTopic(`${environment}/measured/${name}`)?.value;
  const wanted = useTopic(`${environment}/desired/${name}`)?.value ?? useTopic(`${environment}/measured/${name}_expected`)?.value;
  if (typeof value !== "number") return null;
  const share = wanted > 0 ? Math.min(1, value / wanted) : 0;
  return html`<span class="of_day"><svg class="ring" viewBox="0 0 20 20" aria-hidden="true"><circle r="8" cx="10" cy="10" />
      ${share > 0 && html`<circle class="done" r="8" cx="10" cy="10" pathLength="1" stroke-dasharray=${`${share} 1`} />`}</svg>
    <span class="hidden">${variableName(name)} </span>${number(value, value < 9.95 ? 1 : 0)} mol</span>`;
}

/** The last 24 hours with the set point as a band; the newest value comes from the stream. */
function Spark({ series, step, message, judged, unit }) {
  const minute = Math.floor((message?.time ?? 0) / 60);
  return useMemo(() => html`<svg class="spark" viewBox=${`0 0 100 ${TALL}`} preserveAspectRatio="none" aria-hidden="true">
    ${series && drawn(series, step, message, judged, unit)}</svg>`, [series, minute, message?.quality, judged.low]);
}

function drawn({ measured, desired, holds_s: holds }, step, message, { low: least, high: most }, unit) {
  const end = Math.max(message?.time ?? 0, growdNow());
  const first = measured.before ? 0 : measured.time[0] ?? end;
  const start = Math.max(end - DAY, Math.min(first, end - SHORTEST_S)); // of a young chamber from its first value on
  const points = measured.time.map((time, i) => [Math.min(time + step / 2, message?.time ?? end), measured.mean[i]]).filter(([time]) => time > start);
  if (message?.quality === "ok" && Number.isFinite(message.value)) points.push([message.time, message.value]);
  const half = least != null && most != null ? (most - least) / 2 : 0;
  const wanted = [[start, desired.before?.value ?? null], ...desired.time.map((time, i) => [Math.max(time, start), desired.last[i]])];
  const bands = wanted.map(([from, value], i) => ({ from, to: wanted[i + 1]?.[0] ?? end, value })).filter(({ from, to, value }) => value !== null && to > from);
  const values = [...points.map(([, value]) => value), ...bands.flatMap(({ value }) => [value - half, value + half])];
  const [low, high] = spread(Math.min(...values), Math.max(...values), Math.max(4 * half, 10 * unit));
  const x = (time) => (100 * (time - start)) / (end - start);
  const y = (value) => TALL - 2 - ((TALL - 4) * (value - low)) / (high - low);
  const thick = Math.max(2, y(0) - y(2 * half));
  const line = points.map(([time, value], i) => `${i && time - points[i - 1][0] <= holds + step ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  return html`${bands.map(({ from, to, value }) => html`<rect x=${x(from).toFixed(1)} width=${(x(to) - x(from)).toFixed(1)} y=${(y(value) - thick / 2).toFixed(1)} height=${thick.toFixed(1)} />`)}
    <path d=${line} />`;
}

/** Ends that are at least `least` apart. */
function spread(low, high, least) {
  if (!(high >= low)) return [0, 1];
  const room = Math.max(0, least - (high - low)) / 2;
  return [low - room, high + room];
}
