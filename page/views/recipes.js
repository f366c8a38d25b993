/** Recipes: the running one with its plan, the library, and the past runs. */
import { call, database } from "../lib/api.js";
import { duration } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { written } from "../lib/json_text.js";
import { growdTime, useChamber, useStatus, useTopic } from "../lib/live.js";
import { Action } from "../lib/parts.js";
import { href, route } from "../lib/route.js";
import { mayOperate, session } from "../lib/session.js";
import { useSignal } from "../lib/signal.js";
import { zoneOf } from "../lib/zone.js";
import { discard, drafts, openDraft } from "./recipe_drafts.js";
import { Editor } from "./recipe_editor.js";
import { blank } from "./recipe_form.js";
import { Ahead, changeText, Plan } from "./recipe_plan.js";
import { Findings, Recipe } from "./recipe_view.js";

const DRIFT_S = 30; // a plan that starts that much later than the run does is asked again
const RUNS = 10;

/** Who does it, for the record of the run. */
const by = () => session.value?.user ?? "";

export function Recipes({ environment }) {
  const { query } = useSignal(route);
  const zone = zoneOf(useChamber(environment).time_zone);
  const given = { environment, zone, by };
  const key = query.get("recipe") ?? query.get("edit");
  if (query.has("edit") && mayOperate()) return html`<${Editor} key=${key} name=${key} ...${given} />`;
  if (query.has("recipe")) return html`<${Recipe} key=${key} id=${key} ...${given} />`;
  return html`<${Zone} ...${given} /><${Running} ...${given} /><div class="cards"><${Library} ...${given} /><${Runs} ...${given} /></div>`;
}

/** Says so if the chamber's times are not those of this device. */
export function Zone({ environment, zone }) {
  const { time_zone: name } = useChamber(environment);
  const now = useSignal(growdTime);
  return now > 0 && !zone.isHere(now) && html`<p class="bar warn">${t("recipe_zone", { name, time: zone.clock(now) })}</p>`;
}

/** {state, recipe_id, phase, elapsed, remaining, revision, changed ...} of an environment, moved by the stream. */
function useRun(environment) {
  const told = useStatus()?.recipes.find((each) => each.environment === environment);
  const live = useTopic(`${environment}/recipe_state`);
  if (!told) return null;
  const run = { ...told, elapsed: told.elapsed_s, remaining: told.remaining_s, ...live?.value };
  return { ...run, start: live ? live.time - live.value.elapsed : growdTime.value - told.elapsed_s };
}

/** The plan of the running recipe, asked again when it changes, and each hour. */
function useRunningPlan(environment, run) {
  const [plan, setPlan] = useState(null);
  const isIdle = !run || run.state === "idle";
  const hour = Math.floor(growdTime.value / 3600);
  const drift = run?.state === "running" && plan?.state === "running" ? Math.round((run.start - plan.start) / DRIFT_S) : 0;
  const key = isIdle ? "" : [run.recipe_id, run.revision, run.state, run.revised_at, hour, drift].join();
  useEffect(() => {
    if (isIdle) setPlan(null);
    else call(`${environment}/recipe_plan`).then((answer) => setPlan(answer.plan), () => {});
  }, [key]);
  return plan?.recipe_id === run?.recipe_id ? plan : null;
}

function Running({ environment, zone }) {
  const run = useRun(environment);
  const plan = useRunningPlan(environment, run);
  if (!run || run.state === "idle") return html`<section class="card"><h2>${t("recipe_none")}</h2><p class="faint">${t("recipe_choose")}</p></section>`;
  const service = (name, args) => () => call(`${environment}/${name}`, { ...args, by: by() });
  const now = growdTime.value;
  const share = run.elapsed / (run.elapsed + run.remaining || 1);
  const isWaiting = run.state === "waiting";
  const next = plan?.next.find((change) => change.time > now);
  const phase = plan?.phases.findLastIndex((each) => each.begin <= run.elapsed) ?? 0;
  return html`<div class="cards"><section class="card">
      <div class="row spread"><h2>${run.recipe_id}</h2><span class=${`badge ${run.state === "running" ? "" : "warn"}`}>${t(`recipe_is_${run.state}`)}</span></div>
      ${isWaiting
        ? plan && html`<p>${t("recipe_waits", { when: zone.moment(plan.start + plan.elapsed), time: duration(plan.start + plan.elapsed - now) })}</p>`
        : html`
          <p>${t("recipe_phase", { name: run.phase || "–", number: phase + 1, count: plan?.phases.length ?? "–" })}</p>
          <progress max="1" value=${share} aria-label=${t("recipe_progress")}></progress>
          <p>${t("recipe_place", { elapsed: duration(run.elapsed), remaining: duration(run.remaining) })}
            ${run.state === "running" && ` ${t("recipe_ends", { when: zone.moment(now + run.remaining) })}`}</p>`}
      ${next && run.state === "running" && html`<p>${t("recipe_next", { time: duration(next.time - now) })} <b>${variableName(next.variable)} ${changeText(next)}</b></p>`}
      <p class="faint small">${[run.started && t("recipe_started", { when: zone.moment(run.started), by: run.started_by || t("recipe_unknown") }), t("recipe_revision", { revision: short(run.revision) })].filter(Boolean).join(" · ")}</p>
      ${mayOperate() && html`<div class="row">
        ${run.state === "running" && html`<${Action} run=${service("pause_recipe")}>${t("recipe_pause")}<//>`}
        ${run.state === "paused" && html`<${Action} class="primary" run=${service("resume_recipe")}>${t("recipe_resume")}<//>`}
        ${!isWaiting && plan && html`<${Skip} ...${{ plan, phase, service }} />`}
        <${Action} class="bad" confirm=${t(isWaiting ? "recipe_cancel_sure" : "recipe_stop_sure", { name: run.recipe_id })} run=${service("stop_recipe")}>${t("recipe_stop")}<//>
      </div>`}
      ${run.changed && html`<${TakeOver} key=${run.changed} ...${{ environment, run, plan, zone, service }} />`}
    </section>
    ${plan && html`<section class="card"><h2>${t("recipe_ahead")}</h2><${Ahead} ...${{ plan, now, zone }} /></section>`}</div>
    ${plan && html`<section class="card"><h2>${t("recipe_plan")}</h2>
      <${Plan} ...${{ plan, zone, elapsed: isWaiting ? plan.elapsed : run.elapsed }} /></section>`}`;
}

const short = (revision) => revision.replace(/^(\d+-.{6}).*/, "$1");

function Skip({ plan, phase, service }) {
  const [to, choose] = useState("");
  if (plan.phases.length < 2) return null;
  return html`<span class="row"><select aria-label=${t("recipe_skip_to")} value=${to} onChange=${(event) => choose(event.target.value)}>
      <option value="">${t("recipe_skip_to")} …</option>
      ${plan.phases.map((each, i) => html`<option key=${i} value=${i + 1}>${i + 1}. ${each.name}${i === phase ? ` (${t("recipe_this_phase")})` : ""}</option>`)}
    </select>
    ${to && html`<${Action} confirm=${t("recipe_skip_sure", { name: plan.phases[to - 1].name })} run=${service("skip_to_phase", { phase: +to })}>${t("recipe_skip")}<//>`}
  </span>`;
}

/** A newer revision of the running recipe: what it changes from now on, and the button that lets it take over. */
function TakeOver({ environment, run, plan, zone, service }) {
  const [offered, offer] = useState(null);
  const compare = () =>
    call(`${environment}/recipe_plan`, { recipe_id: run.recipe_id, start: run.start }).then(offer, (refusal) => offer(refusal.body.findings ? refusal.body : { message: refusal.message }));
  return html`<div class="bar warn">
    <p>${t("recipe_changed", { runs: short(run.revision), saved: short(run.changed) })}</p>
    ${offered ? html`
      ${offered.plan ? html`<p class="small">${t("recipe_compared")}</p><${Plan} ...${{ plan: offered.plan, before: plan, elapsed: run.elapsed, zone }} />` : html`<p class="bad">${offered.message}</p>`}
      <${Findings} findings=${offered.findings ?? []} />
      <div class="row"><${Action} class="primary" disabled=${!offered.plan} run=${service("change_recipe")}>${t("recipe_take_over")}<//>
      <button onClick=${() => offer(null)}>${t("cancel")}</button></div>` : html`<button onClick=${compare}>${t("recipe_compare")}</button>`}
  </div>`;
}

function Library({ environment }) {
  const [recipes, setRecipes] = useState(null);
  const [problem, setProblem] = useState("");
  const [unsaved, setUnsaved] = useState(drafts);
  const file = useRef();
  const chamber = useChamber(environment);
  useEffect(() => {
    database("GET", "recipes/_all_docs?include_docs=true").then(
      (answer) => setRecipes(answer.rows.map((row) => row.doc).filter((doc) => doc && !doc._id.startsWith("_"))),
      (refusal) => setProblem(refusal.message),
    );
  }, []);
  const go = (draft) => (location.hash = href(environment, "recipes", { edit: openDraft(draft) }));
  const imported = async (event) => {
    const [chosen] = event.target.files;
    if (chosen) go({ id: chosen.name.replace(/\.json$/i, ""), text: await chosen.text() });
  };
  return html`<section class="card"><div class="row spread"><h2>${t("recipe_library")}</h2>
      ${mayOperate() && html`<div class="row"><button onClick=${() => go({ id: "", text: written(blank(chamber)) })}>${t("recipe_new")}</button>
        <button onClick=${() => file.current.click()}>${t("recipe_import")}</button>
        <input ref=${file} type="file" accept=".json,application/json" hidden onChange=${imported} /></div>`}
    </div>
    ${mayOperate() && unsaved.map(({ key, id, time }) => html`<div class="row spread" key=${key}>
      <a href=${href(environment, "recipes", { edit: key })}>${t("recipe_draft", { id: id || t("recipe_new"), when: new Date(time).toLocaleString(navigator.languages) })}</a>
      <button class="quiet" aria-label=${t("recipe_discard")} onClick=${() => confirm(t("recipe_discard_sure")) && (discard(key), setUnsaved(drafts()))}>✕</button>
    </div>`)}
    ${problem ? html`<p class="bad">${t("recipe_no_library", { reason: problem })}</p>` : !recipes ? html`<p>${t("loading")}</p>` : !recipes.length && html`<p>${t("recipe_empty")}</p>`}
    <ul class="list">${recipes?.map((doc) => html`<li key=${doc._id}><${Entry} ...${{ environment, doc }} /></li>`)}</ul>
  </section>`;
}

const checked = new Map(); // answers of check_recipe by environment, id and revision

function Entry({ environment, doc }) {
  const key = `${environment}/${doc._id}/${doc._rev}`;
  const [check, setCheck] = useState(checked.get(key));
  useEffect(() => {
    if (!check) {
      call(`${environment}/check_recipe`, { recipe: doc }).then((answer) => (checked.set(key, answer), setCheck(answer)), () => {});
    }
  }, [key]);
  return html`<a class="row spread" href=${href(environment, "recipes", { recipe: doc._id })}>
    <span><b>${doc.name || doc._id}</b><br /><span class="faint small">${[doc.name && doc._id, doc.author, doc.format].filter((each) => typeof each === "string").join(" · ")}</span></span>
    <span class="row">${check?.duration > 0 && duration(check.duration)}
    ${check && html`<span class=${`badge ${check.valid ? "" : "bad"}`}>${check.valid ? `✓ ${t("recipe_valid")}` : `✕ ${t("recipe_invalid")}`}</span>`}</span>
  </a>`;
}

function Runs({ environment, zone }) {
  const [runs, setRuns] = useState(null);
  const [problem, setProblem] = useState("");
  const [count, setCount] = useState(RUNS);
  const status = useStatus()?.recipes.find((each) => each.environment === environment);
  useEffect(() => {
    const name = location.pathname.split("/")[1].slice(1); // [http] name
    const keys = `startkey=${encodeURIComponent(JSON.stringify([environment, {}]))}&endkey=${encodeURIComponent(JSON.stringify([environment]))}`;
    database("GET", `recipe_run/_design/${name}/_view/by_start?descending=true&include_docs=true&limit=${count + 1}&${keys}`).then(
      (answer) => setRuns(answer.rows.map((row) => row.doc)),
      (refusal) => setProblem(refusal.message),
    );
  }, [count, status?.recipe_id, status?.revised_at, status?.state === "idle"]);
  return html`<section class="card"><h2>${t("recipe_runs")}</h2>
    ${problem ? html`<p class="bad">${problem}</p>` : !runs?.length && html`<p>${t(runs ? "recipe_no_runs" : "loading")}</p>`}
    ${runs?.length > 0 && html`<div class="scroll"><table>
      <thead><tr><th>${t("recipe_run_start")}</th><th>${t("recipe")}</th><th>${t("recipe_run_end")}</th><th>${t("recipe_run_who")}</th><th></th></tr></thead>
      <tbody>${runs.slice(0, count).map((run) => html`<tr key=${run._id}>
        <td>${zone.moment(run.started)}</td>
        <td>${run.recipe_id} <span class="faint small">${short(run.recipe_rev ?? "")}</span>
          ${run.revisions?.map((each) => html`<br /><span class="small" key=${each.time}>${t("recipe_revised", { when: zone.moment(each.time), revision: short(each.recipe_rev), by: each.by })}</span>`)}</td>
        <td>${run.ended === null ? t("recipe_is_running") : `${ending(run.end_reason)}, ${zone.moment(run.ended)}`}<br /><span class="faint small">${run.elapsed !== null && t("recipe_after", { time: duration(run.elapsed) })}</span></td>
        <td>${[run.started_by, run.ended_by].filter(Boolean).join(", ") || "–"}</td>
        <td><a href=${href(environment, "charts", { range: "any", start: Math.floor(run.started), end: Math.ceil(run.ended ?? growdTime.value) })}>${t("charts")}</a></td>
      </tr>`)}</tbody></table></div>`}
    ${runs?.length > count && html`<button onClick=${() => setCount(count + 50)}>${t("recipe_more")}</button>`}
  </section>`;
}

const ending = (reason) => t(`recipe_${reason.replaceAll(" ", "_")}`);
