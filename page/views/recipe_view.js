/** One recipe of the library: its plan, growd's findings, and its start. */
import { call, database } from "../lib/api.js";
import { duration } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { written } from "../lib/json_text.js";
import { growdTime, useStatus } from "../lib/live.js";
import { Action } from "../lib/parts.js";
import { href } from "../lib/route.js";
import { mayOperate } from "../lib/session.js";
import { openDraft } from "./recipe_drafts.js";
import { isByClock, Plan } from "./recipe_plan.js";

/** The address of a recipe in the database. */
export const documentPath = (id) => `recipes/${encodeURIComponent(id)}`;

/** A recipe as it is shown and edited, without what the database adds. */
export const content = ({ _id, _rev, ...rest }) => rest;

/** growd's errors and warnings; `onChoose` is called with the one that is chosen, `where` names its place. */
export function Findings({ findings, where, onChoose }) {
  return findings.length > 0 && html`<ul class="findings">${findings.map((each, i) => html`<li key=${i} class=${each.severity === "error" ? "bad" : "warn"}>
    <b>${t(`recipe_${each.severity}`)}</b> ${onChoose ? html`<button class="quiet" onClick=${() => onChoose(each)}>${where(each)}</button>` : html`<code>${each.pointer}</code>`} ${each.sentence}
  </li>`)}</ul>`;
}

/** What growd says of a plan, {plan, findings} or {message, findings}, asked again when `key` changes. */
export function usePlan(environment, args, key) {
  const [answer, setAnswer] = useState(null);
  useEffect(() => {
    let isCurrent = args !== null;
    if (isCurrent) {
      call(`${environment}/recipe_plan`, args)
        .catch(({ message, body }) => ({ message, findings: body.findings ?? [] }))
        .then((found) => isCurrent && setAnswer(found));
    }
    return () => (isCurrent = false);
  }, [key]);
  return answer;
}

export function Recipe({ environment, zone, id, by }) {
  const [recipe, setRecipe] = useState(null);
  const [problem, setProblem] = useState("");
  const [offset, setOffset] = useState(0);
  const [at, setAt] = useState(0);
  useEffect(() => {
    database("GET", documentPath(id)).then(setRecipe, (refusal) => setProblem(refusal.message));
  }, []);
  const begin = at ? at - offset : offset ? growdTime.value - offset : 0;
  const answer = usePlan(environment, { recipe_id: id, start: Math.max(0, begin) }, `${at} ${offset}`);
  const plan = answer?.plan;
  const copy = () => (location.hash = href(environment, "recipes", { edit: openDraft({ id: `${id}_2`, text: written(content(recipe)) }) }));
  const remove = async () => {
    await database("DELETE", `${documentPath(id)}?rev=${recipe._rev}`);
    location.hash = href(environment, "recipes");
    return { message: t("recipe_deleted", { name: id }) };
  };
  return html`<p><a href=${href(environment, "recipes")}>← ${t("recipe_all")}</a></p>
    <section class="card"><h2>${recipe?.name || id}</h2>
      ${problem && html`<p class="bad">${problem}</p>`}
      ${recipe && html`<p class="faint small">${[id, recipe.format, recipe.author, plan && duration(plan.duration)].filter((each) => typeof each === "string").join(" · ")}</p>`}
      ${typeof recipe?.description === "string" && html`<p>${recipe.description}</p>`}
      ${answer && !plan && html`<p class="bad">${t("recipe_cannot")}</p>`}
      <${Findings} findings=${answer?.findings ?? []} />
      ${answer && !plan && !answer.findings.length && html`<p class="bad">${answer.message}</p>`}
      <div class="row">
        ${mayOperate() && recipe && html`<a class="button" href=${href(environment, "recipes", { edit: id })}>${t("recipe_edit")}</a>
          <button onClick=${copy}>${t("recipe_duplicate")}</button>`}
        ${recipe && html`<button onClick=${() => download(`${id}.json`, written({ _id: id, ...content(recipe) }))}>${t("recipe_export")}</button>`}
        ${recipe && html`<${Action} class="bad" confirm=${t("recipe_delete_sure", { name: id })} run=${remove}>${t("recipe_delete")}<//>`}
      </div>
    </section>
    ${plan && html`${mayOperate() && html`<${Start} ...${{ environment, zone, id, by, plan, offset, setOffset, at, setAt }} />`}
      <section class="card"><h2>${t("recipe_plan")}</h2>
        ${isByClock(plan) && !at && html`<p class="faint small">${t("recipe_plan_if_now")}</p>`}
        <${Plan} ...${{ plan, zone, picked: offset || null, onPick: mayOperate() ? setOffset : null }} /></section>`}`;
}

function Start({ environment, zone, id, by, plan, offset, setOffset, at, setAt }) {
  const running = useStatus()?.recipes.find((each) => each.environment === environment);
  const [size, unit] = plan.duration < 10_800 ? [60, "minutes"] : plan.duration < 4 * 86_400 ? [3600, "hours"] : [86_400, "days"];
  const start = async () => {
    const answer = await call(`${environment}/start_recipe`, { recipe_id: id, offset, ...(at && { at }), by: by() });
    location.hash = href(environment, "recipes");
    return answer;
  };
  return html`<section class="card"><h2>${t("recipe_start_it")}</h2>
    ${running && running.state !== "idle" && html`<p class="warn">${t("recipe_busy", { name: running.recipe_id })}</p>`}
    <div class="row">
      <label>${t("recipe_start_at")}<br /><select value=${at ? "at" : ""} onChange=${(event) => setAt(event.target.value ? Math.ceil(growdTime.value / 3600 + 0.1) * 3600 : 0)}>
        <option value="">${t("recipe_now")}</option><option value="at">${t("recipe_at_time")}</option></select></label>
      ${at > 0 && html`<label>${t("recipe_time")}<br /><input type="datetime-local" required value=${zone.text(at).slice(0, 16)}
        onChange=${({ target }) => target.value && setAt(zone.unix(target.value.length < 17 ? `${target.value}:00` : target.value))} /></label>`}
      ${plan.phases.length > 1 && html`<label>${t("recipe_begin_with")}<br /><select value=${plan.phases.findIndex((each) => each.begin === offset)} onChange=${(event) => setOffset(plan.phases[event.target.value]?.begin ?? offset)}>
        <option value="-1">${t("recipe_a_place")}</option>
        ${plan.phases.map((each, i) => html`<option key=${i} value=${i}>${i + 1}. ${each.name}</option>`)}</select></label>`}
      <label>${t("recipe_offset", { unit: t(`recipe_${unit}`) })}<br /><input type="number" min="0" max=${plan.duration / size} step="any" value=${+(offset / size).toFixed(4)}
        onChange=${(event) => setOffset(Math.max(0, event.target.value * size))} /></label>
    </div>
    <p class="faint small">${t("recipe_pick")}</p>
    <div class="row"><${Action} class="primary" run=${start}>${t("recipe_start")}<//>
      <span>${t("recipe_start_says", { when: at ? zone.moment(at) : t("recipe_now"), place: offset ? duration(offset) : t("recipe_beginning") })}</span></div>
  </section>`;
}

/** Let the browser save a text as a file. */
function download(name, text) {
  const link = Object.assign(document.createElement("a"), { download: name, href: URL.createObjectURL(new Blob([text], { type: "application/json" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
