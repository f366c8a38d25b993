/** Calibrations as guided steps. Their state is growd's, so a reload of the page changes nothing. */
import { call, get } from "../lib/api.js";
import { duration, moment, number, quantity } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { guideName, guideOf } from "./guides.js";
import { useStatus, useTopic } from "../lib/live.js";
import { authorName } from "../lib/names.js";
import { Action, NumberInput } from "../lib/parts.js";
import { href } from "../lib/route.js";
import { Said, sentence } from "../lib/verdict.js";

const POLL_MS = 2_000;
const FRESH_AIR_PPM = 420;
const DIGITS = 3; // of a reference for a probe

export function Calibration({ environment, device, services }) {
  return html`${services.map((service) => {
    const name = service.split("/").pop();
    return html`<section key=${service} class="guide"><h4>${guideName(service)}</h4>
      <${device.role === "sensor" ? AtReference : name === "begin" ? PumpSession : Experiment} environment=${environment} device=${device} service=${service} name=${name} />
    </section>`;
  })}`;
}

/** A CO2 sensor in known air, or a probe in a known solution. growd judges whether the reading is steady. */
function AtReference({ environment, device, service, name }) {
  const [reference, setReference] = useState(null); // what is typed, NaN if it cannot be
  const found = useNode(`${environment}/samplers/${device.name}`)?.calibrations?.find((each) => each.service === service);
  if (!found) return html`<p>${t("loading")}</p>`;
  const { unit, reference_range: range, reason, reading, last } = found;
  const isAir = unit === "ppm";
  const shown = (it) => (isAir ? quantity(it, unit) : `${number(it, DIGITS)} ${unit}`);
  const usual = isAir && range ? Math.max(range[0], FRESH_AIR_PPM) : NaN;
  const value = reference ?? (range ? usual : found.reference);
  const isDone = last?.success;
  const says = (key) => t(isAir ? `calibration_${key}` : `calibration_probe_${key}`, { unit, device: device.name, reference: shown(value) });
  return html`<ol class="steps">
    <li>${isAir ? t(`calibration_air_${name}`) : t("calibration_probe_bring")} <span class="faint">${isAir ? t("calibration_why") : found.doc}</span></li>
    <li aria-current=${reason ? "step" : null}>${t("calibration_steady", { time: duration(found.steady_s) })}
      <${Trace} points=${found.recent} label=${says("trace")} least=${isAir ? 20 : 0.2} />
      <progress max=${found.steady_s} value=${Math.min(found.lasted_s, found.steady_s)} aria-label=${t("calibration_progress")} />
      <p role="status" class=${`small ${reason ? "warn" : ""}`}>${reason ? html`✕ <${Said} of=${{ ...found, text: reason }} />` : `✓ ${t("calibration_is_steady", { reading: shown(reading) })}`}
        ${found.wait_s > 0 && !/ more$/.test(reason) && html` <b>${t("calibration_wait", { time: duration(found.wait_s) })}</b>`}</p></li>
    <li aria-current=${reason ? null : "step"}>${says(range ? "enter" : "fixed")}
      <div class="row">${range && html`<label>${says("reference")}
        <${NumberInput} least=${range[0]} most=${range[1]} decimals=${isAir ? 0 : DIGITS} value=${value} onNumber=${setReference} /></label>`}
      <${Action} admin class="primary" disabled=${Boolean(reason) || Number.isNaN(value)} confirm=${says("question")}
        run=${() => call(service, range ? { reference: isAir ? Math.round(value) : value } : {})}>${t("calibration_calibrate")}<//></div>
      ${isAir && html`<span class="faint small">${t("calibration_ceiling")}</span>`}</li>
    ${last && html`<li role="status">${moment(last.time)}: <b class=${isDone ? "" : "bad"}>${isDone ? "✓" : "✕"} <${Said} of=${last} /></b> ${isDone && isAir && t("calibration_after")}</li>`}
  </ol>`;
}

/** The information of a node, asked again and again. */
function useNode(name) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    let isShown = true;
    const ask = async () => {
      try {
        const node = await get(`node/${name}`);
        if (isShown) setFound(node);
      } catch {} // the bar says that growd does not answer
      if (isShown) timer = setTimeout(ask, POLL_MS);
    };
    let timer = setTimeout(ask);
    return () => ((isShown = false), clearTimeout(timer));
  }, [name]);
  return found;
}

/** A dosing pump: growd gives doses of known time into a measuring cylinder, and somebody enters the volumes. */
function PumpSession({ environment, device, service }) {
  const node = useNode(`${environment}/pump_calibration`);
  if (!node) return html`<p>${t("loading")}</p>`;
  const { session, pumps } = node;
  const step = (name, body) => call(service.replace(/begin$/, name), body);
  const { ml_min: flow, dead_s: dead, last, due } = pumps.find(({ pump }) => pump === device.name);
  const gives = (ml, s) => t("pump_gives", { flow: quantity(ml, "ml/min", 1), dead: number(s, 2) });
  const now = html`<p class="small">${gives(flow, dead)} · ${last ? t("pump_last", { time: moment(last.time), by: authorName(last.by) }) : t("pump_never")}${due?.is_due && html` <b class="warn">${t("pump_due")}</b>`}</p>`;
  if (session?.pump !== device.name)
    return html`${now}<ol class="steps"><li>${t("pump_before")} <span class="faint">${t("pump_why")}</span>
      <div class="row"><${Action} admin class="primary" disabled=${Boolean(session)} confirm=${t("pump_confirm", { device: device.name })} run=${() => step("begin", { pump: device.name })}>${t("calibration_start")}<//>
        ${session && html`<span class="small warn">${t("calibration_other", { name: session.pump })}</span>`}</div></li></ol>`;
  const { doses, fit, reason, note, missing, is_dosing: isDosing, simulated_ml: simulated } = session;
  return html`${now}<ol class="steps">
    <li>${t("pump_fill")}</li>
    <li aria-current=${reason ? "step" : null}>${t("pump_doses", { count: number(missing) })}
      ${doses.map((dose, index) => dose.ran_s !== null && html`<${Dose} key=${`${session.since} ${index} ${dose.ran_s}`} dose=${dose} number=${index + 1} enter=${(ml) => step("measured", { ml, dose: index + 1 })} />`)}
      ${isDosing ? html`<p role="status">${t("pump_runs", { device: device.name })}</p>` : html`<div class="row"><${Action} admin class=${reason ? "primary" : ""} run=${() => step("dose")}>${t("pump_dose", { time: number(session.next_s, 1) })}<//>
        ${simulated > 0 && html`<span class="small faint">${t("pump_simulated", { ml: number(simulated, 2) })}</span>`}</div>`}
      ${note && html`<p class="small warn"><${Said} of=${session.note_said} /></p>`}</li>
    <li aria-current=${reason ? null : "step"}><p role="status" class="small">${reason ? html`<${Said} of=${{ ...session, text: reason }} />` : `✓ ${gives(fit.ml_min, fit.dead_s)}`}</p>
      <div class="row"><${Action} admin class="primary" disabled=${Boolean(reason) || isDosing} run=${() => step("save")}>${t("save")}<//>
        <${Action} class="bad" run=${() => step("cancel")}>${t("calibration_stop")}<//>
        <span class="small faint">${t("pump_ends", { time: duration(session.left_s) })}</span></div></li>
  </ol>`;
}

/** A dose that was given, and the field for its volume. */
function Dose({ dose, number: count, enter }) {
  const [ml, setMl] = useState(null); // what is typed, NaN if it cannot be
  const label = t("pump_volume", { count, time: number(dose.ran_s, 2) });
  return html`<div class="row"><label>${label} <${NumberInput} least=${0} most=${100_000} decimals=${2} value=${ml ?? dose.ml ?? NaN} onNumber=${setMl} /></label>
    ${dose.ml !== null && ml === null ? "✓" : html`<${Action} admin disabled=${!Number.isFinite(ml)} run=${() => enter(ml).then((answer) => (setMl(null), answer))}>${t("pump_enter")}<//>`}</div>`;
}

const STOPS = { autotune: "stop_autotune", calibrate_light: "stop_calibration" };

/** An experiment of growd: what it does, its progress, and its result. */
function Experiment({ environment, device, service, name }) {
  const { variable, kind, says } = guideOf(service);
  const { value: now } = useTopic(`${environment}/${name === "autotune" ? `autotune/${variable}` : `controllers/${variable}/calibration`}`) ?? {};
  const status = useStatus();
  const here = (each) => each.environment === environment;
  const others = status.experiments.filter(here);
  const recipe = status.recipes.find((each) => here(each) && each.state !== "idle");
  const isRunning = now?.state === "running";
  const stop = () => call(service.replace(name, STOPS[name]));
  return html`<ol class="steps">
    <li>${says("before")} <span class="faint">${says("why")}</span></li>
    <li aria-current=${isRunning ? "step" : null}>${says("does")}
      ${isRunning
        ? html`<progress max="1" value=${now.progress} aria-label=${t("calibration_progress")} />
          <p role="status" class="row spread"><span><${Said} of=${now} /></span> <span>${t("calibration_left", { time: duration(now.left) })}</span></p>
          <${Action} class="bad" run=${stop}>${t("calibration_stop")}<//>`
        : html`<div class="row"><${Action} admin class="primary" disabled=${others.length > 0} confirm=${says("confirm", { device: device.name })} run=${() => call(service)}>${t("calibration_start")}<//>
          ${recipe && html`<a href=${href(environment, "recipes")}>${t("calibration_recipe", { id: recipe.recipe_id })}</a>`}
          ${others.map((each) => html`<span class="small warn">${t("calibration_other", { name: sentence({ ...each, text: each.name }) })}</span>`)}</div>`}</li>
    ${now && html`<li role="status">${now.curve?.length > 0 && html`<${Curve} points=${now.curve} />`}
      ${!isRunning && html`<b class=${now.state === "done" ? "" : "bad"}>${now.state === "done" ? "✓" : "✕"} <${Said} of=${now} /></b>`}
      ${kind === "autotune" && now.state === "done" && now.rise > 0 && html`<p class="small">${t("calibration_response", { rise: number(now.rise, 2), lag: duration(now.lag), loss: number(now.loss, 2) })}</p>`}</li>`}
  </ol>`;
}

const Curve = ({ points }) => html`<${Trace} points=${[[0, 0], ...points]} label=${t("calibration_curve", { full: quantity(points.at(-1)[1], "lux"), level: number(100 * points.at(-1)[0]) })} />`;

/** Points [x, y] as a line, with the lowest and the highest y. */
function Trace({ points, label, least = 20 }) {
  if (points.length < 2) return null;
  const ys = points.map(([, y]) => y);
  const low = Math.min(...ys);
  const span = Math.max(Math.max(...ys) - low, least);
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const line = points.map(([x, y]) => `${((x - first) / (last - first)) * 300},${60 - ((y - low) / span) * 56 - 2}`).join(" ");
  return html`<figure class="trace"><svg viewBox="0 0 300 60" preserveAspectRatio="none" role="img" aria-label=${label}><polyline points=${line} /></svg>
    <figcaption class="small faint">${label}: ${number(low, least < 1 ? 2 : 0)} – ${number(Math.max(...ys), least < 1 ? 2 : 0)}</figcaption></figure>`;
}
