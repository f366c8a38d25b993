/** `Chart`: variables of an environment on one axis of time, with their values, tables and events. */
import { get } from "../lib/api.js";
import { clock, dated, day, decimals, duration, number, second, shown, symbol } from "../lib/format.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { connection, variableOf } from "../lib/live.js";
import { levelText } from "../lib/reading.js";
import { useSignal } from "../lib/signal.js";
import { Entry } from "./entries.js";
import { Event } from "./event.js";
import { Plots } from "./plots.js";

const MOST_ROWS = 300;

/**
 * `range`: {seconds} up to now, or {start, end} in UNIX seconds with `end` null for now. `outputs`: variables whose
 * commands are drawn below the others. `onPlots` is called with the `Plots`, for downloads.
 */
export function Chart({ environment, variables, outputs = [], range, onPlots }) {
  const box = useRef();
  const last = useRef(null);
  const plots = useMemo(() => new Plots(environment, variables, outputs, range, last.current?.view.value), [[environment, variables, outputs].join("/")]);
  useEffect(() => {
    last.current = plots;
    onPlots?.(plots);
    return plots.begin(box.current);
  }, [plots]);
  useEffect(() => {
    if (JSON.stringify(plots.range) !== JSON.stringify(range)) plots.reset(range);
  }, [JSON.stringify(range)]);
  const failure = useSignal(plots.failure);
  const view = useSignal(plots.view);
  useSignal(plots.drawn);
  const tool = (sign, name, does) => html`<button aria-label=${t(name)} title=${t(name)} onClick=${does}>${sign}</button>`;
  const plot = (name) => html`<div class="plot" ref=${(element) => element && plots.elements.set(name, element)} aria-hidden="true"></div><${Table} plots=${plots} name=${name} />`;
  return html`<div class="chart">
    ${failure && html`<p class="bar warn" role="status">${t("charts_failure", { reason: failure })}</p>`}
    <div class="row spread">
      ${view && html`<${Moment} plots=${plots} />`}
      <span class="row">
        ${tool("◀", "charts_earlier", () => plots.pan(-1))}${tool("−", "charts_out", () => plots.zoom(1.6))}
        ${tool("+", "charts_in", () => plots.zoom(1 / 1.6))}${tool("▶", "charts_later", () => plots.pan(1))}
        <button class=${view?.follows ? "primary" : ""} aria-pressed=${Boolean(view?.follows)} onClick=${() => plots.follow()}>${t("charts_follow")}</button>
      </span>
    </div>
    <div class="chart" ref=${box} tabindex="0" role="group" aria-label=${t("charts")} aria-describedby="charts-help">
      ${variables.map((name) => html`<section key=${name} class="card"><${Legend} plots=${plots} name=${name} />${plot(name)}</section>`)}
      <section class="card" hidden=${!plots.lanes.length}><h3>${t("charts_outputs")}</h3>${plot("")}</section>
    </div>
    <p id="charts-help" class="small faint">${t("charts_help")}</p>
    <${Events} plots=${plots} />
  </div>`;
}

/** Whether times of the view need their year. */
function isLong(plots) {
  const { start, end } = plots.view.value;
  return end - start > 200 * 86_400;
}

const timeIn = (plots, time) => `${(isLong(plots) ? dated : day)(time)} ${second(time)}`;

/** The time at the cursor and what happened then; without a cursor the time that is shown. */
function Moment({ plots }) {
  const { start, end } = useSignal(plots.view);
  const time = useSignal(plots.cursor);
  const isLoading = useSignal(plots.isLoading);
  if (time === null && isLong(plots)) return html`<span class="moment">${dated(start)} – ${dated(end)} ${isLoading && "…"}</span>`;
  if (time === null) return html`<span class="moment">${day(start)} ${clock(start)} – ${day(start) === day(end) ? "" : day(end)} ${clock(end)} ${isLoading && "…"}</span>`;
  const near = (plots.timeline?.events ?? []).filter((each) => Math.abs(each.time - time) < (8 * (end - start)) / plots.width);
  return html`<span class="moment" role="status"><b>${timeIn(plots, time)}</b>${near.slice(-3).map((each) => html`<br /><span class="small"><${Event} event=${each} /></span>`)}</span>`;
}

/** The name of a variable with its values: at the cursor, or now, or the least and the greatest of the shown time. */
function Legend({ plots, name }) {
  useSignal(plots.drawn);
  const time = useSignal(plots.cursor);
  const { follows } = useSignal(plots.view) ?? {};
  const { timeline } = plots;
  const variable = variableOf(plots.environment, name);
  const { unit } = variable;
  const text = (value) => (value == null ? "–" : unit === "switch" ? levelText(variable, Math.round(value)) : number(shown(value, unit), decimals(variable)));
  const range = (low, high) => (text(low) === text(high) ? text(low) : `${text(low)} – ${text(high)}`);
  const sign = unit === "switch" ? "" : symbol(unit);
  const values = () => {
    const span = plots.span(name, ["min", "max"]);
    if (time !== null) {
      const { min, mean, max, desired } = timeline.at(name, time);
      const isMean = mean != null && text(min) !== text(max);
      return [html`${isMean && html`<span class="small">${t("charts_mean_of", { time: duration(timeline.width) })}</span> `}<b>${text(mean)}</b> ${sign} ${isMean && html`<span class="faint small">${range(min, max)}</span>`}`, desired];
    }
    const { last, desired } = follows && connection.value.isConnected ? timeline.newest(name) : {};
    const shownSpan = span && html`<span class="faint small">${t("charts_span", { range: `${range(...span)} ${sign}` })}</span>`;
    if (last != null) return [html`<span class="small">${t("charts_now")}</span> <b>${text(last)}</b> ${sign} ${shownSpan}`, desired];
    return [span ? shownSpan : html`<span class="faint">${plots.isKnown ? t("charts_nothing") : plots.failure.value ? "–" : t("loading")}</span>`, desired];
  };
  const [words, desired] = timeline ? values() : [html`<span class="faint">${plots.failure.value ? "–" : t("loading")}</span>`];
  return html`<div class="row spread">
    <h3>${variableName(name)}</h3>
    <span><span class="key" aria-hidden="true"></span> ${words}${desired != null && html` · <span class="key dashed" aria-hidden="true"></span> ${t("set_point")} ${text(desired)}`}</span>
  </div>`;
}

/** The shown buckets of a variable, or of the outputs, in which something changed, newest first. */
function Table({ plots, name }) {
  const [isOpen, setOpen] = useState(false);
  useSignal(plots.drawn);
  const title = `${t("charts_table")}: ${name ? variableName(name) : t("charts_outputs")}`;
  const rows = () => {
    const { head, columns } = plots.columns(name);
    const places = name ? variableOf(plots.environment, name).precision : 0;
    let before = "";
    const changed = plots.rows(columns).filter(([, ...values]) => before !== (before = values.join()));
    return html`<table><thead><tr><th>${t("charts_time")}</th>${head.map((key) => html`<th>${name ? t(key === "set_point" ? key : `charts_${key}`) : `${variableName(key[0])} (%)${key[1] === "most" ? `, ${t("charts_max")}` : ""}`}</th>`)}</tr></thead>
      <tbody>${changed.slice(-MOST_ROWS).reverse().map(([time, ...values]) => html`<tr><th>${timeIn(plots, time)}</th>${values.map((value) => html`<td>${value === null ? "–" : number(value, places)}</td>`)}</tr>`)}</tbody></table>`;
  };
  return html`<details onToggle=${(event) => setOpen(event.target.open)}>
    <summary class="small" aria-label=${title}>${t("charts_table")}</summary>
    ${isOpen && plots.timeline && html`<div class="scroll scrolled" tabindex="0" role="region" aria-label=${title}>${rows()}</div>`}
  </details>`;
}

/** What happened in the time that is shown, newest first; notes with their photos. */
function Events({ plots }) {
  useSignal(plots.drawn);
  const [isOpen, setOpen] = useState(false);
  const [entries, setEntries] = useState([]);
  const { start, end } = plots.view.value ?? {};
  const { timeline, environment } = plots;
  const events = (timeline?.events ?? []).filter((each) => each.time >= start && each.time <= end);
  useEffect(() => {
    if (isOpen && timeline) get(`journal/${environment}?start=${timeline.start}&end=${timeline.end}&limit=1000`).then((answer) => setEntries(answer.entries), () => {});
  }, [isOpen, timeline, timeline?.events]);
  const words = (event) => {
    const entry = event.kind === "note" && entries.find((each) => Math.abs(each.time - event.time) < 0.01);
    return entry ? html`<${Entry} environment=${environment} entry=${entry} />` : html`<${Event} event=${event} />`;
  };
  return html`<details class="card" onToggle=${({ target }) => setOpen(target.open)}>
    <summary>${t("charts_events", { count: events.length })}</summary>
    <ul class="plain scrolled">${events.toReversed().map((each) => html`<li><button class="quiet small" onClick=${() => plots.point(each.time)}>${timeIn(plots, each.time)}</button> ${words(each)}</li>`)}</ul>
    ${timeline?.isShortened && html`<p class="small faint">${t("charts_shortened")}</p>`}
  </details>`;
}
