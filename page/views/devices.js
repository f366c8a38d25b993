/** Sensors, outputs, buses, interlocks and the machine: what they are, and how they do. */
import { call } from "../lib/api.js";
import { bytes, decimals, decimalsIn, difference, duration, moment, number, percent, quantity } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { growdNow, useChamber, useStatus, useTopic, variableOf } from "../lib/live.js";
import { Action, Facts, imported, Loaded } from "../lib/parts.js";
import { Age, levelText, useWritten } from "../lib/reading.js";
import { guideName } from "./guides.js";
import { SelfTest } from "./self_test.js";
import { Add, Change, Documentation, FirstSteps } from "./setup.js";
import { interlockName, readable } from "../lib/names.js";
import { reasonOf, Said, sentence } from "../lib/verdict.js";

export function Devices({ environment }) {
  const status = useStatus();
  const { devices } = useChamber(environment);
  if (!status) return html`<p>${t("loading")}</p>`;
  const isSimulated = status.hardware === "simulated";
  const works = status.devices.some((each) => each.name.startsWith(`${environment}/`) && each.state !== "failed");
  return html`${works ? html`<div class="row spread"><${Add} environment=${environment} /><${Documentation} /></div>` : html`<${FirstSteps} environment=${environment} />`}
    <div class="cards devices">
      ${devices.map((device) => html`<${Device} key=${device.name} environment=${environment} device=${device} status=${status} />`)}
    </div>
    <div class="cards devices">
      ${devices.some(({ role }) => role === "output") && html`<${SelfTest} environment=${environment} devices=${devices} />`}
      <${Interlocks} environment=${environment} status=${status} />
      <${Machine} status=${status} />
      ${isSimulated && html`<${Loaded} load=${faults} />`}
    </div>`;
}

const calibration = imported(() => import("./calibration.js"), "Calibration");
const faults = imported(() => import("./faults.js"), "Faults");

const lasted = (time) => duration(growdNow() - time);

const FEW = 8; // so many interlocks that are ready are shown at once
const KIND = { ok: "", failed: "bad" };

function Device({ environment, device, status }) {
  const name = `${environment}/${device.name}`;
  const state = status.devices.find((each) => each.name === name);
  const kind = KIND[state?.state] ?? "warn";
  const isCamera = device.role === "camera";
  const services = isCamera ? [] : device.services.filter((each) => !/stop_|set_automatic/.test(each));
  const [isOpen, setOpen] = useState(sessionStorage.getItem(name) === "open");
  const toggle = (event) => {
    setOpen(event.currentTarget.open);
    sessionStorage.setItem(name, event.currentTarget.open ? "open" : "");
  };
  const isOutput = device.role === "output";
  const part = isCamera ? t("camera") : isOutput && device.kind !== "lamp" ? variableName(device.variables[0]) : PARTS[device.kind] ? t(PARTS[device.kind]) : device.part;
  const guides = services.map(guideName).join(" · ");
  const place = device.place === "simulated" ? t("simulated") : device.line ?? (device.pins.length ? `GPIO ${device.pins.join(", ")}` : device.place);
  return html`<details class="card device" open=${isOpen} onToggle=${toggle}>
    <summary>
      <span class="row spread"><h3>${device.name}</h3>
        <span class=${`badge ${kind}`}>${kind === "bad" ? "✕ " : kind ? "! " : "✓ "}${t(`devices_${state?.state ?? "starting"}`)}</span></span>
      <span class="row spread"><span class="faint small">${part} · ${place}</span>${kind !== "bad" && !isCamera && html`<${isOutput ? Written : Measured} environment=${environment} device=${device} />`}</span>
      ${guides && !isOpen && html`<span class="small guides">${guides}</span>`}
      ${kind && html`<span class=${`small ${kind}`}><${Said} of=${{ code: state?.code, fields: { device: name }, text: state?.message ?? "" }} /></span>`}
    </summary>
    ${isOpen && state && html`<div class="opened"><div class="about">
      <${Counters} of=${status.outputs?.filter((each) => each.environment === environment && (each.name === device.name || (device.kind === "lamp" && device.variables.includes(each.variable))))} />
      <${Health} state=${state} line=${status.lines?.find((each) => each.name === device.line)} />
      ${status.notices.filter((each) => each.kind !== "device" && each.text.includes(name)).map((each) => html`<p class=${`small ${each.severity === "failure" ? "bad" : "warn"}`}>${sentence(each)}</p>`)}
      ${isCamera ? html`<${Action} run=${() => call(device.services[0])}>${t("devices_take")}<//>` : html`<${Change} environment=${environment} device=${device} />`}</div>
      ${services.length > 0 && html`<${Loaded} load=${calibration} environment=${environment} device=${device} services=${services} />`}</div>`}
  </details>`;
}

/** What a sensor measures now, and how old that is. */
function Measured({ environment, device }) {
  const first = useTopic(device.topics[0]);
  return html`<span class="row present">${device.topics.map((topic, index) => html`<${Reading} key=${topic} topic=${topic} variable=${variableOf(environment, device.variables[index])} />`)}
    ${first && html`<${Age} time=${first.time} />`}</span>`;
}

function Reading({ topic, variable }) {
  const message = useTopic(topic);
  if (!message) return "–";
  const { value, quality } = message;
  if (quality !== "ok") return html`<span class="warn">${t(`quality_${quality}`)}</span>`;
  if (!variable.variable) return html`<b>${number(value, value % 1 ? 2 : 0)}</b>`; // it confirms an output
  return html`<b title=${variableName(variable.variable)}>${variable.unit === "switch" ? levelText(variable, value) : quantity(value, variable.unit, decimals(variable))}</b>`;
}

/** What an output does now; of a lamp each channel. */
function Written({ environment, device }) {
  const isLamp = device.kind === "lamp"; // its first variable is the light of all channels
  return html`<span class="row present">${device.variables.slice(isLamp ? 1 : 0).map((name) => html`<${Channel} key=${name} environment=${environment} name=${name} device=${isLamp ? null : device} />`)}</span>`;
}

const Channel = ({ environment, name, device }) => html`<span>${!device && `${variableName(name)} `}<b>${useWritten(environment, name, device).text}</b></span>`;

/** How often and how long outputs were on, and what they used. */
function Counters({ of = [] }) {
  const used = ({ cycles, on_s: on, energy_kwh: energy, volume_l: volume }) => [t("devices_used", { time: duration(on), starts: number(cycles) }),
    energy !== null && `${number(energy, 2)} kWh`, volume !== null && `${number(volume, 2)} l`].filter(Boolean).join(" · ");
  const life = ({ life_left: left, days_left: days, rated_starts: starts }) => left !== null && [t("devices_life"),
    [t("devices_left", { share: percent(left), starts: number(starts) }), days !== null && t("devices_days", { days: number(days) })].filter(Boolean).join(", ")];
  return html`<${Facts} of=${of.flatMap((each) => [[of.length > 1 ? variableName(each.variable) : t("devices_on"), used(each)], life(each)].filter(Boolean))} />`;
}

function Health({ state, line }) {
  const { successes, failures, outages, outage_seconds: out, last_error: error, last_error_time: at } = state.counters;
  return html`<${Facts} of=${[
    [t(`devices_${state.state}`), t("since", { time: moment(state.since), lasted: lasted(state.since) })],
    [t("devices_calls"), t("devices_counts", { successes: number(successes), failures: number(failures) })],
    [t("devices_outages"), outages > 0 && t("devices_out", { outages: number(outages), time: duration(out) })],
    [t("devices_error"), error && html`<span lang="en">${readable(error)}</span> <span class="faint">(${moment(at)})</span>`],
    [t("devices_line"), line && t("devices_recoveries", { name: line.name, recoveries: number(line.recoveries), threads: number(line.threads_left_behind) })],
  ]} />`;
}

const PARTS = { lamp: "lamp", gpio: "devices_contact", topic: "devices_posted", mqtt: "devices_mqtt" };
const UNITS = { doses: "devices_doses", starts: "devices_starts" };
const valueText = (value, unit) => (unit === "s" ? duration(value) : UNITS[unit] ? `${number(value)} ${t(UNITS[unit])}` : quantity(value, unit, decimalsIn(value) ?? 1));
const limitText = ({ name, value, unit }) => unit === "switch" ? t(name === "above" ? "on" : "off") : `${t(`devices_limit_${name}`)} ${name === "hysteresis" ? difference(value, unit) : valueText(value, unit)}`;

function Interlocks({ environment, status }) {
  const base = `${environment}/interlocks/`;
  const all = status.interlocks.filter((each) => each.name.startsWith(base));
  const tripped = all.filter((each) => each.tripped || each.needs_reset);
  const ready = all.filter((each) => !tripped.includes(each));
  const list = (some) => html`<ul class="plain">${some.map((each) => html`<${Interlock} key=${each.name} of=${each} name=${interlockName(each.name.slice(base.length))} />`)}</ul>`;
  if (!all.length) return null;
  return html`<section class="card"><h3>${t("devices_interlocks")}</h3>
    ${list(tripped)}
    <details open=${ready.length <= FEW}><summary>${t("devices_all_ready", { count: number(ready.length) })}</summary>${list(ready)}</details>
  </section>`;
}

function Interlock({ of: each, name }) {
  const isCalm = each.is_expected || each.is_quiet; // as the verdict takes it
  const [style, badge] = !each.tripped ? ["", `✓ ${t("devices_ready")}`] : isCalm ? ["", `◦ ${t("devices_pauses")}`] : ["bad", `✕ ${t("devices_tripped")}`];
  return html`<li>
    <div class="row spread"><b>${name}</b><span class=${`badge ${style}`}>${badge}</span></div>
    ${each.limits?.length > 0 && html`<div class="faint small">${each.limits.map(limitText).join(" · ")}</div>`}
    ${each.tripped && html`<div class=${`small ${style}`}>${reasonOf(each)} (${lasted(each.since)})</div>`}
    ${each.needs_reset && html`<${Action} admin confirm=${t("help_question", { what: t("help_reset"), reason: reasonOf(each) || name })} run=${() => call(`${each.name}/reset`)}>${t("help_reset")}<//>`}
  </li>`;
}

function Machine({ status }) {
  const { machine, components, speed } = status;
  if (!machine) return null;
  const heat = Object.entries(machine.temperatures_degc ?? {}).map(([name, degc]) => `${name} ${quantity(degc, "degC", 0)}`);
  const { disk_free_bytes: free, disk_bytes: size } = machine;
  return html`<section class="card"><h3>${t("devices_machine")}</h3>
    <${Facts} of=${[
      [t("devices_model"), machine.model ?? machine.system],
      ["growd", `${machine.growd_version}, ${t("devices_running", { time: duration(machine.growd_uptime_s) })}`],
      [t("devices_uptime"), machine.uptime_s && duration(machine.uptime_s)],
      [t("devices_temperature"), heat.join(", ")],
      [t("devices_load"), machine.load_5min !== undefined && t("devices_of_cores", { load: number(machine.load_5min, 2), cores: machine.cores })],
      [t("devices_disk"), size && t("devices_free", { free: bytes(free), size: bytes(size) })],
      [t("devices_clock"), speed !== 1 ? t("devices_speed", { times: number(speed, speed % 1 ? 1 : 0) }) : t(machine.clock_simulated ? "devices_clock_simulated" : machine.clock_synchronised ? "devices_synchronised" : "devices_not_synchronised")],
      [t("devices_power"), machine.troubles && (machine.troubles.join(", ") || t("devices_no_trouble"))],
      [t("devices_power_before"), machine.earlier_troubles?.join(", ")],
    ]} />
    ${components.map((each) => html`<p key=${each.name} class=${`small ${each.is_failing ? "bad" : "warn"}`}>
      ${t("devices_component", { name: each.name, failures: number(each.failures) })}: ${each.last_error}</p>`)}
  </section>`;
}
