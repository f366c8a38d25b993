/** One run of a recipe: its figures, what people recorded, and its record. */
import { address, get } from "../lib/api.js";
import { duration, moment, number, percent, quantity, shown, symbol } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { useStatus, variableOf } from "../lib/live.js";
import { Facts } from "../lib/parts.js";
import { href } from "../lib/route.js";
import { Entries, measuredText } from "./entries.js";
import { kindName, sourceName } from "./event.js";
import { Rows } from "./recipe_plan.js";
import { chartsOf, endOf, facts, Name, short } from "./runs.js";

const AGAIN_MS = 15_000; // growd makes the figures some seconds after the end

export function Run({ environment, id }) {
  const [{ run, short_id, measurements, entries, problem }, setFound] = useState({});
  const state = useStatus()?.recipes.find((each) => each.environment === environment)?.state;
  const ask = async () => {
    const found = await get(`run/${encodeURIComponent(id)}`);
    setFound(found);
    const { entries: all } = await get(`journal/${environment}?start=${found.run.started}&end=${found.until + 1}&limit=1000`);
    setFound({ ...found, entries: all });
  };
  const hasAll = Boolean(run?.figures);
  const report = address(`report/${encodeURIComponent(id)}?lang=${document.documentElement.lang}`);
  const again = () => ask().catch(({ message }) => setFound((known) => ({ ...known, problem: message })));
  useEffect(() => {
    again();
    const timer = !hasAll && setInterval(again, AGAIN_MS);
    return () => clearInterval(timer);
  }, [id, state, hasAll]);
  return html`<p><a href=${href(environment, "recipes")}>← ${t("recipe_all")}</a></p>
    ${problem && html`<p class="bar warn" role="status">${problem}</p>`}
    ${!run ? !problem && t("loading") : html`<section class="card">
      <div class="row spread"><h2><${Name} name=${run.recipe?.name} id=${run.recipe_id} /></h2><span class="badge">${endOf(run)}</span></div>
      <p>${facts(`${moment(run.started)} –${run.ended ? ` ${moment(run.ended)}` : ""}`, run.ended && duration(run.ended - run.started))}</p>
      <p class="faint small">${facts(run.started_by && t("recipe_by", { by: run.started_by }), run.ended_by && t("runs_ended_by", { by: run.ended_by }), short_id)}</p>
      <div class="row"><a href=${chartsOf(run)}>${t("runs_charts")}</a> <a href=${report} target="_blank">${t("runs_report")}</a></div>
    </section>
    <section class="card"><h2>${t("runs_figures")}</h2>${run.figures ? html`<${Figures} environment=${environment} figures=${run.figures} />` : run.ended === null ? html`<p>${t("runs_no_figures")} <a href=${report} target="_blank">${t("runs_until_now")}</a></p>` : html`<p>${t("runs_no_figures_ever")}</p>`}</section>
    ${measurements.length > 0 && html`<section class="card"><h2>${t("runs_by_hand")}</h2><${Rows} heads=${["charts_time", "data_measured", "runs_by"]}
      rows=${measurements.map(({ time, variable, value, by }) => [moment(time), measuredText(environment, variable, value), by])} /></section>`}
    ${entries?.length > 0 && html`<h2>${t("journal_notes")}</h2><${Entries} ...${{ environment, entries, onSaved: again }} />`}
    <${Record} run=${run} />`}`;
}

/** The light integral: of a day on average, and in all; in all only for less than two days. */
function lightText({ total, days, uncertainty }) {
  const amount = (value) => `${uncertainty ? "≈ " : ""}${number(value, 2)} mol/m²`;
  return days.length < 2 ? amount(total) : t("runs_per_day", { amount: amount(total / days.length), total: number(total, 2) });
}

/** What growd made of the points of a run. */
function Figures({ environment, figures: { start, end, variables, outputs, light, events, gaps } }) {
  const text = (value, { unit, variable }) => (value === null ? "–" : number(shown(value, unit), variableOf(environment, variable).precision));
  const small = (words) => html`<br /><span class="faint small">${words}</span>`;
  return html`<${Rows} heads=${["data_variable", "charts_mean", "runs_within"]} rows=${variables.map((each) => {
      const { whole: { min, mean, max }, deviation } = each;
      return [variableName(each.variable), [`${text(mean, each)} ${symbol(each.unit)}`, small(`${text(min, each)} – ${text(max, each)}`)],
        deviation ? [percent(deviation.within), deviation.longest_s > 0 && small(t("runs_outside", { time: duration(deviation.longest_s) }))] : "–"];
    })} />
    <${Facts} of=${[
      [t("runs_light"), light && lightText(light)],
      ...outputs.filter((each) => each.on_s > 0).map(({ variable, on_s: on, known_s: known, starts, litres, energy_kwh: energy }) => [variableName(variable), facts(
        t("runs_on", { time: duration(on), share: percent(on / (known || end - start || 1)) }), starts > 0 && t("runs_starts", { count: starts }), litres !== null && quantity(litres, "L", 3), energy > 0 && quantity(energy, "kWh", 3))]),
      ...events.filter(({ lasted_s: lasted }) => lasted > 0).map(({ kind, source, count, lasted_s: lasted }) => [`${kindName(kind)} ${sourceName(kind, source)}`, t("runs_happened", { count, time: duration(lasted) })]),
      [t("runs_gaps"), gaps.length > 0 && t("runs_happened", { count: gaps.length, time: duration(gaps.reduce((sum, { begin, end }) => sum + end - begin, 0)) })],
    ]} />`;
}

/** What ran, with which growd and which configuration. */
function Record({ run }) {
  const revised = ({ time, recipe_id: id, recipe_rev: revision, by }) => [t("recipe_revised", { when: moment(time), name: `${id} ${short(revision)}` }), by && t("recipe_by", { by })];
  const json = (name, value) => value && html`<details><summary>${t(name)}</summary><pre class="small scrolled" tabindex="0">${JSON.stringify(value, null, 1)}</pre></details>`;
  return html`<section class="card"><h2>${t("runs_record")}</h2>
    <${Facts} of=${[[t("recipe"), `${run.recipe_id} ${short(run.recipe_rev)}`], ["growd", run.growd], [t("runs_id"), run._id], [t("runs_offset"), run.offset > 0 && duration(run.offset)],
      ...Object.entries(run.study ?? {}).map(([name, text]) => [t(`study_${name}`), text])]} />
    ${run.revisions?.map((each) => html`<p class="small">${facts(...revised(each))}</p>`)}
    ${json("recipe", run.recipe)}${json("runs_configuration", run.configuration)}${json("runs_calibrations", run.calibrations)}
  </section>`;
}
