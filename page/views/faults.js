/** Faults of simulated hardware, to see what growd does then. growd lists the kinds and the places. */
import { call, get } from "../lib/api.js";
import { duration, number } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { useStatus } from "../lib/live.js";
import { Action, NumberInput } from "../lib/parts.js";
import { mayAdminister } from "../lib/session.js";

export function Faults() {
  const status = useStatus(); // each new one asks for the faults again
  const [found, setFound] = useState(null);
  const ask = () => get("node/simulator").then(setFound, () => {});
  useEffect(() => void ask(), [status]);
  if (!found) return null;
  const clear = (fault) => call("simulator/clear_faults", fault).finally(ask);
  return html`<section class="card faults"><h3>${t("faults")}</h3>
    <p class="small faint">${t("faults_about")}</p>
    ${mayAdminister() && html`<${Inject} kinds=${found.fault_kinds} places=${found.fault_places} ask=${ask} />`}
    <h4>${t("faults_active", { count: number(found.faults.length) })}</h4>
    <ul class="plain">${found.faults.slice(0, 100).map((each, index) => html`<li key=${index} class="row spread">
      <span><b>${kindText(each.kind)}</b> · ${each.device}${each.amount ? ` · ${number(each.amount, each.amount % 1 ? 1 : 0)}` : ""}
        <span class="faint small"> ${each.begins_in_s > 0 ? t("faults_begins", { time: duration(each.begins_in_s) }) : each.left_s === null ? t("faults_until_cleared") : t("faults_left", { time: duration(each.left_s) })}</span></span>
      <${Action} admin aria-label=${t("faults_clear_one", each)} run=${() => clear({ device: each.device, kind: each.kind })}>${t("faults_clear")}<//>
    </li>`)}</ul>
    ${found.faults.length > 1 && html`<${Action} admin run=${() => clear({})}>${t("faults_clear_all")}<//>`}
  </section>`;
}

/** "nak (refuses data)": as growd writes it, and what it is. */
const kindText = (kind) => `${kind} (${t(`fault_${kind}`)})`;

/** Devices without their chamber, if that does not confuse them. */
function placeText({ device, affects }) {
  const short = affects.map((each) => each.split("/").pop());
  const isClear = new Set(short).size === short.length;
  return `${device} (${(isClear ? short : affects).join(", ")})`;
}

function Inject({ kinds, places, ask }) {
  const [form, setForm] = useState({ device: places[0]?.device, kind: "", amount: 500, at: 0, for: 60, probability: 1 });
  const place = places.find((each) => each.device === form.device) ?? places[0];
  const kind = kinds.find((each) => each.kind === form.kind && place.kinds.includes(each.kind)) ?? kinds.find((each) => place.kinds.includes(each.kind));
  const change = (event) => setForm({ ...form, [event.target.name]: event.target.value });
  const field = (name, unit, rest) => html`<label>${t(`faults_${name}`)}${unit && ` (${unit})`}<${NumberInput} name=${name} value=${form[name]} onNumber=${(value) => setForm((now) => ({ ...now, [name]: value }))} ...${rest} /></label>`;
  const { at, for: lasts, probability, amount } = form;
  const isRight = ![at, lasts, probability, kind.has_amount ? amount : 0].some(Number.isNaN);
  const inject = () => call("simulator/inject_fault", {
    device: place.device, kind: kind.kind, at, for: lasts, probability, amount: kind.has_amount ? amount : 0,
  }).finally(ask);
  return html`<div class="fields">
      <label>${t("faults_device")}<select name="device" value=${place.device} onChange=${change}>
        ${places.map((each) => html`<option key=${each.device} value=${each.device}>${placeText(each)}</option>`)}</select></label>
      <label>${t("faults_kind")}<select name="kind" value=${kind.kind} onChange=${change}>
        ${place.kinds.map((each) => html`<option key=${each} value=${each}>${kindText(each)}</option>`)}</select></label>
      ${kind.has_amount && field("amount", place.amount_unit)}
      ${field("at", "", { least: 0 })}${field("for", "", { least: 0 })}${field("probability", "", { least: 0, most: 1 })}
    </div>
    <p class="small" lang="en">${kind.effect}</p>
    <${Action} admin class="primary" disabled=${!isRight} run=${inject}>${t("faults_inject")}<//>`;
}
