/** The runs of recipes: the list, from which one is opened and two are compared. */
import { address, get } from "../lib/api.js";
import { duration, moment } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { growdTime, useStatus } from "../lib/live.js";
import { href } from "../lib/route.js";

const LIMIT = 20; // at once
const LATE_MS = 3_000; // a record of a run comes to the database after the status

/** The texts of a list that are there, in a line. */
export const facts = (...all) => all.filter((each) => each && typeof each === "string").join(" · ");

export const short = (revision = "") => revision.replace(/^(\d+-.{6}).*/, "$1");

/** The title of a recipe with its id; the id alone if it has no title. */
export const Name = ({ name, id }) => (facts(name) ? html`${name} <span class="faint small">${id}</span>` : id);

/** How a run ended, or that it runs. */
export const endOf = ({ ended, end_reason: reason }) => t(ended === null ? "recipe_is_running" : `said_recipe_${String(reason).replaceAll(" ", "_")}`);

/** The address of the charts of a run. */
export const chartsOf = ({ environment, started, ended }) =>
  href(environment, "charts", { range: "any", start: Math.floor(started), end: Math.ceil(ended ?? growdTime.value) });

export function Runs({ environment }) {
  const [{ runs, more, problem }, setFound] = useState({});
  const [chosen, choose] = useState([]);
  const status = useStatus();
  const told = status?.recipes.find((each) => each.environment === environment);
  const ask = (before = 0) => get(`runs/${environment}?limit=${LIMIT}&before=${before}`).then(
    (found) => setFound(({ runs: known }) => ({ ...found, runs: before ? [...known, ...found.runs] : found.runs })),
    ({ message }) => setFound((known) => ({ ...known, problem: message })),
  );
  useEffect(() => {
    ask();
    const timer = setTimeout(ask, LATE_MS);
    return () => clearTimeout(timer);
  }, [told?.started, told?.state, told?.revised_at, status?.database?.reachable]);
  const toggle = (id) => choose(chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen, id].slice(-2));
  return html`<section class="card"><h2>${t("recipe_runs")}</h2>
    ${problem ? html`<p class="bad">${problem}</p>` : !runs?.length && html`<p>${t(runs ? "recipe_no_runs" : "loading")}</p>`}
    <ul class="list runs">${runs?.map((run) => html`<li key=${run.id}>
      ${runs.length > 1 && html`<input type="checkbox" aria-label=${t("runs_choose", { name: `${run.recipe_id}, ${moment(run.started)}` })} checked=${chosen.includes(run.id)} onChange=${() => toggle(run.id)} />`}
      <a href=${href(environment, "recipes", { run: run.id })}>
        <span><b>${moment(run.started)}</b> ${run.recipe_id}<br /><span class="faint small">${facts(endOf(run), run.ended && duration(run.ended - run.started), run.started_by, run.revisions > 0 && t("runs_revisions", { count: run.revisions + 1 }))}</span></span>
        <span class="faint" aria-hidden="true">›</span></a></li>`)}</ul>
    ${runs?.length > 1 && html`<div class="row">${chosen.length === 2
      ? html`<a href=${address(`compare?${chosen.map((id) => `run=${encodeURIComponent(id)}&`).join("")}lang=${document.documentElement.lang}`)} target="_blank">${t("runs_compare")}</a>` : html`<span class="small faint">${t("runs_choose_two")}</span>`}
      ${more && html`<button onClick=${() => ask(runs.at(-1).started)}>${t("runs_older")}</button>`}</div>`}
  </section>`;
}
