/** One variable of a chamber: its value, its trend, its set point, who commands it and what its outputs do. */
import { publish } from "./api.js";
import { clock, decimals, decimalsIn, duration, given, number, parseNumber, shown, symbol, typed } from "./format.js";
import { html, useEffect, useId, useRef, useState } from "./html.js";
import { t, variableName } from "./i18n.js";
import { isShare, levelText, setPointText, useWritten } from "./levels.js";
import { growdNow, topic, useStatus, useTopic, variableOf } from "./live.js";
import { authorName, interlockName } from "./names.js";
import { Action, act, withoutCommand } from "./parts.js";
import { mayOperate } from "./session.js";
import { holderOf, reasonOf, sentence } from "./verdict.js";

export * from "./levels.js";

const PLANNED = { air_humidity: ["air_vapour_pressure_deficit"], light_illuminance: ["light_ppfd", "light_daily_integral"] };
const HOLD = "the hold"; // in `held_by` while all outputs are held
const SHOWN_MS = 2_000;
const TREND_POINTS = 60;
const TREND_STEP_S = 5;
const TREND_GAP_S = 60;
const LEAST_POINTS = 6;
const RATE_POINTS = 12; // a minute or more; older ones are for the line only

/** The large value with its unit; a dash if growd does not know it. */
export function Value({ variable, message }) {
  const value = message?.value;
  const isKnown = value !== null && value !== undefined;
  if (variable.unit === "switch") return html`<span class="value">${isKnown ? levelText(variable, value) : "–"}</span>`;
  return html`<span class="value">${isKnown ? number(shown(value, variable.unit), decimals(variable)) : "–"}<span class="unit"> ${symbol(variable.unit)}</span></span>`;
}

// trend

const trends = new Map(); // topic -> [[time, value], ...] of the last minutes; bounded by the topics of growd

function note(name, message) {
  if (message?.quality !== "ok" || typeof message.value !== "number") return;
  const points = trends.get(name) ?? [];
  const [last, before] = [points.at(-1)?.[0], points.at(-2)?.[0]];
  const passed = message.time - last;
  if (passed < TREND_STEP_S) return;
  const isNew = passed > Math.max(TREND_GAP_S, 10 * (last - before)); // the page has not heard it for a while
  trends.set(name, [...(isNew ? [] : points), [message.time, message.value]].slice(-TREND_POINTS));
}

/**
 * The rate of the last points in 1/s: 0 within the noise, null while there are too few or the way has just turned.
 *
 * Neither is there one if the value `present` ([time, value]) is far from the line through them: that was a step.
 */
export function rateOf(all, present) {
  const points = afterStep(all.slice(-RATE_POINTS));
  const n = points.length;
  if (n < LEAST_POINTS) return null;
  const mean = (index) => points.reduce((sum, point) => sum + point[index], 0) / n;
  const [x0, y0] = [mean(0), mean(1)];
  const sum = (f) => points.reduce((all, [x, y]) => all + f(x - x0, y - y0), 0);
  const xx = sum((x) => x * x);
  const slope = sum((x, y) => x * y) / xx;
  const error = Math.sqrt(sum((x, y) => (y - slope * x) ** 2) / (n - 2) / xx);
  if (present) {
    const expected = y0 + slope * (present[0] - x0);
    const noise = error * Math.sqrt(xx); // of one point
    if (Math.abs(present[1] - expected) > Math.max(6 * noise, 0.02 * Math.abs(y0))) return null;
  }
  if (Math.abs(slope) <= 3 * error) return 0;
  const newest = points.at(-1)[1] - points.at(-3)[1];
  return newest * slope < 0 ? null : slope;
}

/** The points after the last step: a jump of more than half of what they span; noise is less than 2 %. */
function afterStep(points) {
  const values = points.map((point) => point[1]);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const isStep = (value, i) => i > 0 && most - least > 0.02 * Math.abs(most + least) / 2 && Math.abs(value - values[i - 1]) > (most - least) / 2;
  const step = values.findLastIndex(isStep);
  return step > 0 ? afterStep(points.slice(step)) : points;
}

/** The arrow, the rate of change and a small line of the last minutes. */
export function Trend({ name, variable }) {
  const message = useTopic(name);
  useEffect(() => topic(name).follow((each) => note(name, each)), [name]);
  if (message) note(name, message);
  const points = trends.get(name) ?? [];
  if (message?.quality !== "ok" || variable.unit === "switch") return null;
  const rate = rateOf(points, [message.time, message.value]);
  if (rate === null) return null;
  const slope = rate * (shown(1, variable.unit) - shown(0, variable.unit));
  const places = decimals(variable);
  const perMinute = Math.abs(slope * 60) >= 10 ** -places;
  const size = Math.abs(slope) * (perMinute ? 60 : 3600);
  const text = `${number(size, size < 10 ? places : 0)} ${symbol(variable.unit)}${t(perMinute ? "per_min" : "per_h")}`;
  const isSteady = Number(size.toFixed(places)) === 0;
  const words = isSteady ? t("steady") : t(slope > 0 ? "rises" : "falls", { rate: text });
  return html`<span class="trend small"><span aria-hidden="true">${isSteady ? "→" : slope > 0 ? "↗" : "↘"}</span> ${words} <${Line} points=${points} /></span>`;
}

function Line({ points }) {
  const values = points.map((point) => point[1]);
  const [x0, x1] = [points[0][0], points.at(-1)[0]];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const at = ([x, y]) => `${(60 * (x - x0)) / (x1 - x0)},${high > low ? 18 - (16 * (y - low)) / (high - low) : 10}`;
  return html`<svg class="line" viewBox="0 0 60 20" aria-hidden="true"><polyline points=${points.map(at).join(" ")} /></svg>`;
}

// set point

const decimalsOf = (variable) => (isShare(variable) ? 1 : variable.precision);

/** The set point as a field in the row; its present value for those who may not change it. */
export function SetPoint({ environment, name }) {
  const variable = variableOf(environment, name);
  const message = useTopic(`${environment}/desired/${name}`);
  const value = message?.value ?? null;
  if (variable.unit === "switch") return html`<${Switch} environment=${environment} variable=${variable} value=${value} />`;
  if (!mayOperate()) return html`<${SetPointText} environment=${environment} name=${name} />`;
  return html`<${Field} environment=${environment} variable=${variable} value=${value} />`;
}

/** The set point in words. */
export function SetPointText({ environment, name }) {
  const value = useTopic(`${environment}/desired/${name}`)?.value ?? null;
  return html`<p class="small">${t("set_point")}: ${value === null ? t("no_set_point") : setPointText(variableOf(environment, name), value)}</p>`;
}

function Field({ environment, variable, value }) {
  const [draft, setDraft] = useState(null); // what is typed, null while the field shows the set point
  const [isBusy, setBusy] = useState(false);
  const id = useId();
  const present = value === null ? "" : typed(shown(value, variable.unit), decimalsIn(shown(value, variable.unit)) ?? decimalsOf(variable));
  const wanted = given(parseNumber(draft ?? ""), variable.unit);
  const range = rangeText(variable, [variable.minimum, variable.maximum]);
  const error = !draft ? "" : Number.isNaN(wanted) ? t("not_a_number", { range })
    : wanted < variable.minimum || wanted > variable.maximum ? t("out_of_range", { range }) : "";
  const doubt = !error && draft && outOfReach(variable, wanted);
  const said = useRef();
  useEffect(() => void ((error || doubt) && said.current.scrollIntoView({ block: "nearest" })), [error || doubt]);
  const set = async (event) => {
    event.preventDefault();
    if (!draft || error) return;
    setBusy(true);
    const name = `${environment}/desired/${variable.variable}`;
    const isDone = await act(() => publish(name, [wanted]).then((answer) => (doubt ? null : answer))); // the field says it
    setBusy(false);
    if (!isDone) return;
    const show = () => setDraft((now) => (now === draft ? null : now));
    if (topic(name).value?.value === wanted) return show(); // it came with the stream already
    const stop = topic(name).follow(() => (stop(), show()));
    setTimeout(() => (stop(), show()), SHOWN_MS);
  };
  return html`<form class="set_point" onSubmit=${set}>
    <label for=${id}>${t("set_point")}</label>
    <input id=${id} aria-label=${t("set_point_of", { name: variableName(variable.variable) })} inputmode="decimal" autocomplete="off" size="7"
      value=${draft ?? present} placeholder="–" aria-invalid=${Boolean(error)} aria-describedby=${`${id}-range`}
      onInput=${(event) => setDraft(event.target.value)} onKeyDown=${(event) => event.key === "Escape" && setDraft(null)}
      onBlur=${() => (draft === present || draft === "") && setDraft(null)} />
    <span class="unit">${symbol(variable.unit)}</span>
    ${draft !== null && html`<button class="primary" disabled=${isBusy || !draft || Boolean(error)}>${t("set")}</button>`}
    <span ref=${said} id=${`${id}-range`} class=${`range small ${error ? "bad" : doubt ? "warn" : "faint"}`} aria-live="polite">
      ${draft !== null && value !== null && !error && `${t("in_force", { value: setPointText(variable, value) })} `}
      ${error || doubt || (draft !== null ? rangeText(variable, variable.reach ?? [variable.minimum, variable.maximum]) : "")}</span>
  </form>`;
}

/** "0 to 40 °C"; of a reach that ends with the range of the variable, as nothing limits it: "up to 40 °C". */
const rangeText = (variable, ends) => {
  const isOpen = ends === variable.reach && ends[0] === variable.minimum && variable.minimum < 0;
  const [least, most] = ends.map((end) => shown(end, variable.unit)).map((end) => number(end, Math.min(decimals(variable), decimalsIn(end) ?? 0)));
  return `${t(isOpen ? "range_up_to" : "range", { least, most })} ${symbol(variable.unit)}`;
};

/** The sentence on a set point that the chamber cannot reach; "" if it can, or without one. */
function outOfReach(variable, value) {
  const [least, most] = variable.reach ?? [-Infinity, Infinity];
  return (value ?? null) === null || (value >= least && value <= most) ? "" : t("out_of_reach", { range: rangeText(variable, variable.reach) });
}

/** On and off, with the present choice marked. */
function Switch({ environment, variable, value }) {
  const chosen = value === null ? null : Number(value >= 0.5);
  return html`<div class="set_point" role="group" aria-label=${t("set_point_of", { name: variableName(variable.variable) })}>
    <span>${t("set_point")}</span>
    ${mayOperate() ? [1, 0].map((each) => html`<${Action} key=${each} class=${chosen === each ? "primary" : ""} aria-pressed=${chosen === each}
      run=${() => publish(`${environment}/desired/${variable.variable}`, [each])}>${levelText(variable, each)}<//>`)
      : html`<span>${chosen === null ? t("no_set_point") : levelText(variable, chosen)}</span>`}
  </div>`;
}

/** Who commands a variable: a recipe, a person, an interlock, a hold; and the way back to automatic. */
export function Commander({ environment, name }) {
  const status = useStatus();
  const variable = variableOf(environment, name);
  const mine = (each) => each.environment === environment && each.variable === name;
  const found = status?.variables.find(mine);
  const hand = status?.set_points.find(mine);
  const recipe = status?.recipes.find((each) => each.environment === environment);
  const attained = useAttained(environment, name);
  const beyond = outOfReach(variable, found?.desired?.value);
  const experiment = status?.experiments.find(mine);
  const holder = holderOf(status, environment, name);
  const winner = found?.desired?.value != null && winnerOf(status, environment, name);
  const lock = status?.interlocks.find((each) => each.name === `${environment}/interlocks/${holder}`);
  const release = (kind) => () => publish(`${environment}/${kind}/${name}`, [null]);
  const lines = [
    experiment && html`<p key="experiment" class="warn" lang="en"><span aria-hidden="true">▲ </span>${experiment.name}: ${experiment.text}</p>`,
    hand && html`<p key="hand">${t("hand_by", { name: authorName(hand.by), time: clock(hand.since) })}${hand.over && `; ${t("hand_over")}`}${hand.until > 0 && `; ${t("hand_until", { time: duration(hand.until - growdNow()) })}`}${hand.is_idle && `; ${t("hand_idle")}`}
      ${" "}<${Action} run=${release("desired")}>${t(hand.over ? "to_recipe" : "release")}<//></p>`,
    winner && html`<p key="winner" class="warn">${t("overridden", { name: variableName(winner) })}</p>`,
    !hand && found?.desired?.by === "recipe" && found.desired.value !== null && html`<p key="recipe" class="faint">${t("from_recipe", { id: recipe?.recipe_id.replaceAll("_", " ") })}</p>`,
    !hand && found?.desired?.by.includes("/planners/") && found.desired.value !== null && html`<p key="plan" class="faint">${t("from_plan", { name: variableName(sourceOf(status, environment, name)) })}</p>`,
    found?.commanded?.by === "hand" && found.commanded.value !== null && html`<p key="command" class="warn">
      ${t("commanded_hand", { level: levelText(variable, found.commanded.value), time: duration(found.hand_left_s) })}
      ${" "}<${Action} run=${release("commanded")}>${t("to_automatic")}<//></p>`,
    holder && html`<p key="held" class="warn"><span aria-hidden="true">▲ </span>${holder === HOLD ? t("held_hold") : t("held_interlock")}
      ${holder !== HOLD && html`: ${(lock && reasonOf(lock)) || interlockName(holder)}`}
      ${found?.held_by && found.written !== null && `; ${t("written", { level: levelText(variable, found.written) })}`}</p>`,
    beyond && html`<p key="beyond" class="warn"><span aria-hidden="true">▲ </span>${beyond}</p>`,
    attained?.state === "missed" && !attained.is_lasting && html`<p key="away" class="faint">${t("missed")}</p>`,
    attained?.is_lasting && html`<p key="missed" class="warn"><span aria-hidden="true">▲ </span>${sentence({ code: "set_point_missed", fields: { variable: name, value: attained.value, set_point: attained.set_point, unit: variable.unit }, text: withoutPlace(attained.text, environment) })}</p>`,
    ["reached", "settling"].includes(attained?.state) && html`<p key="attained" class="faint">${attained.isReached ? "✓ " : ""}${t(attained.isReached ? "reached" : "missed")}</p>`,
    found?.desired?.value != null && !variable.controlled && html`<p key="nothing" class="faint">${t("set_point")}: ${setPointText(variable, found.desired.value)}. ${t("no_effect")}</p>`,
  ].filter(Boolean);
  return lines.length ? html`<div class="commander small">${lines}</div>` : null;
}

/**
 * What growd says of a set point, and whether the present value is at it (`isReached`): the stream is ahead of the status.
 *
 * Nothing while there is no value, while all outputs are held, after a command by hand, and while the set point is new.
 */
function useAttained(environment, name) {
  const status = useStatus();
  const measured = useTopic(`${environment}/measured/${name}`);
  const desired = useTopic(`${environment}/desired/${name}`);
  const mine = (each) => each.environment === environment && each.variable === name;
  const attained = status?.attainment.find(mine);
  const known = status?.variables.find(mine)?.desired?.value;
  if (!attained?.band || measured?.quality !== "ok" || status.holds.length || desired?.value !== known) return null;
  const [least, most] = attained.band;
  return { ...attained, isReached: measured.value >= least && (most === null || measured.value <= most) };
}

/** The variable whose set point a planner turns into those of another. */
const sourceOf = (status, environment, name) => PLANNED[name].find((source) =>
  status.variables.some((each) => each.environment === environment && each.variable === source && each.desired?.value != null)) ?? PLANNED[name].at(-1);

/** The variable whose set point wins over that of this one; undefined if none does. */
function winnerOf(status, environment, name) {
  const wanted = (variable) => status.variables.find((each) => each.environment === environment && each.variable === variable && each.desired?.value != null)?.desired;
  const [driven, sources] = Object.entries(PLANNED).find(([, names]) => names.includes(name)) ?? [];
  if (!sources || (wanted(driven) && !wanted(driven).by.includes("/planners/"))) return driven;
  return sources.slice(0, sources.indexOf(name)).find(wanted);
}

const withoutPlace = (sentence, environment) => sentence.replace(`${environment}: `, "");

/** What an output does now, as a bar and in words. */
export function Level({ environment, name }) {
  const { level, canDim, text } = useWritten(environment, name);
  return html`<span class="level">
    ${canDim && html`<meter min="0" max="1" value=${level ?? 0} aria-hidden="true"></meter>`}
    <strong>${text}</strong></span>`;
}
