/** The chart beside the tiles: the last 24 hours of up to four variables, with lanes of the outputs. */
import { html, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { keep, kept } from "../lib/kept.js";
import { useChamber } from "../lib/live.js";
import { DayChart } from "./day_chart.js";

const MOST = 4;
const FIRST = ["air_temperature", "air_humidity"];

export function Panel({ environment }) {
  const { variables, devices } = useChamber(environment);
  const place = `panel/${environment}`;
  const offered = variables.filter((each) => each.measured && each.unit !== "switch").map((each) => each.variable);
  const [chosen, setChosen] = useState(() => kept(place, FIRST));
  const known = chosen.filter((name) => offered.includes(name));
  const shown = known.length ? known : offered.slice(0, 2);
  const choose = (names) => (keep(place, names), setChosen(names));
  const lanes = devices.filter((each) => each.role === "output").flatMap((each) => each.variables.slice(each.kind === "lamp" ? 1 : 0, each.kind === "lamp" ? 2 : 1));
  return html`<div class="row chosen">
      ${shown.map((name, i) => html`<button key=${name} class=${`chip line${i + 1}`} aria-label=${t("panel_without", { name: variableName(name) })} disabled=${shown.length < 2} onClick=${() => choose(shown.filter((each) => each !== name))}>${variableName(name)} <span aria-hidden="true">✕</span></button>`)}
      ${shown.length < MOST && html`<select class="chip" aria-label=${t("panel_add")} value="" onChange=${({ target }) => choose([...shown, target.value])}>
        <option value="">+ ${t("panel_variable")}</option>
        ${offered.filter((name) => !shown.includes(name)).map((name) => html`<option key=${name} value=${name}>${variableName(name)}</option>`)}</select>`}
    </div>
    <div class="fill"><${DayChart} environment=${environment} variables=${shown} hours=${24} lanes=${lanes} /></div>`;
}
