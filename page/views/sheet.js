/** The sheet of a variable or an output: value, set point, who commands it, outputs, today's chart, calibration. */
import { html } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { useChamber, useStatus, useTopic, variableOf } from "../lib/live.js";
import { imported, Loaded, Sheet } from "../lib/parts.js";
import { Age, Commander, Level, SetPoint, Trend, useVariable, Value } from "../lib/reading.js";
import { href, leave } from "../lib/route.js";
import { sentence } from "../lib/verdict.js";
import { guideName } from "./guides.js";

export function VariableSheet({ environment, name, kept }) {
  const { variables, devices } = useChamber(environment);
  const variable = variableOf(environment, name);
  const isKnown = variables.some((each) => each.variable === name);
  const hasValue = variable.measured || variable.manual;
  const used = devices.filter((each) => (each.variables.includes(name) || each.drives?.includes(name)) && each.services.length > 0);
  const close = () => leave(href(environment, "now"));
  return html`<${Sheet} title=${variableName(name)} onClose=${close}>
    ${!isKnown ? html`<p>${t("now_nothing")}</p>` : html`
    ${hasValue && html`<${Measured} environment=${environment} variable=${variable} kept=${kept} />`}
    ${!hasValue && html`<p><${Level} environment=${environment} name=${name} /></p>`}
    ${variable.controlled && html`<${SetPoint} environment=${environment} name=${name} />`}
    <${Commander} environment=${environment} name=${name} />
    ${variable.outputs.length > 0 && html`<${Outputs} environment=${environment} names=${variable.outputs} />`}
    ${variable.unit !== "switch" && html`<div class="today"><${Loaded} load=${chart} environment=${environment} variables=${[name]} lanes=${variable.outputs} /></div>`}
    ${used.map((device) => html`<${Guides} key=${device.name} environment=${environment} device=${device} />`)}`}
  <//>`;
}

const chart = imported(() => import("./chart.js"), "Chart");
const calibration = imported(() => import("./calibration.js"), "Calibration");

/** The calibrations of a device, folded. */
function Guides({ environment, device }) {
  const services = device.services.filter((each) => !/stop_|set_automatic/.test(each));
  return services.length > 0 && html`<details class="guides"><summary>${services.map(guideName).join(" · ")}</summary>
    <${Loaded} load=${calibration} environment=${environment} device=${device} services=${services} /></details>`;
}

/** The measured value with everything that tells how far to trust it. */
export function Measured({ environment, variable, kept, isCompact = false }) {
  const name = `${environment}/measured/${variable.variable}`;
  const message = useTopic(name) ?? kept;
  const quality = message?.quality ?? "none";
  const reading = useVariable(environment, variable.variable)?.measured;
  const cause = useCause(environment, variable.variable);
  const isBad = quality !== "ok";
  const isFault = quality === "fault" || quality === "stale";
  if (!message && !variable.measured) return null; // it may be measured by hand
  return html`<div class=${`measured ${isBad ? "old" : ""}`}>
    <div class="row spread">
      <${Value} variable=${variable} message=${message} />
      ${!isCompact && html`<${Trend} name=${name} variable=${variable} />`}
    </div>
    <p class="small faint">
      ${isBad && html`<strong class=${isFault ? "bad" : ""}>${t(`quality_${quality}`)} </strong>`}
      ${(reading ?? message)?.by === "hand" && `${t("by_hand")}, `}
      ${message && html`<${Age} time=${message.time} />`}
    </p>
    ${isFault && !isCompact && cause && html`<p class="small">${cause}</p>`}
  </div>`;
}

/** Why a variable has no value: what growd says of its sensors. */
function useCause(environment, name) {
  const sensors = useChamber(environment).devices.filter((each) => each.role === "sensor" && each.variables.includes(name));
  const names = sensors.map((each) => `${environment}/${each.name}`);
  return useStatus()?.devices.filter((each) => names.includes(each.name) && each.state !== "ok")
    .map((each) => sentence({ code: each.code || "device_failed", fields: { device: each.name }, text: each.message })).join("; ");
}

/** What drives a variable: each output with what it does now, and its own set point. */
function Outputs({ environment, names }) {
  return html`<ul class="outputs" aria-label=${t("outputs")}>
    ${names.map((name) => html`<li key=${name}>
      <details>
        <summary class="row spread"><span>${variableName(name)}</span><${Level} environment=${environment} name=${name} /></summary>
        <${SetPoint} environment=${environment} name=${name} />
      </details>
      <${Commander} environment=${environment} name=${name} />
    </li>`)}
  </ul>`;
}
