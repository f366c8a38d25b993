/** What is wrong: the problems, each with what helps and what follows from it; notes; the title of the tab. */
import { call } from "../lib/api.js";
import { duration, moment } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { growdNow } from "../lib/live.js";
import { Action, Sheet } from "../lib/parts.js";
import { href } from "../lib/route.js";
import { sentence, useJudged } from "../lib/verdict.js";

export { interlockName, readable } from "../lib/names.js";

const SHAPES = { error: "✖\ufe0e", warning: "▲" };
const VIEWS = { device: "devices", interlock: "devices", database: "data", replication: "data", store: "data" };

/** All problems in a sheet; it stays open when the last one ends, and says so. */
export function ProblemSheet({ environment, onClose }) {
  return html`<${Sheet} title=${t("problems")} onClose=${onClose}><${Problems} environment=${environment} /><//>`;
}

/** The problems, the worst first, each with what follows from it folded below. */
export function Problems({ environment }) {
  const problems = useJudged()?.problems ?? [];
  if (!problems.length) return html`<p class="faint">✓ ${t("no_problems")}</p>`;
  return html`<ul class="plain problems">${problems.map((problem) => html`<${Problem} key=${`${problem.kind} ${problem.name} ${problem.code} ${problem.message.replace(/[\d.]+/g, "")}`} problem=${problem} environment=${environment} />`)}</ul>`;
}

function Problem({ problem, environment }) {
  const { severity, kind, name = "", since, service, arguments: values, remedy, effects = [] } = problem;
  const text = sentence(problem);
  const help = service && t(`help_${service.split("/").pop()}`);
  const begun = typeof since === "string" ? Date.parse(since) / 1000 : since;
  const view = VIEWS[kind];
  return html`<li class=${`problem ${severity === "error" ? "bad" : "warn"}`}>
    <p><span aria-hidden="true">${SHAPES[severity]} </span><strong><span class="hidden">${t(severity === "error" ? "failure" : "warning")}: </span>${text}</strong></p>
    ${remedy && html`<p>${remedy}</p>`}
    ${begun > 0 && html`<p class="small faint">${t("since", { time: moment(begun), lasted: duration(growdNow() - begun) })}</p>`}
    ${effects.length > 0 && html`<details><summary class="small">${t("effects", { count: effects.length })}</summary>
      <ul class="plain small">${effects.map((each) => html`<li key=${each.message}>${sentence(each)}</li>`)}</ul></details>`}
    <div class="row">
      ${help && html`<${Action} admin=${service.endsWith("/reset")} confirm=${service.endsWith("/reset") && t("help_question", { what: help, reason: text })}
        run=${() => call(service, values)}>${help}<//>`}
      ${view && html`<a href=${href(environment, view, kind === "device" ? { device: name.split("/").pop() } : undefined)}>${t(view)}</a>`}
    </div>
  </li>`;
}
