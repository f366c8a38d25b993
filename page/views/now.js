/** The chamber now: the recipe in a line, and a card for each variable and each output. */
import { call, get } from "../lib/api.js";
import { decimals, duration, moment, quantity } from "../lib/format.js";
import { html, useEffect, useId, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { growdNow, useChamber, useNow, useStatus, useTopic, variableOf } from "../lib/live.js";
import { Action } from "../lib/parts.js";
import { Age, Commander, Level, SetPoint, setPointText, Trend, useVariable, Value } from "../lib/reading.js";
import { href } from "../lib/route.js";

const GROUPS = ["air", "light", "water", "soil", "other"];
const PLAIN = 6; // so many cards need no headings

export function Now({ environment }) {
  const { variables } = useChamber(environment);
  const known = new Set(useStatus()?.variables.filter((each) => each.environment === environment).map((each) => each.variable));
  const kept = useKept(environment, variables.filter((each) => each.manual && !known.has(each.variable)).map((each) => each.variable));
  const isRead = (each) => each.measured || kept[each.variable];
  const driven = new Set(variables.filter((each) => isRead(each) || each.controlled).flatMap((each) => each.outputs));
  const shown = variables.filter((each) => isRead(each) || ((each.controlled || known.has(each.variable)) && !driven.has(each.variable)));
  const parts = shown.length - shown.filter((each) => each.derived).length > PLAIN ? GROUPS.map((group) => [group, shown.filter((each) => each.group === group)]) : [["", shown]];
  return html`
    <${RecipeLine} environment=${environment} />
    ${useStatus()?.experiments.filter((each) => each.environment === environment).map(({ name, text }) => html`<p key=${name} class="bar" lang="en">${name}: ${text}</p>`)}
    ${!shown.length && html`<p>${t("now_nothing")}</p>`}
    ${parts.filter(([, all]) => all.length).map(([group, all]) => html`<${Group} key=${group} name=${group} environment=${environment} variables=${all} kept=${kept} />`)}`;
}

/** Variables under one heading. Calculated ones are in one line, unless they have a set point. */
function Group({ name, environment, variables, kept }) {
  const status = useStatus()?.variables ?? [];
  const wanted = new Set(status.filter((each) => each.environment === environment && typeof each.desired?.value === "number").map((each) => each.variable));
  const isCard = (each) => !each.derived || wanted.has(each.variable);
  const calculated = variables.filter((each) => !isCard(each));
  return html`<section class="group" aria-label=${name ? t(`group_${name}`) : null}>
    ${name && html`<h2>${t(`group_${name}`)}</h2>`}
    <${Cards} environment=${environment} variables=${variables.filter(isCard)} kept=${kept} />
    ${calculated.length > 0 && html`<details>
      <summary>${t("now_calculated")} <span class="briefs small">${calculated.map((each) => html`<${Brief} key=${each.variable} environment=${environment} variable=${each} />`)}</span></summary>
      <${Cards} environment=${environment} variables=${calculated} kept=${kept} />
    </details>`}
  </section>`;
}

/** A variable in a few words. */
function Brief({ environment, variable }) {
  const message = useTopic(`${environment}/measured/${variable.variable}`);
  return html`<span><span class="faint">${variableName(variable.variable)}</span> ${quantity(message?.value, variable.unit, decimals(variable))}</span>`;
}

const Cards = ({ environment, variables, kept }) =>
  html`<div class="cards">${variables.map(({ variable }) => html`<${Card} key=${variable} environment=${environment} name=${variable} kept=${kept[variable]} />`)}</div>`;

/** The last values that were measured by hand before growd started, from the history: {variable: {value, time, quality}}. */
function useKept(environment, names) {
  const [kept, setKept] = useState({});
  const wanted = names.join("&variable=");
  const isReady = Boolean(useStatus());
  useEffect(() => {
    if (!isReady || !wanted) return;
    const end = growdNow();
    get(`history/${environment}?variable=${wanted}&start=${end - 1}&end=${end}&points=2&events=false`).then(({ series }) => {
      const found = series.filter(({ measured }) => measured.before && measured.before.value !== null);
      setKept(Object.fromEntries(found.map(({ variable, measured }) => [variable, { ...measured.before, quality: "ok", by: "hand" }])));
    }, () => {}); // without the database only new ones are shown
  }, [environment, wanted, isReady]);
  return kept;
}

/** A card: value, age, trend, set point, who commands it, and its outputs. */
function Card({ environment, name, kept }) {
  const variable = variableOf(environment, name);
  const id = useId();
  return html`<article class="card" aria-labelledby=${id}>
    <h3 id=${id}>${variableName(name)}</h3>
    ${(variable.measured || variable.manual) && html`<${Measured} environment=${environment} variable=${variable} kept=${kept} />`}
    ${!variable.outputs.length && variable.controlled && !variable.measured && html`<${Level} environment=${environment} name=${name} />`}
    ${variable.controlled && html`<${SetPoint} environment=${environment} name=${name} />`}
    <${Commander} environment=${environment} name=${name} />
    ${variable.outputs.length > 0 && html`<${Outputs} environment=${environment} names=${variable.outputs} />`}
  </article>`;
}

/** The measured value with everything that tells how far to trust it. */
export function Measured({ environment, variable, kept, isCompact = false }) {
  const name = `${environment}/measured/${variable.variable}`;
  const message = useTopic(name) ?? kept;
  const quality = message?.quality ?? "none";
  const reading = useVariable(environment, variable.variable)?.measured;
  const cause = useCause(environment, variable.variable);
  const isBad = quality !== "ok";
  if (!message && !variable.measured) return null; // it may be measured by hand
  return html`<div class=${`measured ${isBad ? "old" : ""}`}>
    <div class="row spread">
      <${Value} variable=${variable} message=${message} />
      ${!isCompact && html`<${Trend} name=${name} variable=${variable} />`}
    </div>
    <p class="small faint">
      ${isBad && html`<strong class=${quality === "fault" || quality === "stale" ? "bad" : "warn"}>${t(`quality_${quality}`)} </strong>`}
      ${(reading ?? message)?.by === "hand" && `${t("by_hand")}, `}
      ${message && html`<${Age} time=${message.time} />`}
    </p>
    ${isBad && !isCompact && cause && html`<p class="small" lang="en">${cause}</p>`}
  </div>`;
}

/** Why a variable has no value: what growd says of its sensors. */
function useCause(environment, name) {
  const sensors = useChamber(environment).devices.filter((each) => each.role === "sensor" && each.variables.includes(name));
  const names = sensors.map((each) => `${environment}/${each.name}`);
  return useStatus()?.devices.filter((each) => names.includes(each.name) && each.state !== "ok")
    .map((each) => (each.state === "failed" && each.counters.last_error) || each.message).join("; ");
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

/** The recipe in a line: name, phase, progress, time left and next change, with the buttons. */
export function RecipeLine({ environment }) {
  const run = useTopic(`${environment}/recipe_state`)?.value;
  const next = useNext(environment, run);
  if (!run || run.state === "idle") {
    return html`<p class="recipe_line faint">${t("run_idle")} <a href=${href(environment, "recipes")}>${t("recipes")}</a></p>`;
  }
  const service = (name) => () => call(`${environment}/${name}`);
  const total = run.elapsed + run.remaining;
  return html`<section class="card recipe_line" aria-label=${run.recipe_id}>
    <div class="row spread">
      <span><a href=${href(environment, "recipes")}><strong>${run.recipe_id}</strong></a> <span class="badge">${t(`run_${run.state}`)}</span>
        ${run.phase && ` ${run.phase}`} · ${run.state === "waiting" ? moment(run.starts_at) : t("run_left", { time: duration(run.remaining) })}</span>
      <span class="row">
        ${run.state === "running" && html`<${Action} run=${service("pause_recipe")}>${t("pause")}<//>`}
        ${run.state === "paused" && html`<${Action} run=${service("resume_recipe")}>${t("resume")}<//>`}
        <${Action} class="bad" confirm=${run.state === "waiting" ? t("recipe_cancel_sure", { name: run.recipe_id }) : t("stop_question", { id: run.recipe_id })}
          run=${service("stop_recipe")}>${t(run.state === "waiting" ? "recipe_cancel" : "stop")}<//>
      </span>
    </div>
    ${run.state !== "waiting" && total > 0 && html`<progress max=${total} value=${run.elapsed} aria-label=${t("run_progress")}></progress>`}
    ${next && html`<${Next} environment=${environment} change=${next} />`}
  </section>`;
}

function Next({ environment, change }) {
  const now = useNow();
  const value = change.to === null ? t("no_set_point") : setPointText(variableOf(environment, change.variable), change.to);
  return html`<p class="small faint">${t("run_next", { name: variableName(change.variable), value, time: duration(change.time - now) })}</p>`;
}

/** The next change of a running recipe. The plan lists those of a day, so it is seldom asked for. */
function useNext(environment, run) {
  const [changes, setChanges] = useState([]);
  const next = run?.state === "running" ? changes.find(({ time }) => time > growdNow()) : undefined;
  const wants = run?.state === "running";
  const isOver = wants && !next;
  const revision = useStatus()?.recipes.find((each) => each.environment === environment)?.revision;
  useEffect(() => {
    if (!wants) return;
    call(`${environment}/recipe_plan`).then(({ plan }) => setChanges(plan.next ?? []), () => setChanges([]));
  }, [environment, wants, run?.recipe_id, run?.phase, revision, isOver]);
  return next;
}
