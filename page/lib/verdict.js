/** What growd judges: the verdict over all, the problems, and the state of each variable; and its sentences in words. */
import { decimalsIn, number } from "./format.js";
import { t, variableName } from "./i18n.js";
import { useStatus } from "./live.js";
import { chamberName, readable } from "./names.js";

const STATES = { settling: "approaching", reached: "at_set_point", missed: "approaching" }; // of attainment
const NOBODY = {};

/** What needs attention, the worst first, as `notices` of the status; without mere notes, and without the hold. */
export const problemsOf = (status) => status?.notices.filter(({ severity, kind }) => severity !== "note" && kind !== "hold") ?? [];

/** {state, code, fields, text, remedy, effects} over all. */
export const verdictOf = (status) => status.verdict ?? judged(status);

/** {state, low, high, set_point} of a variable; an empty object before growd has judged it. */
export function useJudgement(environment, name) {
  const status = useStatus();
  const found = status?.variables.find((each) => each.environment === environment && each.variable === name);
  if (!found) return NOBODY;
  const attained = status.attainment.find((each) => each.environment === environment && each.variable === name);
  const [low, high] = attained?.band ?? [];
  const judged = { low, high, state: attained?.is_lasting ? "off" : STATES[attained?.state] ?? "free", ...found, set_point: found.desired?.value ?? null };
  return status.holds.length ? { ...judged, state: "free" } : judged; // nothing controls it
}

/** A sentence of growd, {code, fields, text}: in the language of the page, else growd's own. `what`: "said" or "remedy". */
export function sentence({ code, fields = {}, text }, what = "said") {
  const key = `${what}_${code}`;
  const words = t(key, Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, wordsOf(name, value)])));
  return words === key ? readable(text) : words;
}

function wordsOf(name, value) {
  if (value?.code !== undefined) return sentence(value);
  if (Array.isArray(value)) return value.map((each) => wordsOf(name, each)).join(", ");
  if (typeof value === "number") return number(value, decimalsIn(value) ?? 1);
  return name === "environment" ? chamberName(value) : name.startsWith("variable") ? variableName(value) : value ?? "";
}

/** A verdict from the notices and the attainment of a status. */
function judged(status) {
  const [worst, ...others] = problemsOf(status).sort((one, other) => (one.severity > other.severity) - (one.severity < other.severity));
  const wanted = status.attainment.filter(({ band }) => band);
  const isKnown = status.variables.some(({ measured }) => measured?.quality === "ok");
  const state = status.holds.length ? "held" : worst ? (worst.severity === "failure" ? "trouble" : "attention") : isKnown ? "well" : "starting";
  return { remedy: "", ...worst, state, effects: others.length, fields: worst?.fields ?? { at_set_point: wanted.filter((each) => each.state === "reached").length, with_set_point: wanted.length } };
}
