/** What growd says of a recipe: its plan, errors and warnings. */
import { call } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { readable } from "../lib/names.js";

const PLACE = /^\/phases\/(\d+)(?:\/(?:(?:daily|course)\/([^/]+)(?:\/(\d+)(?:\/(\w+))?)?|(\w+)))?$/;
const MEMBERS = { at: "when", value: "value", to_next: "to_next", duration: "lasts", time_units: "unit", cycle: "cycle", otherwise: "otherwise", name: "name" };

/** The place of a finding in words: "Phase 2 · Light · 3. · Set point". */
function placeText({ pointer }) {
  const [isPhased, phase, variable, point, member, own] = PLACE.exec(pointer) ?? [];
  const name = MEMBERS[member ?? own];
  const words = [t("recipe_phase_number", { number: +phase + 1 }), variable && variableName(variable), point && t("recipe_row", { number: +point + 1 }), name && t(`recipe_${name}`)];
  return isPhased ? html`<i>${words.filter(Boolean).join(" · ")}:</i>` : pointer && html`<code>${pointer}</code>`;
}

/** growd's errors and warnings; `where` shows the place of one. */
export const Findings = ({ findings, where = placeText }) =>
  findings.length > 0 && html`<ul class="findings">${findings.map((each) => html`<li class=${each.severity === "error" ? "bad" : "warn"}><b>${t(`recipe_${each.severity}`)}</b> ${where(each)} ${readable(each.sentence)}</li>`)}</ul>`;

/** growd's {plan, findings}, or {message, findings} without a plan; asked again when `key` changes. */
export function usePlan(environment, args, key) {
  const [answer, setAnswer] = useState(null);
  useEffect(() => {
    let isCurrent = true;
    const show = (found) => isCurrent && setAnswer(found);
    if (args) call(`${environment}/recipe_plan`, args).then(show, ({ message, body }) => show({ message: readable(message), findings: body.findings ?? [] }));
    else show(null);
    return () => (isCurrent = false);
  }, [key]);
  return answer;
}
