/** Recipes: the running one with its plan, the library, one of them with its start, and the runs. */
import { address, call, database, get } from "../lib/api.js";
import { decimalsIn, duration, local, moment, number, percent, unix } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { read, written } from "../lib/json_text.js";
import { growdTime, status, useChamber, useStatus, useTopic } from "../lib/live.js";
import { authorName } from "../lib/names.js";
import { Action, imported, Loaded, notify, NumberInput } from "../lib/parts.js";
import { href, route } from "../lib/route.js";
import { author, mayOperate } from "../lib/session.js";
import { useSignal } from "../lib/signal.js";
import { Findings, usePlan } from "./recipe_check.js";
import { blank, content, discard, documentPath, drafts, newDraft } from "./recipe_drafts.js";
import { Ahead, changeText, exact, isByClock, Plan } from "./recipe_plan.js";
import { facts, Name, Runs, short } from "./runs.js";

const DRIFT_S = 30; // a plan that begins that much earlier or later than the run is asked again
const LARGEST_FILE = 4_000_000; // bytes
const AGAIN_MS = 30_000;
const PROGRESS_MS = 2_000;
const MOST_DAYS = 100; // of a simulation
const STUDY = ["cultivar", "treatment", "replicate", "unit"]; // what a start may say of an experiment

/** Call a service of the environment in the name of who uses the page. */
const service = (environment, name, args) => () => call(`${environment}/${name}`, { ...args, by: author() });

const editor = imported(() => import("./recipe_editor.js"), "Editor");
const oneRun = imported(() => import("./run.js"), "Run");
const go = (environment, query) => (location.hash = href(environment, "recipes", query));
const useTold = (environment) => useStatus()?.recipes.find((each) => each.environment === environment);

export function Recipes({ environment }) {
  const { query } = useSignal(route);
  const [id, run] = [query.get("recipe"), query.get("run")];
  const edited = mayOperate() && query.get("edit");
  return edited ? html`<${Loaded} key=${edited} load=${editor} name=${edited} environment=${environment} />`
    : run ? html`<${Loaded} key=${run} load=${oneRun} id=${run} environment=${environment} />`
    : id ? html`<${Recipe} key=${id} id=${id} environment=${environment} />`
    : html`<${Running} environment=${environment} /><div class="pair"><${Library} environment=${environment} /><${Runs} environment=${environment} /></div>`;
}

function Running({ environment }) {
  const told = useTold(environment);
  const message = useTopic(`${environment}/recipe_state`);
  const live = message?.time >= status.value?.time && message; // one that waited to be shown may be older than the status
  const [plan, setPlan] = useState(null);
  const now = useSignal(growdTime);
  const { state, recipe_id: id, phase, elapsed, remaining } = { elapsed: told?.elapsed_s, remaining: told?.remaining_s, ...told, ...live.value };
  const isIdle = !state || state === "idle";
  const start = (live || status.value)?.time - elapsed;
  const drift = state === "running" && plan?.state === state ? Math.round((start - plan.start) / DRIFT_S) : 0;
  useEffect(() => {
    if (!isIdle) call(`${environment}/recipe_plan`).then(({ plan: its }) => setPlan((known) => its ?? known ?? {}), () => setPlan((known) => known ?? {}));
  }, [id, told?.revision, state, Math.floor(now / 3600), drift]);
  if (!told) return null;
  if (isIdle) return html`<section class="card"><h2>${t("recipe_none")}</h2></section>`;
  if (!plan) return html`<section key="room" class="card room">${t("loading")}</section>`; // nothing moves when it comes
  const drawn = plan.recipe_id === id && plan;
  const isWaiting = state === "waiting";
  const run = { environment, told, plan: drawn, id, state, phase, elapsed, remaining, now, isWaiting };
  const place = isWaiting ? { isDated: true, picked: elapsed || null } : { elapsed };
  return html`<div class="pair">
    <section class="card">
      <div class="row spread"><h2><${Name} name=${drawn?.name} id=${id} /></h2>
        <span class=${`badge ${state === "running" ? "" : "warn"}`}>${t(`recipe_is_${state}`)}</span></div>
      ${isWaiting ? html`<p>${t("recipe_waits", { when: moment(told.starts_at), time: duration(told.starts_at - now) })}</p>` : html`<${Progress} ...${run} />`}
      <p class="faint small">${origin(told)}</p>
      <${Buttons} ...${run} />
    </section>
    ${drawn && html`<section class="card"><h2>${t("recipe_ahead")}</h2><${Ahead} plan=${drawn} now=${now} /></section>`}</div>
    ${told.changed && drawn && html`<${TakeOver} key=${told.changed} ...${run} />`}
    ${drawn && html`<section class="card"><h2>${t("recipe_plan")}</h2><${Plan} plan=${drawn} ...${place} /></section>`}`;
}

/** When and by whom the recipe was started, and which revision runs. */
const origin = ({ started, by, revision, revised_at: revised }) => facts(
  started > 0 && t("recipe_started", { when: moment(started) }), by && t("recipe_by", { by: authorName(by) }),
  t("recipe_revision", { revision: short(revision) }), revised > 0 && t("recipe_since", { when: moment(revised) }));

const numberOf = ({ phases = [] }, elapsed) => phases.findLastIndex((each) => each.begin <= elapsed);

/** Phase, time done and left, and the next change of a recipe that has begun. */
function Progress({ plan, state, phase, elapsed, remaining, now }) {
  const next = state === "running" && plan?.next?.find((change) => change.time > now);
  return html`${phase && html`<p>${t("recipe_phase", { name: phase, number: numberOf(plan, elapsed) + 1 || "–", count: plan ? plan.phases.length : "–" })}</p>`}
    <progress max="1" value=${elapsed / (elapsed + remaining || 1)} aria-label=${t("recipe_progress")}></progress>
    <p>${t("recipe_place", { elapsed: duration(elapsed), remaining: duration(remaining) })} ${state === "running" && t("recipe_ends", { when: moment(now + remaining) })}</p>
    ${next && html`<p>${t("recipe_next", { time: duration(next.time - now) })} <b>${variableName(next.variable)} ${changeText(next)}</b></p>`}`;
}

function Buttons({ environment, plan, id, state, elapsed, isWaiting }) {
  const run = (name, args) => service(environment, name, args);
  return html`<div class="row">
    ${state === "running" && html`<${Action} run=${run("pause_recipe")}>${t("recipe_pause")}<//>`}
    ${state === "paused" && html`<${Action} class="primary" run=${run("resume_recipe")}>${t("recipe_resume")}<//>`}
    ${!isWaiting && plan && mayOperate() && html`<${Skip} phases=${plan.phases} number=${numberOf(plan, elapsed)} run=${run} />`}
    <${Action} class="bad" confirm=${t(isWaiting ? "recipe_cancel_sure" : "recipe_stop_sure", { name: id })} run=${run("stop_recipe")}>${t(isWaiting ? "recipe_cancel" : "recipe_stop")}<//>
  </div>`;
}

function Skip({ phases, number, run }) {
  const [to, choose] = useState("");
  return phases.length > 1 && html`<select aria-label=${t("recipe_skip_to")} value=${to} onChange=${({ target }) => choose(target.value)}>
      <option value="">${t("recipe_skip_to")} …</option>
      ${phases.map(({ name }, i) => html`<option value=${i + 1}>${i + 1}. ${name}${i === number ? ` (${t("recipe_now")})` : ""}</option>`)}
    </select>
    ${to && html`<${Action} confirm=${t("recipe_skip_sure", { name: phases[to - 1].name })} run=${run("skip_to_phase", { phase: +to })}>${t("recipe_skip")}<//>`}`;
}

/** A newer revision of the running recipe: what it changes from now on, and the button that lets it take over. */
function TakeOver({ environment, told, plan, elapsed, isWaiting }) {
  const [isOpen, open] = useState(false);
  const answer = usePlan(environment, isOpen && { recipe_id: told.recipe_id, start: plan.start }, isOpen);
  return html`<section class="card"><p class="bar warn">${t("recipe_changed", { runs: short(told.revision), saved: short(told.changed) })}</p>
    ${!isWaiting && !isOpen && html`<button onClick=${() => open(true)}>${t("recipe_compare")}</button>`}
    ${answer && html`<${Findings} findings=${answer.findings} />
      ${answer.plan ? html`<h3>${t("recipe_compared")}</h3><${Plan} ...${{ plan: answer.plan, before: plan, elapsed }} />` : html`<p class="bad">${answer.message}</p>`}
      <div class="row"><${Action} class="primary" disabled=${!answer.plan} run=${service(environment, "change_recipe", { recipe_id: told.recipe_id, revision: told.changed })}>${t("recipe_take_over")}<//>
      <button onClick=${() => open(false)}>${t("cancel")}</button></div>`}
  </section>`;
}

function Library({ environment }) {
  const [recipes, setRecipes] = useState(null);
  const [problem, setProblem] = useState("");
  const [unsaved, setUnsaved] = useState(drafts);
  const isThere = useStatus()?.database?.reachable;
  const file = useRef();
  const chamber = useChamber(environment);
  useEffect(() => {
    let isCurrent = true;
    const show = (problem, found) => isCurrent && (found && setRecipes(found), setProblem(problem));
    const ask = () => database("GET", "recipes/_all_docs?include_docs=true").then(
      ({ rows }) => show("", rows.map(({ doc }) => doc).filter(({ _id }) => _id[0] !== "_")), ({ message }) => show(message.replace(/\.$/, "")));
    ask();
    const timer = setInterval(ask, AGAIN_MS); // others save recipes too
    return () => (isCurrent = false, clearInterval(timer));
  }, [isThere]);
  const edit = (id, text) => go(environment, { edit: newDraft(id, text) });
  const imported = async ({ target: { files: [chosen] } }) => {
    if (chosen.size > LARGEST_FILE) return notify(t("recipe_file_large", { name: chosen.name }), "bad");
    let [id, text] = [chosen.name.replace(/\.json$/i, ""), await chosen.text()];
    try {
      const { value } = read(text);
      if (typeof value._id === "string") id = value._id;
      // the others, such as attachments, are for the database, and the form does not show them
      text = written(Object.fromEntries(Object.entries(value).filter(([name]) => name[0] !== "_" || name === "__proto__")));
    } catch {
      notify(t("recipe_file_not_json", { name: chosen.name }), "bad"); // the editor shows where
    }
    edit(id, text);
  };
  return html`<section class=${`card ${recipes || problem ? "" : "loads"}`}>
    <div class="row spread"><h2>${t("recipe_library")}</h2>
      ${mayOperate() && html`<div class="row"><button onClick=${() => edit("", written(blank(chamber)))}>${t("recipe_new")}</button>
        <button onClick=${() => file.current.click()}>${t("recipe_from_file")}</button>
        <input ref=${file} type="file" accept=".json" hidden onChange=${imported} /></div>`}
    </div>
    ${mayOperate() && unsaved.map(({ key, id, time }) => html`<div class="row spread" key=${key}>
      <a href=${href(environment, "recipes", { edit: key })}>${t("recipe_draft", { id: id || t("recipe_new"), when: moment(time / 1000) })}</a>
      <${Action} class="quiet" confirm=${t("recipe_discard_sure")} run=${async () => void (discard(key), setUnsaved(drafts()))}>${t("recipe_discard")}<//>
    </div>`)}
    ${problem ? html`<p class="bad">${t("recipe_no_library", { reason: problem })}</p>` : !recipes?.length && html`<p>${t(recipes ? "recipe_empty" : "loading")}</p>`}
    <ul class="list">${recipes?.map((recipe) => html`<li key=${recipe._id}><${Entry} environment=${environment} recipe=${recipe} /></li>`)}</ul>
  </section>`;
}

const checked = new Map(); // answers of check_recipe by environment, id and revision

function Entry({ environment, recipe }) {
  const key = `${environment} ${recipe._id} ${recipe._rev}`;
  const [check, setCheck] = useState(checked.get(key));
  useEffect(() => {
    if (!check) call(`${environment}/check_recipe`, { recipe }).then((answer) => (checked.set(key, answer), setCheck(answer)), () => {});
  }, [key]);
  const { _id: id, name, author, format } = recipe;
  return html`<a href=${href(environment, "recipes", { recipe: id })}>
    <span><b>${facts(name) || id}</b><br /><span class="faint small">${facts(name && id, author, format, check?.duration > 0 && duration(check.duration))}</span></span>
    <span><span class=${`badge ${!check ? "unseen" : check.valid ? "" : "bad"}`}>${check?.valid === false ? "✕" : "✓"} ${t(check?.valid === false ? "recipe_invalid" : "recipe_valid")}</span>
      <span class="faint" aria-hidden="true">›</span></span>
  </a>`;
}

/** A recipe of the library: growd's findings, its start, and its plan. */
function Recipe({ environment, id }) {
  const [recipe, setRecipe] = useState(null);
  const [problem, setProblem] = useState("");
  const [{ at, offset }, setBegin] = useState({ at: 0, offset: 0 });
  useEffect(() => {
    database("GET", `${documentPath(id)}?conflicts=true`).then(setRecipe, ({ message }) => setProblem(message));
  }, []);
  const answer = usePlan(environment, { recipe_id: id, start: at || offset ? (at || growdTime.value) - (offset || 0) : 0 }, `${at} ${offset}`);
  const plan = answer?.plan;
  const text = recipe && written(content(recipe));
  const save = () => {
    const link = Object.assign(document.createElement("a"), { download: `${id}.json`, href: URL.createObjectURL(new Blob([written({ _id: id, ...content(recipe) })])) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  const remove = async () => {
    await keepOnly();
    return { message: t("recipe_deleted", { name: id }) };
  };
  const versions = [recipe?._rev, ...(recipe?._conflicts ?? [])]; // several if it is in conflict
  const keepOnly = async (kept) => {
    for (const rev of versions) if (rev !== kept) await database("DELETE", `${documentPath(id)}?rev=${rev}`);
    go(environment);
  };
  const open = async (rev) => go(environment, { edit: newDraft(`${id}_2`, written(content(await database("GET", `${documentPath(id)}?rev=${rev}`)))) });
  const pick = (offset) => setBegin({ at, offset });
  return html`<p><a href=${href(environment, "recipes")}>← ${t("recipe_all")}</a></p>
    <section class="card"><h2>${facts(recipe?.name) || id}</h2>
      ${problem && html`<p class="bad">${problem}</p>`}
      <p class="faint small">${facts(id, recipe?.format, recipe?.author, plan && duration(plan.duration))}</p>
      <p>${facts(recipe?.description)}</p>
      ${answer && !plan && html`<p class="bad">${answer.findings.length ? t("recipe_cannot") : answer.message}</p>`}
      <${Findings} findings=${answer?.findings ?? []} />
      ${versions.length > 1 && versions.map((rev) => html`<div class="row" key=${rev}>
        <span>${t("recipe_revision", { revision: short(rev) })}</span>
        <${Action} run=${() => open(rev)}>${t("recipe_duplicate")}<//>
        <${Action} confirm=${t("recipe_keep_sure", { revision: short(rev) })} run=${() => keepOnly(rev)}>${t("recipe_keep")}<//></div>`)}
      ${recipe && html`<div class="row">
        ${mayOperate() && html`<button onClick=${() => go(environment, { edit: id })}>${t("recipe_edit")}</button>
          <button onClick=${() => go(environment, { edit: newDraft(`${id}_2`, text) })}>${t("recipe_duplicate")}</button>`}
        <button onClick=${save}>${t("recipe_export")}</button>
        <${Action} class="bad" confirm=${t("recipe_delete_sure", { name: id })} run=${remove}>${t("recipe_delete")}<//>
      </div>`}
    </section>
    ${plan && mayOperate() && html`<${Start} ...${{ environment, id, plan, known: recipe?.study ?? {}, at, offset, pick, setAt: (at) => setBegin({ at, offset }) }} />`}
    ${plan && mayOperate() && html`<${Trial} ...${{ environment, id, plan }} />`}
    ${plan && html`<section class="card"><h2>${t("recipe_plan")}</h2>
      ${isByClock(plan) && !at && html`<p class="faint small">${t("recipe_plan_if_now")}</p>`}
      <${Plan} ...${{ plan, picked: offset || null, onPick: mayOperate() && pick }} /></section>`}`;
}

function Start({ environment, id, plan, known, at, offset, pick, setAt }) {
  const told = useTold(environment);
  const isTaken = Boolean(told) && told.state !== "idle";
  const [size, unit] = plan.duration < 10_800 ? [60, "minutes"] : plan.duration < 345_600 ? [3_600, "hours"] : [86_400, "days"];
  const isNowhere = Number.isNaN(offset);
  const [study, setStudy] = useState({});
  const start = async () => {
    const given = Object.entries(study).map(([name, text]) => [name, text.trim()]).filter(([, text]) => text);
    const answer = await service(environment, "start_recipe", { recipe_id: id, offset, at, study: Object.fromEntries(given) })();
    go(environment);
    return answer;
  };
  return html`<section class="card"><h2>${t("recipe_start")}</h2>
    ${isTaken && html`<p class="warn">${t("recipe_busy", { name: told.recipe_id })}</p>`}
    <div class="row">
      <label>${t("recipe_when")}<br /><select value=${at > 0} onChange=${({ target }) => setAt(target.value === "true" ? Math.ceil(growdTime.value / 3600 + 0.1) * 3600 : 0)}>
        <option value="false">${t("recipe_now")}</option><option value="true">${t("recipe_at_time")}</option></select></label>
      ${at > 0 && html`<label>${t("recipe_at_time")}<br /><input type="datetime-local" value=${local(at)} onChange=${({ target }) => target.value && setAt(unix(target.value))} /></label>`}
      ${plan.phases.length > 1 && html`<label>${t("recipe_begin_with")}<br /><select value=${plan.phases.findIndex(({ begin }) => begin === offset)} onChange=${({ target }) => pick(plan.phases[target.value]?.begin ?? offset)}>
        <option value="-1">${t("recipe_a_place")}</option>
        ${plan.phases.map(({ name }, i) => html`<option value=${i}>${i + 1}. ${name}</option>`)}</select></label>`}
      <label>${t("recipe_offset", { unit: t(`recipe_${unit}`) })}<br /><${NumberInput} value=${offset / size} least=${0} empty=${0} onNumber=${(place) => pick(place * size < plan.duration ? place * size : NaN)} />
        ${isNowhere && html`<br /><span class="small bad" role="alert">${t("recipe_nowhere", { end: number(plan.duration / size, decimalsIn(plan.duration / size) ?? 3), unit: t(`recipe_${unit}`) })}</span>`}</label>
    </div>
    <p class="faint small">${t("recipe_pick")}</p>
    <details><summary>${t("study")}</summary>
      <div class="fields">${STUDY.map((name) => html`<label key=${name}>${t(`study_${name}`)}<input maxlength="200" placeholder=${known[name]} value=${study[name] ?? ""} onInput=${({ target }) => setStudy({ ...study, [name]: target.value })} /></label>`)}</div>
      <p class="faint small">${t("study_about")}</p></details>
    <div class="row"><${Action} class="primary" disabled=${isTaken || isNowhere} run=${start}>${t("recipe_start")}<//>
      ${at ? moment(at) : t("recipe_now")}${offset > 0 && t("recipe_start_says", { place: exact(offset) })}</div>
  </section>`;
}

/** What the recipe would do in this chamber; one simulation runs at a time. */
function Trial({ environment, id, plan }) {
  const [now, setNow] = useState({});
  const [days, setDays] = useState(Math.min(MOST_DAYS, Math.ceil(plan.duration / 86_400)));
  const ask = () => get("node/simulator/recipe").then(({ simulation }) => setNow(simulation), () => {});
  const run = (environment, name, args) => () => call(`${environment}/${name}`, args).finally(ask);
  useEffect(() => {
    ask();
    const timer = setInterval(ask, PROGRESS_MS);
    return () => clearInterval(timer);
  }, []);
  const isOurs = now.recipe_id === id && now.environment === environment;
  return html`<section class="card"><h2>${t("trial")}</h2><p class="faint small">${t("trial_about")}</p>
    ${now.state === "running" ? html`<progress max="1" value=${now.done} aria-label=${t("trial")}></progress>
      <p class="row spread">${t("trial_runs", { name: now.recipe_id, done: percent(now.done), speed: number(now.speed, 0) })}
        <${Action} class="bad" run=${run(now.environment, "stop_simulation")}>${t("recipe_stop")}<//></p>`
    : html`<div class="row"><label><${NumberInput} size="3" value=${days} decimals=${0} least=${1} most=${MOST_DAYS} onNumber=${setDays} /> ${t("recipe_days")}</label>
        <${Action} disabled=${!days} run=${run(environment, "simulate_recipe", { recipe_id: id, days, lang: document.documentElement.lang })}>${t("trial")}<//></div>`}
    <p role="status">${isOurs && now.state === "failed" && html`<span class="bad" lang="en">${now.reason}</span>`}
      ${isOurs && now.state === "done" && html`<a href=${address("simulation_report")} target="_blank">${t("runs_report")}</a>`}</p>
  </section>`;
}
