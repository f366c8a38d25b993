/** The recipe in a line: its name, its day, what changes next, and a strip of the next 24 hours. */
import { call } from "../lib/api.js";
import { duration, moment } from "../lib/format.js";
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { setPointText } from "../lib/levels.js";
import { growdNow, useNow, useStatus, useTopic, variableOf } from "../lib/live.js";
import { Action } from "../lib/parts.js";
import { href } from "../lib/route.js";
import { mayOperate } from "../lib/session.js";
import { Said } from "../lib/verdict.js";

const DAY = 86_400;
const LIGHTS = ["light_ppfd", "light_illuminance", "light_intensity_white"];

export function RecipeLine({ environment }) {
  const run = useTopic(`${environment}/recipe_state`)?.value;
  const plan = usePlan(environment, run);
  const experiments = (useStatus()?.experiments ?? []).filter((each) => each.environment === environment);
  if (experiments.length) {
    return html`<section class="recipe_line">${experiments.map(({ name, text, stage, ...each }) => html`<p key=${name} class="what"><strong><${Said} of=${{ ...each, text: name }} /></strong> <span class="small faint"><${Said} of=${{ ...stage, text }} /></span></p>`)}</section>`;
  }
  if (!run || run.state === "idle") {
    return html`<section class="recipe_line"><p class="what"><span class="faint">${run ? t("run_idle") : "…"}</span></p>
      ${run && html`<a class="chip" href=${href(environment, "recipes")}>${t("run_choose")}</a>`}</section>`;
  }
  const name = plan?.name || run.recipe_id.replaceAll("_", " ");
  const phase = run.phase && plan?.phases.length !== 1 ? `, ${run.phase}` : "";
  return html`<section class="recipe_line" aria-label=${name}>
    <p class="what"><a href=${href(environment, "recipes")}><strong>${name}${phase}</strong></a><br />
      <span class="small faint">${place(run)}<${Next} environment=${environment} run=${run} plan=${plan} /></span></p>
    ${run.state === "running" && plan && html`<${Ahead} plan=${plan} />`}
    ${mayOperate() && html`<${Menu} environment=${environment} run=${run} name=${name} />`}
  </section>`;
}

/** "day 12 of 41", of a recipe of less than two days the time that is left. */
function place({ state, elapsed, remaining, starts_at: start }) {
  if (state === "waiting") return `${t("run_waiting")}: ${moment(start)}`;
  const total = elapsed + remaining;
  const day = total >= 2 * DAY ? t("run_day", { day: Math.floor(elapsed / DAY) + 1, days: Math.ceil(total / DAY - 1e-6) }) : t("run_left", { time: duration(remaining) });
  return state === "paused" ? `${t("run_paused")} · ${day}` : day;
}

function Next({ environment, run, plan }) {
  const now = useNow();
  if (run.state !== "running") return null;
  const ahead = (plan?.next ?? []).filter(({ time }) => time > now);
  const light = ahead.find(({ variable, from, to }) => LIGHTS.includes(variable) && Boolean(from) !== Boolean(to));
  const change = light ?? ahead[0];
  if (!change) return null;
  const time = duration(change.time - now);
  if (light) return ` · ${t(light.to ? "run_light_on" : light.to_next === "hold" ? "run_light_off" : "run_light_fades", { time })}`;
  const value = change.to === null ? t("no_set_point") : setPointText(variableOf(environment, change.variable), change.to);
  return ` · ${t("run_next", { name: variableName(change.variable), value, time })}`;
}

function Menu({ environment, run, name }) {
  const service = (what) => () => call(`${environment}/${what}`);
  return html`<details class="menu"><summary class="chip" aria-label=${t("run_menu")}>⋯</summary><div class="card">
    ${run.state === "running" && html`<${Action} run=${service("pause_recipe")}>${t("pause")}<//>`}
    ${run.state === "paused" && html`<${Action} run=${service("resume_recipe")}>${t("resume")}<//>`}
    <${Action} class="bad" confirm=${run.state === "waiting" ? t("run_cancel_sure", { name }) : t("stop_question", { id: name })}
      run=${service("stop_recipe")}>${t(run.state === "waiting" ? "run_cancel" : "stop")}<//>
  </div></details>`;
}

/** The plan of the recipe that runs, asked for at its start and its changes, and each time its list of changes is over. */
function usePlan(environment, run) {
  const [plan, setPlan] = useState(null);
  const runs = Boolean(run) && run.state !== "idle";
  const isOver = runs && Boolean(plan?.next.length) && plan.next.at(-1).time < growdNow() + DAY / 2;
  const revision = useStatus()?.recipes.find((each) => each.environment === environment)?.revision;
  useEffect(() => {
    if (runs) call(`${environment}/recipe_plan`).then((answer) => setPlan((known) => answer.plan ?? known), () => {});
    else setPlan(null);
  }, [environment, runs, run?.recipe_id, run?.phase, run?.state, revision, isOver]);
  return plan;
}

/** The next 24 hours: light as blocks, the temperature as a line. */
function Ahead({ plan }) {
  const hour = Math.floor(useNow() / 600);
  return useMemo(() => {
    const from = growdNow() - plan.start;
    const light = LIGHTS.find((name) => plan.series[name]);
    const lines = [[light, "light"], ["air_temperature", "warm"]].filter(([name]) => plan.series[name]);
    if (!lines.length) return null;
    return html`<svg class="ahead" viewBox="0 0 240 40" preserveAspectRatio="none" role="img" aria-label=${t("run_ahead")}>
      ${lines.map(([name, style]) => html`<path class=${style} d=${shape(plan.series[name], from, style === "light")} />`)}
      <path class="now" d="M1 2V38" /></svg>`;
  }, [plan, hour]);
}

/** A set point over the next 24 hours as a path, from its least to its greatest value of the plan. */
function shape(line, from, isFilled) {
  const next = line.findIndex(([at]) => at > from);
  const inside = (next < 0 ? line.slice(-1) : line.slice(Math.max(0, next - 1))).filter(([at], i) => !i || at < from + DAY);
  const values = line.map(([, value]) => value ?? 0);
  const [low, high] = [isFilled ? 0 : Math.min(...values), Math.max(...values)];
  const y = (value) => (high > low ? 36 - ((value ?? 0) - low) / (high - low) * (isFilled ? 30 : 20) : 20).toFixed(1);
  const x = (at) => ((240 * Math.max(0, at - from)) / DAY).toFixed(1);
  const points = [...inside, [from + DAY, inside.at(-1)?.[1] ?? 0]];
  const d = points.map(([at, value], i) => `${i ? "L" : "M"}${x(at)} ${y(value)}`).join("");
  return isFilled ? `${d}V36H0Z` : d;
}
