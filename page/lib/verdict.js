/** What growd judges: the verdict over all, the problems, and the state of each variable. */
import { decimalsIn, number, quantity } from "./format.js";
import { t, variableName } from "./i18n.js";
import { useStatus } from "./live.js";
import { chamberName, interlockName, readable } from "./names.js";

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
  const known = status?.variables.find((each) => each.environment === environment && each.variable === name)?.held_by;
  const place = `${environment}/interlocks/`;
  const lock = known ? null : status?.interlocks.find((each) => each.tripped && !each.is_quiet && !each.is_expected && each.name.startsWith(place) && each.holds.includes(name));
  return known || lock?.name.slice(place.length) || "";
}

/** A sentence of growd, {code, fields, text}: in the language of the page, else growd's own. `what`: "said" or "remedy". */
export function sentence({ code, fields = {}, text }, what = "said") {
  const key = `${what}_${code}`;
  const words = Object.entries(fields).map(([name, value]) => [name, wordsOf(name, value, fields)]);
  const found = t(key, Object.fromEntries(words));
  return found === key ? readable(text) : found;
}

function wordsOf(name, value, fields) {
  if (value?.code !== undefined) return sentence(value);
  if (Array.isArray(value)) return value.map((each) => wordsOf(name, each, fields)).join(", ");
  if (typeof value === "number") return fields.unit ? quantity(value, fields.unit, 1) : number(value, decimalsIn(value) ?? 1);
  if (name === "interlock") return interlockName(value);
  return name === "environment" ? chamberName(value) : name === "variable" || name === "holds" ? variableName(value) : value ?? "";
}
