/** Charts of what was measured, wanted and done, over any range of time. */
import { database, databaseAddress, DESIGN, key } from "../lib/api.js";
import { local } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { growdTime, useChamber } from "../lib/live.js";
import { href, route } from "../lib/route.js";
import { useSignal } from "../lib/signal.js";
import { Chart } from "./chart.js";

const SECONDS = { hour: 3_600, day: 86_400, week: 7 * 86_400 };
const RANGES = [...Object.keys(SECONDS), "run", "any"];
export const CSV_COLUMNS = JSON.stringify(["time", "category", "variable", "value", "unit", "is_manual"]);

export function Charts({ environment }) {
  const { query } = useSignal(route);
  const { variables: described } = useChamber(environment);
  const chosen = { ...remembered(environment), ...Object.fromEntries(query) };
  const [plots, setPlots] = useState(null);
  const choose = (change) => {
    const next = { ...chosen, ...change };
    localStorage.setItem(`charts/${environment}`, JSON.stringify(next));
    location.replace(href(environment, "charts", next));
  };
  const kind = RANGES.includes(chosen.range) ? chosen.range : "day";
  const { range, reason } = useRange(environment, kind, chosen);
  const offered = described.filter((each) => each.measured || each.manual || (each.controlled && !isOutput(each)));
  const wanted = (chosen.variables ?? described.filter((each) => each.measured).map((each) => each.variable).join()).split(",");
  const variables = offered.map((each) => each.variable).filter((name) => wanted.includes(name));
  const outputs = described.filter((each) => isOutput(each) || (each.controlled && each.variable.startsWith("light_"))).map((each) => each.variable);
  const toggle = (name) => choose({ variables: (variables.includes(name) ? variables.filter((each) => each !== name) : [...variables, name]).join() });
  return html`<h2 class="hidden">${t("charts")}</h2>
    <div class="row" role="group" aria-label=${t("charts_range")}>
      ${RANGES.map((name) => html`<button key=${name} class=${name === kind ? "primary" : ""} aria-pressed=${name === kind} onClick=${() => choose({ range: name })}>${t(`charts_${name}`)}</button>`)}
    </div>
    ${kind === "any" && html`<${Between} chosen=${chosen} choose=${choose} />`}
    <details class="card" open=${!variables.length}>
      <summary>${t("charts_variables", { count: variables.length })}</summary>
      <div class="row chips" role="group" aria-label=${t("charts_variables", { count: variables.length })}>
        ${offered.map(({ variable }) => html`<label key=${variable}><input type="checkbox" checked=${variables.includes(variable)} onChange=${() => toggle(variable)} /> ${variableName(variable)}</label>`)}
      </div>
    </details>
    ${reason && html`<p class="bar warn" role="status">${reason}</p>`}
    ${range && (variables.length || outputs.length) > 0 && html`<${Chart} environment=${environment} variables=${variables} outputs=${outputs} range=${range} onPlots=${setPlots} />`}
    ${plots && html`<${Downloads} environment=${environment} plots=${plots} />`}`;
}

const isOutput = (each) => !each.measured && !each.manual && ["switch", "fraction"].includes(each.unit);

function remembered(environment) {
  try {
    return JSON.parse(localStorage.getItem(`charts/${environment}`)) ?? {};
  } catch {
    return {};
  }
}

/** {range, reason}: the range for `Chart`, and why there is none. */
function useRange(environment, kind, { start, end }) {
  const [run, setRun] = useState(null);
  useEffect(() => {
    if (kind !== "run") return;
    setRun(null);
    const path = `recipe_run/${DESIGN}/_view/by_start?descending=true&limit=1&include_docs=true&startkey=${key([environment, {}])}&endkey=${key([environment])}`;
    database("GET", path).then(
      ({ rows: [row] }) => setRun(row ? { range: { start: row.doc.started, end: row.doc.ended } } : { reason: t("charts_no_run") }),
      (refusal) => setRun({ reason: refusal.message }),
    );
  }, [environment, kind]);
  if (kind === "run") return run ?? {};
  if (kind !== "any") return { range: { seconds: SECONDS[kind] } };
  if (!(Number(start) < Number(end))) return { reason: start && end ? t("charts_order") : "" };
  return { range: { start: Number(start), end: Number(end) } };
}

/** Two fields for the begin and the end of a range. */
function Between({ chosen, choose }) {
  const field = (name, fallback) => html`<label>${t(`charts_${name}`)}
    <input type="datetime-local" value=${local(Number(chosen[name]) || fallback)} onChange=${(event) => event.target.value && choose({ [name]: new Date(event.target.value) / 1000 })} /></label>`;
  const now = growdTime.value;
  useEffect(() => {
    if (now && !chosen.start) choose({ start: Math.round(now - 2 * 86_400), end: Math.round(now) });
  }, [now > 0]);
  return html`<div class="row">${field("start", now - 2 * 86_400)}${field("end", now)}</div>`;
}

/** CSV: the stored points of the range, made by growd, and the values of the charts, made here. */
function Downloads({ environment, plots }) {
  const { start, end } = useSignal(plots.view);
  const points = databaseAddress(`environmental_data_point/${DESIGN}/_list/csv/by_timestamp?startkey=${key([environment, start])}&endkey=${key([environment, end])}&cols=${encodeURIComponent(CSV_COLUMNS)}`);
  const name = `${environment}-${iso(start)}-${iso(end)}`.replaceAll(":", "");
  const save = () => {
    const link = Object.assign(document.createElement("a"), { download: `${name}.csv`, href: URL.createObjectURL(new Blob([plots.csv()], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return html`<p class="row small">
    <a href=${points} download=${`${name}-points.csv`}>${t("charts_points_csv")}</a>
    <button class="quiet" onClick=${save}>${t("charts_csv")}</button>
  </p>`;
}

const iso = (time) => new Date(time * 1000).toISOString().slice(0, 16);
