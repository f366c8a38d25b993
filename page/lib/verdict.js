/** What growd judges: the verdict over all, the problems, and the state of each variable. */
import { decimalsIn, difference, duration, number, quantity, shown } from "./format.js";
import { html } from "./html.js";
import { t, variableName } from "./i18n.js";
import { useStatus } from "./live.js";
import { authorName, chamberName, deviceName, interlockName, readable } from "./names.js";

const NOBODY = {};

/** What needs attention, the worst first, as `notices` of the status; without mere notes, and without the hold. */
export const problemsOf = (status) => status?.notices.filter(({ severity, kind }) => severity !== "note" && kind !== "hold") ?? [];

/** {state, low, high, desired, measured, ...} of a variable, as the status has it; an empty object before growd has judged it. */
export function useJudgement(environment, name) {
  const status = useStatus();
  const found = status?.variables.find((each) => each.environment === environment && each.variable === name) ?? NOBODY;
  return status?.holds.length ? { ...found, state: "free" } : found; // nothing controls it
}

/** The interlock that holds an output, "the hold", or "". Also one that would, while the output wants nothing else. */
export function holderOf(status, environment, name) {
  return heldBy(status, environment, name) || lockOf(status, environment, [name]);
}

const heldBy = (status, environment, name) => status?.variables.find((each) => each.environment === environment && each.variable === name)?.held_by ?? "";

/** The interlock that has tripped and may hold one of these outputs, or holds it now; "" without one. What is part of each day does not count. */
export function lockOf(status, environment, names) {
  const place = `${environment}/interlocks/`;
  const holders = names.map((name) => place + heldBy(status, environment, name));
  const lock = status?.interlocks.find((each) => each.tripped && !each.is_quiet && !each.is_expected
    && (holders.includes(each.name) || (each.name.startsWith(place) && each.holds.some((name) => names.includes(name)))));
  return lock?.name.slice(place.length) ?? "";
}

/** A sentence of growd, {code, fields, text}: in the language of the page, "" if it has none. `what`: "said" or "remedy". */
export function translated({ code, fields = {} }, what = "said") {
  const key = `${what}_${isText(`${what}_${fields.cause}`) ? fields.cause : code}`;
  const words = Object.entries(fields).map(([name, value]) => [name, wordsOf(name, value, fields)]);
  return isText(key) ? t(key, Object.fromEntries(words)) : "";
}

const isText = (key) => t(key) !== key;

/** The same, else as growd writes it, in English. */
export const sentence = (said, what) => translated(said, what) || readable(said.text);

/** The same, marked as English where it is; topics call the text `message`. */
export const Said = ({ of: { message = "", ...of } }) => translated(of) || html`<span lang="en">${readable(of.text ?? message)}</span>`;

/** Why an interlock has tripped; "" if only growd's English says more than its name. */
export const reasonOf = (lock) => translated(lock) || (document.documentElement.lang === "en" ? readable(lock.reason) : "");

/** The decimals of a value: at most one, or as many as tell it from the limit beside it. */
function places(name, { unit, [name]: value, ...others }) {
  const other = name === "value" ? others.limit ?? others.set_point : others.value;
  const [own, beside] = [value, other ?? value].map((each) => shown(each, unit));
  const least = Math.min(1, decimalsIn(own) ?? 1);
  return own === beside ? least : [0, 1, 2, 3].find((count) => count >= least && own.toFixed(count) !== beside.toFixed(count)) ?? least;
}

function wordsOf(name, value, fields) {
  if (name === "why") return reasonOf({ ...value, reason: value.text }) || interlockName(fields.interlock);
  if (value?.code !== undefined) return sentence(value);
  if (Array.isArray(value)) return [...new Set(value.map((each) => wordsOf(name, each, fields)))].join(", ");
  if (name === "change") return difference(value, fields.unit);
  if (typeof value === "number") return fields.unit === "s" ? duration(value) : fields.unit ? quantity(value, fields.unit, places(name, fields)) : number(value, decimalsIn(value) ?? 1);
  const names = { interlock: interlockName, environment: chamberName, variable: variableName, holds: deviceName, outputs: deviceName, device: deviceName, devices: deviceName, by: authorName };
  return names[name]?.(value) ?? value ?? "";
}
