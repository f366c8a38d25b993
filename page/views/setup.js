/** Sensors and outputs are found, tried, named and removed; growd writes them into its configuration and restarts. */
import { get, post } from "../lib/api.js";
import { decimals, number, quantity } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { nameVariables, t, variableName } from "../lib/i18n.js";
import { chambers, refresh } from "../lib/live.js";
import { Action, NumberInput, notify, Sheet } from "../lib/parts.js";
import { href } from "../lib/route.js";
import { mayAdminister } from "../lib/session.js";
import { useSignal } from "../lib/signal.js";

const POLL_MS = 1_000;

async function askSetup() {
  const setup = await get("setup");
  nameVariables([{ variables: setup.outputs }]); // those of a chamber are known
  return setup;
}

export const Documentation = ({ page = "", children }) => html`<a href=${`docs/${page}`}>${children ?? t("documentation")}</a>`;

/** What to do with a chamber in which nothing answers yet. */
export function FirstSteps({ environment }) {
  return html`<section class="card first_steps"><h3>${t("setup_first")}</h3>
    <ol class="steps">
      <li>${t("setup_first_wires")} <${Documentation} page="wiring.md">${t("setup_wiring")}<//></li>
      <li>${t("setup_first_devices")} <${Add} environment=${environment} /></li>
      <li>${t("setup_first_recipe")} <a href=${href(environment, "recipes")}>${t("recipes")}</a></li>
      <li>${t("setup_first_learn")} <${Documentation} page="first-grow.md">${t("setup_first_grow")}<//> <${Documentation} /></li>
    </ol>
  </section>`;
}

/** The button that opens the sheet for a new device. */
export function Add({ environment }) {
  const [isOpen, setOpen] = useState(false);
  return mayAdminister() && html`<button class="primary" onClick=${() => setOpen(true)}>${t("setup_add")}</button>
    ${isOpen && html`<${AddDevice} environment=${environment} onClose=${() => setOpen(false)} />`}`;
}

/** Rename and remove a device that the file has. */
export function Change({ environment, device }) {
  const [setup] = useAnswer(askSetup);
  const [draft, setDraft] = useState(null);
  const change = useChange(environment);
  const entry = setup?.devices.find((each) => each.environment === environment && each.name === device.name);
  if (!entry || setup.refusal || !mayAdminister()) return null; // the sheet says why
  if (change.isWaiting) return html`<p role="status">${t("setup_waiting")}</p>`;
  const rename = (event) => (event.preventDefault(), change.write({ ...entry, options: { name: draft.trim() } }, draft.trim()));
  return html`<div class="row">
      ${draft === null
        ? html`<button onClick=${() => setDraft(device.name)}>${t("setup_rename")}</button>`
        : html`<form class="row" onSubmit=${rename}><${Field} label=${t("setup_name")} fault=${change.fields.name}><input value=${draft} maxlength="64" onInput=${({ target }) => setDraft(target.value)} /><//>
            <button class="primary" disabled=${!draft.trim() || draft.trim() === device.name}>${t("setup_rename")}</button>
            <button type="button" onClick=${() => setDraft(null)}>${t("cancel")}</button></form>`}
      <${Action} admin class="bad" confirm=${t("setup_remove_question", { name: device.name })} run=${() => change.write({ ...entry, options: null }, "", device.name)}>${t("setup_remove")}<//>
    </div>
    <${Fault} of=${change} />`;
}

/** An answer of growd, and a function to ask again. Null until it comes. */
function useAnswer(ask) {
  const [answer, setAnswer] = useState(null);
  const again = () => (setAnswer(null), ask().then(setAnswer, (error) => setAnswer({ error: error.message })));
  useEffect(() => void again(), []);
  return [answer?.error ? null : answer, again, answer?.error];
}

/**
 * Send a device to growd: {send, write, fault, fields, isWaiting}.
 *
 * `fields` are the faults by option, `fault` is any other. After a change `isWaiting` lasts until growd has started
 * again: until the chamber has the device `added`, or no longer the one `gone`.
 */
function useChange(environment, onDone = () => {}) {
  const [refusal, setRefusal] = useState(null);
  const [wait, setWait] = useState(null);
  const names = useSignal(chambers).find((each) => each.environment === environment)?.devices.map(({ name }) => name) ?? [];
  const isThere = wait && (wait.added ? names.includes(wait.added) : !names.includes(wait.gone));
  useEffect(() => {
    if (!wait) return undefined;
    const timer = setInterval(refresh, POLL_MS);
    return () => clearInterval(timer);
  }, [wait]);
  useEffect(() => {
    if (!isThere) return;
    setWait(null);
    notify(t("setup_done", { name: wait.added || wait.gone }));
    onDone();
  }, [isThere]);
  const send = async (path, body) => {
    setRefusal(null);
    try {
      return await post(path, body);
    } catch (error) {
      setRefusal(error);
      return null;
    }
  };
  const write = async (body, added, gone) => (await send("setup", body)) && setWait({ added, gone });
  const fields = refusal?.body?.fields ?? {};
  return { send, write, fields, fault: refusal?.message, isWaiting: Boolean(wait) };
}

/** What growd refuses and no field shows. */
const Fault = ({ of: { fault, fields }, shown = ["name"] }) =>
  fault && !(Object.keys(fields).length > 0 && Object.keys(fields).every((each) => shown.includes(each))) && html`<p role="alert" class="small bad fault" lang="en">${fault}</p>`;

/** A labelled control, with what growd says is wrong about it. */
const Field = ({ label, fault, hint, children }) => html`<label class="field">${label} ${children}
    ${fault ? html`<span class="small bad" role="alert" lang="en">✕ ${fault}</span>` : hint && html`<span class="small faint">${hint}</span>`}</label>`;

function AddDevice({ environment, onClose }) {
  const [setup, , fault] = useAnswer(askSetup);
  const [chosen, setChosen] = useState(null);
  const [found, look, lookFault] = useAnswer(() => post("setup_scan", undefined));
  const back = () => setChosen(null);
  return html`<${Sheet} title=${t("setup_add")} onClose=${onClose}><div class="fields">
    ${(fault || lookFault) && html`<p role="alert" class="bad">${fault || lookFault}</p>`}
    ${setup?.refusal
      ? html`<p role="alert"><b>${t("setup_cannot")}</b> <span lang="en">${setup.refusal}</span></p><p><${Documentation} page="installation.md#changing-devices-on-the-page" /></p>`
      : chosen ? html`<${chosen.kind ? SensorForm : OutputForm} environment=${environment} setup=${setup} found=${found} ...${chosen} back=${back} onClose=${onClose} />`
      : html`<${Found} setup=${setup} found=${found} look=${look} choose=${setChosen} />`}
  </div><//>`;
}

/** What the scan found, as buttons. */
function Found({ setup, found, look, choose }) {
  if (!setup || !found) return html`<p role="status">${t("setup_scanning")}</p>`;
  const fresh = found.found.filter((each) => !each.device);
  const known = found.found.filter((each) => each.device).map((each) => each.device);
  const needsMore = (kind) => setup.kinds[kind].needs.length > 0;
  return html`<h3>${t("setup_found")}</h3>
    ${fresh.length === 0 && html`<p>${t("setup_nothing")}</p>`}
    <ul class="plain">${fresh.map((each) => html`<li key=${each.place}>
      <span class="faint small">${each.place}</span>
      <div class="row">${each.kinds.length === 0 && t("setup_unknown")}${each.kinds.map((kind) => needsMore(kind)
        ? html`<span key=${kind}>${setup.kinds[kind].part} <span class="faint small">${t("setup_by_hand")}</span></span>`
        : html`<button key=${kind} onClick=${() => choose({ kind, place: each })}>${setup.kinds[kind].part}</button>`)}</div></li>`)}
    </ul>
    ${found.problems.map((each) => html`<p class="small bad" lang="en">${each}</p>`)}
    ${known.length > 0 && html`<p class="small faint">${t("setup_there", { names: known.join(", ") })}</p>`}
    <div class="row"><button onClick=${look}>${t("setup_again")}</button></div>
    <h3>${t("setup_output")}</h3>
    <div class="row"><button onClick=${() => choose({ kind: "" })}>${t("setup_output")}</button> <span class="small faint">${t("setup_output_about")}</span></div>`;
}

const LETTERS = { "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "₂": "2" };

/** The first name that no device has: fan, fan_2 ... */
function freeName(setup, environment, words) {
  const base = words.toLowerCase().replace(/[äöüß₂]/g, (each) => LETTERS[each]).replace(/[^a-z0-9]+/g, "_").replace(/^_|_$/g, "");
  const names = setup.devices.filter((each) => each.environment === environment).map(({ name }) => name);
  let name = base;
  for (let count = 2; names.includes(name); count += 1) name = `${base}_${count}`;
  return name;
}

const Choice = ({ label, fault, value, of, set }) => html`<${Field} label=${label} fault=${fault}>
  <select value=${value} onChange=${({ target }) => set(target.value)}>${of.map(([each, text]) => html`<option key=${each} value=${each} selected=${each === value}>${text}</option>`)}</select><//>`;

function SensorForm({ environment, setup, kind, place, back, onClose }) {
  const { part, choices, variables } = setup.kinds[kind];
  const [name, setName] = useState(() => freeName(setup, environment, kind));
  const [variable, setVariable] = useState(variables[0] ?? choices[0]);
  const options = { name: name.trim(), kind, ...place.options, ...(choices.length > 0 && { variable }) };
  const shown = ["name", "variable"];
  return html`<${DeviceForm} section="sensor" environment=${environment} options=${options} shown=${shown} tryText=${t("setup_try")} back=${back} onClose=${onClose}
    fields=${(faults) => html`<h3>${t("setup_new_sensor", { part })}</h3><p class="small faint">${t("setup_place", { place: place.place })}</p>
      <${Field} label=${t("setup_name")} hint=${t("setup_name_about")} fault=${faults.name}><input value=${name} maxlength="64" required onInput=${({ target }) => setName(target.value)} /><//>
      ${choices.length > 0 ? html`<${Choice} label=${t("setup_measures")} fault=${faults.variable} value=${variable} set=${setVariable} of=${choices.map((each) => [each, variableName(each)])} />`
        : html`<p class="small">${t("setup_measures")}: ${variables.map(variableName).join(", ")}</p>`}`} />`;
}

function OutputForm({ environment, setup, found, back, onClose }) {
  const [name, setName] = useState(null); // what is typed
  const [variable, setVariable] = useState("air_flush_on");
  const [pin, setPin] = useState(String(found.pins[0]));
  const [active, setActive] = useState("low");
  const [kind, setKind] = useState("relay");
  const [flow, setFlow] = useState(NaN);
  const isDosing = setup.outputs.find((each) => each.variable === variable).is_dosing;
  const present = name ?? freeName(setup, environment, variableName(variable));
  const options = { name: present.trim(), kind, pin: Number(pin), active, variable, ...(isDosing && Number.isFinite(flow) && { flow_ml_min: flow }) };
  const shown = ["name", "kind", "pin", "active", "variable", ...(isDosing ? ["flow_ml_min"] : [])];
  const texts = (...keys) => keys.map((each) => [each, t(`setup_${each}`)]);
  return html`<${DeviceForm} section="output" environment=${environment} options=${options} shown=${shown} back=${back} onClose=${onClose}
    tryText=${t("setup_try_output")} question=${t("setup_try_question", { pin })}
    fields=${(faults) => html`<h3>${t("setup_output")}</h3>
      <${Choice} label=${t("setup_does")} fault=${faults.variable} value=${variable} set=${setVariable} of=${setup.outputs.map((each) => [each.variable, variableName(each.variable)])} />
      <${Field} label=${t("setup_name")} hint=${t("setup_name_about")} fault=${faults.name}><input value=${present} maxlength="64" required onInput=${({ target }) => setName(target.value)} /><//>
      <${Choice} label=${t("setup_pin")} fault=${faults.pin} value=${pin} set=${setPin} of=${found.pins.map((each) => [String(each), `GPIO ${each}`])} />
      <${Choice} label=${t("setup_kind")} fault=${faults.kind} value=${kind} set=${setKind} of=${texts("relay", "ssr", "pwm")} />
      <${Choice} label=${t("setup_active")} fault=${faults.active} value=${active} set=${setActive} of=${texts("low", "high")} />
      ${isDosing && html`<${Field} label=${t("setup_flow")} fault=${faults.flow_ml_min}><${NumberInput} least=${0.01} most=${100_000} decimals=${2} value=${flow} onNumber=${setFlow} /><//>`}`} />`;
}

/** The form of a new device: its fields, a trial, and the change. */
function DeviceForm({ section, environment, options, shown, fields, tryText, question, back, onClose }) {
  const change = useChange(environment, onClose);
  const [trial, setTrial] = useState(null);
  const body = { environment, section, options };
  const attempt = async () => {
    setTrial("running");
    setTrial(await change.send("setup_trial", body));
  };
  if (change.isWaiting) return html`<p role="status">${t("setup_waiting")}</p><progress aria-label=${t("setup_waiting")} />`;
  const submit = (event) => (event.preventDefault(), change.write(body, options.name));
  return html`<form class="fields" onSubmit=${submit}>${fields(change.fields)}
    <${Fault} of=${change} shown=${shown} />
    <p role="status" class="small">${trial === "running" ? t("setup_trying") : trial && html`<${Trial} of=${trial} section=${section} />`}</p>
    <p class="small faint">${t("setup_restarts")}</p>
    <div class="row">
      <${Action} type="button" admin disabled=${trial === "running"} confirm=${question} run=${attempt}>${tryText}<//>
      <button class="primary" disabled=${trial === "running" || !options.name}>${t("setup_write")}</button>
      <button type="button" onClick=${back}>${t("setup_back")}</button></div>
  </form>`;
}

/** What a trial showed. */
function Trial({ of: { values, message }, section }) {
  if (section === "output") return html`✓ ${t("setup_was_on")}`;
  const all = Object.entries(values);
  if (!all.length) return html`✓ ${t("setup_answers")} <span lang="en">${message}</span>`;
  return html`✓ ${t("setup_answers")} <b>${all.map(([name, value]) => `${variableName(name)} ${measured(name, value)}`).join(" · ")}</b>`;
}

/** A value with the unit of its variable, which any chamber that measures it knows. */
function measured(name, value) {
  const variable = chambers.value.flatMap((each) => each.variables).find((each) => each.variable === name);
  return variable ? quantity(value, variable.unit, decimals(variable)) : number(value, 1);
}
