/** What is wrong: the problems, each with what helps and what follows from it; notes; the title of the tab. */
import { call } from "../lib/api.js";
import { duration, moment } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { growdNow, useStatus } from "../lib/live.js";
import { Action, Sheet } from "../lib/parts.js";
import { href } from "../lib/route.js";
import { readable } from "../lib/names.js";
import { problemsOf, reasonOf, sentence } from "../lib/verdict.js";

const isEnglish = () => document.documentElement.lang === "en";
const SHAPES = { failure: "✖\ufe0e", warning: "▲" };
const VIEWS = { device: "devices", line: "devices", variable: "devices", interlock: "devices", database: "data", replication: "data", store: "data" };

/** All problems in a sheet; it stays open when the last one ends, and says so. */
export function ProblemSheet({ environment, onClose }) {
  return html`<${Sheet} title=${t("problems")} onClose=${onClose}><${Problems} environment=${environment} /><//>`;
}

/** The problems, the worst first, each with what follows from it folded below; `isRest`: without the worst, which the verdict says. */
export function Problems({ environment, isRest = false }) {
  const problems = problemsOf(useStatus()).slice(isRest ? 1 : 0);
  if (!problems.length) return html`<p class="faint">✓ ${t("no_problems")}</p>`;
  return html`<ul class="plain problems">${problems.map((problem) => html`<${Problem} key=${keyOf(problem)} problem=${problem} environment=${environment} />`)}</ul>`;
}

const keyOf = ({ kind, name }) => `${kind} ${name}`;

function Problem({ problem, environment }) {
  const { severity, kind, name = "", since, service, arguments: values, remedy, fields = {}, effects = [], alerts = [] } = problem;
  const text = sentence(problem);
  const help = service && t(`help_${service.split("/").pop()}`);
  const view = VIEWS[kind];
  return html`<li class=${`problem ${severity === "failure" ? "bad" : "warn"}`}>
    <p><span aria-hidden="true">${SHAPES[severity]} </span><strong><span class="hidden">${t(severity)}: </span>${text}</strong></p>
    ${remedy && html`<p>${sentence({ ...problem, text: remedy }, "remedy")}</p>`}
    ${fields.message && isEnglish() && html`<p class="small faint">${readable(fields.message)}</p>`}
    ${fields.why && reasonOf({ ...fields.why, reason: fields.reason }) && html`<p class="small faint">${reasonOf({ ...fields.why, reason: fields.reason })}</p>`}
    ${since > 0 && html`<p class="small faint">${t("since", { time: moment(since), lasted: duration(growdNow() - since) })}</p>`}
    ${effects.length > 0 && html`<details><summary class="small">${t("effects", { count: effects.length })}</summary>
      <ul class="plain small">${effects.map((each) => html`<li key=${keyOf(each)}>${sentence(each)}</li>`)}</ul></details>`}
    <div class="row">
      ${help && html`<${Action} admin=${service.endsWith("/reset")} confirm=${service.endsWith("/reset") && t("help_question", { what: help, reason: text })}
        run=${() => call(service, values)}>${help}<//>`}
      ${alerts.length > 0 && service !== "alerts/acknowledge" && html`<${Action} run=${() => Promise.all(alerts.map((alert) => call("alerts/acknowledge", { alert })))}>${t("help_acknowledge")}<//>`}
      ${view && html`<a href=${href(environment, view, kind === "device" ? { device: name.split("/").pop() } : undefined)}>${t(view)}</a>`}
    </div>
  </li>`;
}
