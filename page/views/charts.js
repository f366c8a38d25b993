/** Charts of what was measured, wanted and done, over any range of time. */
import { database, databaseAddress, DESIGN, key } from "../lib/api.js";
import { local, unix } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { keep, kept } from "../lib/kept.js";
import { growdTime, useChamber } from "../lib/live.js";
import { href, route } from "../lib/route.js";
import { useSignal } from "../lib/signal.js";
import { Chart, lanesOf } from "./chart.js";

const SECONDS = { hour: 3_600, day: 86_400, week: 604_800, year: 31_536_000, years: 315_576_000 };
const FIRST = ["air_temperature", "air_humidity"];
const RANGES = [...Object.keys(SECONDS), "run", "any"];

export function Charts({ environment }) {
  const { query } = useSignal(route);
  const { variables: all, devices } = useChamber(environment);
  const [plots, setPlots] = useState(null);
  const place = `charts/${environment}`;
  const chosen = { range: "day", ...kept(place), ...Object.fromEntries(query) };
  const choose = (change) => {
    keep(place, { ...chosen, ...change });
    location.replace(href(environment, "charts", { ...chosen, ...change }));
  };
  const { range, reason } = useRange(environment, chosen);
  const named = (isOne) => all.filter(isOne).map((each) => each.variable);
  const offered = named((each) => each.measured || each.manual);
  const atHand = named((each) => each.measured && (!each.derived || each.controlled));
  const wanted = chosen.variables?.split(",").filter((name) => offered.includes(name)) ?? [];
  const variables = wanted.length ? wanted : FIRST.filter((name) => offered.includes(name));
  return html`
    <div class="row" role="group" aria-label=${t("charts_range")}>
      ${RANGES.map((name) => html`<button key=${name} class="chip" aria-pressed=${name === chosen.range} onClick=${() => choose({ range: name })}>${t(`charts_${name}`)}</button>`)}
    </div>
    ${chosen.range === "any" && html`<${Between} chosen=${chosen} choose=${choose} />`}
    ${reason && html`<p class="bar warn" role="status">${reason}</p>`}
    ${range && all.length > 0 && html`<section class="card"><${Chart} environment=${environment} variables=${variables.length ? variables : offered.slice(0, 2)} lanes=${lanesOf(devices)} range=${range}
        offered=${offered} atHand=${atHand} onChoose=${(names) => choose({ variables: names.join() })} isFull onPlots=${setPlots} />
      ${plots && html`<${Downloads} plots=${plots} />`}</section>`}`;
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
  const { environment } = plots;
  const iso = (time) => new Date(time * 1000).toISOString();
  const name = `${environment} ${iso(start).slice(0, 16)} ${iso(end).slice(0, 16)}`.replaceAll(":", "");
  const fields = key(["time", "category", "variable", "value", "unit", "is_manual", "by"]);
  const save = () => {
    const columns = plots.columns();
    const head = ["time", ...columns.map(({ name: variable, key: column }) => `${variable} ${{ commanded: "%", most: "% max" }[column] ?? column}`)];
    const rows = plots.rows(columns.map(({ values }) => values)).map(([time, ...values]) => [iso(time), ...values]);
    const text = [head, ...rows].map((row) => `${row.join()}\r\n`).join(""); // null is empty
    const link = Object.assign(document.createElement("a"), { download: `${name}.csv`, href: URL.createObjectURL(new Blob([text], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return html`<p class="row small">
    <a href=${databaseAddress(`environmental_data_point/${DESIGN}/_list/csv/by_timestamp?cols=${fields}&startkey=${key([environment, start])}&endkey=${key([environment, follows ? {} : end])}`)} download=${`${name} points.csv`}>${t("charts_points_csv")}</a>
    <button onClick=${save}>${t("charts_csv")}</button>
  </p>`;
}
