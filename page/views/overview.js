/** All chambers on one screen: of each the recipe and the measured values beside their set points. */
import { duration } from "../lib/format.js";
import { html, useId } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { chambers, useStatus, useTopic } from "../lib/live.js";
import { Measured } from "./sheet.js";
import { Level, SetPointText } from "../lib/reading.js";
import { href } from "../lib/route.js";
import { useSignal } from "../lib/signal.js";

export function Overview() {
  return html`<div class="cards">${useSignal(chambers).map((each) => html`<${Chamber} key=${each.environment} ...${each} />`)}</div>`;
}

function Chamber({ environment, variables }) {
  const id = useId();
  const run = useTopic(`${environment}/recipe_state`)?.value;
  const failures = useStatus()?.notices.filter(({ severity, name }) => severity === "failure" && name.startsWith(`${environment}/`)).length;
  const driven = new Set(variables.flatMap((each) => each.outputs));
  const shown = variables.filter((each) => each.measured || (each.controlled && (each.unit === "switch" || !driven.has(each.variable))));
  return html`<article class="card" aria-labelledby=${id}>
    <h3 id=${id}><a href=${href(environment, "now")}>${environment.replaceAll("_", " ")}</a>${failures > 0 && html` <span class="bad">✖ ${failures}</span>`}</h3>
    <p class="small">${!run || run.state === "idle" ? t("run_idle")
      : `${run.recipe_id} · ${t(`run_${run.state}`)} ${run.phase} · ${t("run_left", { time: duration(run.remaining) })}`}</p>
    <ul class="compact">${shown.map((variable) => html`<li key=${variable.variable}>
      <span>${variableName(variable.variable)}</span>
      ${variable.measured ? html`<${Measured} environment=${environment} variable=${variable} isCompact />` : html`<${Level} environment=${environment} name=${variable.variable} />`}
      ${variable.controlled && !driven.has(variable.variable) && html`<${SetPointText} environment=${environment} name=${variable.variable} />`}
    </li>`)}</ul>
  </article>`;
}
