/** What growd judges: the verdict over all, the problems, and the state of each variable. */
import { t } from "./i18n.js";
import { useStatus } from "./live.js";
import { readable } from "./names.js";

const STATES = { idle: "free", settling: "approaching", reached: "at_set_point", missed: "approaching" };
const NOBODY = {};

/** {verdict, problems, environments} of the status, drawn again with it; null before the first. */
export function useJudged() {
  const status = useStatus();
  return status && (status.verdict ? status : judged(status));
}

/** {state, low, high, set_point, value} of a variable; an empty object before growd has judged it. */
export const useJudgement = (environment, name) => useJudged()?.environments?.[environment]?.variables[name] ?? NOBODY;

/** The sentence of a problem or of the verdict: in the language of the page, else growd's. */
export function sentence({ code, fields, message }) {
  const key = `said_${code}`;
  const text = t(key, fields);
  return text === key ? readable(message) : text;
}

/** The same from the notices and the attainment of a status. */
function judged(status) {
  const problems = status.notices.filter(({ severity, kind }) => severity !== "note" && kind !== "hold")
    .map(({ severity, text, ...rest }) => ({ ...rest, severity: severity === "failure" ? "error" : "warning", code: "", fields: {}, message: text, remedy: "", effects: [] }));
  const environments = {};
  for (const { environment, variable, measured, desired } of status.variables) {
    if (!measured) continue;
    const of = status.attainment.find((each) => each.environment === environment && each.variable === variable);
    const isKnown = measured.quality === "ok";
    const state = !isKnown ? "unknown" : of?.is_lasting ? "off" : STATES[of?.state] ?? "free";
    ((environments[environment] ??= { variables: {} }).variables)[variable] = { state, value: measured.value, set_point: desired?.value ?? null, low: of?.band?.[0], high: of?.band?.[1] };
  }
  const all = Object.values(environments).flatMap(({ variables }) => Object.values(variables));
  const wanted = all.filter(({ set_point: wanted, low }) => wanted !== null && low !== undefined);
  const [worst] = [...problems].sort((one, other) => (one.severity > other.severity) - (one.severity < other.severity));
  const state = status.holds.length ? "held" : worst ? (worst.severity === "error" ? "trouble" : "attention") : all.some((each) => each.state !== "unknown") ? "well" : "starting";
  const fields = { at_set_point: wanted.filter((each) => each.state === "at_set_point").length, with_set_point: wanted.length };
  return { verdict: { state, code: worst ? "" : state === "well" ? "all_well" : state, fields, message: worst?.message ?? "", remedy: worst?.remedy ?? "", effects: Math.max(0, problems.length - 1) }, problems, environments };
}
