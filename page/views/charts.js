/** Charts of what was measured, wanted and done, over any range of time. */
import { database, databaseAddress, DESIGN, key } from "../lib/api.js";
import { local, unix } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { growdTime, useChamber } from "../lib/live.js";
import { href, route } from "../lib/route.js";
import { useSignal } from "../lib/signal.js";
import { Chart } from "./chart.js";

const SECONDS = { hour: 3_600, day: 86_400, week: 604_800, year: 31_536_000, years: 315_576_000 };
const RANGES = [...Object.keys(SECONDS), "run", "any"];

export function Charts({ environment }) {
  const { query } = useSignal(route);
  const { variables: all } = useChamber(environment);
  const [plots, setPlots] = useState(null);
  const place = `charts/${environment}`;
  const chosen = { range: "day", ...JSON.parse(localStorage.getItem(place)), ...Object.fromEntries(query) };
  const choose = (change) => {
    localStorage.setItem(place, JSON.stringify({ ...chosen, ...change }));
    location.replace(href(environment, "charts", { ...chosen, ...change }));
  };
  const { range, reason } = useRange(environment, chosen);
  const isOutput = (each) => each.controlled && !each.measured;
  const offered = all.filter((each) => each.measured || each.manual);
  const wanted = chosen.variables?.split(",") ?? offered.filter((each) => each.measured && (!each.derived || each.controlled)).map((each) => each.variable);
  const variables = offered.map((each) => each.variable).filter((name) => wanted.includes(name));
  const outputs = all.filter((each) => isOutput(each) || (each.controlled && each.variable.startsWith("light_"))).map((each) => each.variable);
  const toggle = (name) => choose({ variables: (variables.includes(name) ? variables.filter((each) => each !== name) : [...variables, name]).join() });
  const title = t("charts_variables", { count: variables.length });
  return html`
    <div class="row" role="group" aria-label=${t("charts_range")}>
      ${RANGES.map((name) => html`<button key=${name} class=${name === chosen.range ? "primary" : ""} aria-pressed=${name === chosen.range} onClick=${() => choose({ range: name })}>${t(`charts_${name}`)}</button>`)}
    </div>
    ${chosen.range === "any" && html`<${Between} chosen=${chosen} choose=${choose} />`}
    <details class="card" open=${!variables.length}>
      <summary>${title}</summary>
      <div class="row chips" role="group" aria-label=${title}>
        ${offered.map(({ variable }) => html`<label key=${variable}><input type="checkbox" checked=${variables.includes(variable)} onChange=${() => toggle(variable)} /> ${variableName(variable)}</label>`)}
      </div>
    </details>
    ${reason && html`<p class="bar warn" role="status">${reason}</p>`}
    ${range && all.length > 0 && html`<${Chart} environment=${environment} variables=${variables} outputs=${outputs} range=${range} onPlots=${setPlots} />
      ${plots && html`<${Downloads} plots=${plots} />`}`}`;
}

/** A time of the address in UNIX seconds, NaN if it is not one before the year 10000. */
const timeOf = (text) => (text >= 0 && text < 253_402_300_800 ? Number(text) : NaN);

/** {range, reason}: the range for `Chart`, and why there is none. */
function useRange(environment, { range: kind, start, end }) {
  const [run, setRun] = useState({});
  useEffect(() => {
    if (kind !== "run") return;
    setRun({});
    database("GET", `recipe_run/${DESIGN}/_view/by_start?descending=true&limit=1&include_docs=true&startkey=${key([environment, {}])}&endkey=${key([environment])}`).then(
      ({ rows: [row] }) => setRun(row ? { range: { start: row.doc.started, end: row.doc.ended } } : { reason: t("charts_no_run") }),
      (refusal) => setRun({ reason: refusal.message }),
    );
  }, [environment, kind]);
  if (kind === "run") return run;
  if (kind !== "any") return { range: { seconds: Object.hasOwn(SECONDS, kind) ? SECONDS[kind] : SECONDS.day } };
  return timeOf(start) < timeOf(end) ? { range: { start: timeOf(start), end: timeOf(end) } } : { reason: t("charts_order") };
}

/** Two fields for the begin and the end of a range; the last two days before one is chosen. */
function Between({ chosen, choose }) {
  useEffect(() => {
    if (!chosen.start) choose({ start: Math.round(growdTime.value - 2 * SECONDS.day), end: Math.round(growdTime.value) });
  }, []);
  return html`<div class="row">
    ${["start", "end"].map((name) => html`<label>${t(`charts_${name}`)} <input type="datetime-local" value=${local(timeOf(chosen[name]) || 0)} onChange=${({ target }) => target.value && choose({ [name]: unix(target.value) })} /></label>`)}
  </div>`;
}

/** CSV: the stored points of the shown time, made by growd, and the values of the charts, made here. */
function Downloads({ plots }) {
  const { start, end, follows } = useSignal(plots.view) ?? {};
  if (!start) return null;
  const { environment, variables } = plots;
  const iso = (time) => new Date(time * 1000).toISOString();
  const name = `${environment} ${iso(start).slice(0, 16)} ${iso(end).slice(0, 16)}`.replaceAll(":", "");
  const columns = key(["time", "category", "variable", "value", "unit", "is_manual", "by"]);
  const save = () => {
    const tables = [...variables, ""].map((each) => [each, plots.columns(each)]);
    const head = ["time", ...tables.flatMap(([each, table]) => table.head.map((key) => (each ? `${each} ${key}` : `${key[0]} %${key[1] === "most" ? " max" : ""}`)))];
    const rows = plots.rows(tables.flatMap(([, table]) => table.columns)).map(([time, ...values]) => [iso(time), ...values]);
    const text = [head, ...rows].map((row) => `${row.join()}\r\n`).join(""); // null is empty
    const link = Object.assign(document.createElement("a"), { download: `${name}.csv`, href: URL.createObjectURL(new Blob([text], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return html`<p class="row small">
    <a href=${databaseAddress(`environmental_data_point/${DESIGN}/_list/csv/by_timestamp?cols=${columns}&startkey=${key([environment, start])}&endkey=${key([environment, follows ? {} : end])}`)} download=${`${name} points.csv`}>${t("charts_points_csv")}</a>
    <button onClick=${save}>${t("charts_csv")}</button>
  </p>`;
}
