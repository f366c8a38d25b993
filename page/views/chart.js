/** `Chart`: variables of an environment over time, each with its own chart, on one axis of time. */
import { clock, day, number, second, symbol } from "../lib/format.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { connection, variableOf } from "../lib/live.js";
import { useSignal } from "../lib/signal.js";
import { markOf, Plots } from "./plots.js";

const MOST_ROWS = 300;
const MARKS = { note: "▼", bad: "✕", other: "│" };

/**
 * `range`: {seconds} up to now, or {start, end} in UNIX seconds with `end` null for now. `outputs`: variables whose
 * commands are drawn below the others. `onPlots` is called with the `Plots`, for downloads.
 */
export function Chart({ environment, variables, outputs = [], range, onPlots }) {
  const box = useRef();
  const elements = useMemo(() => new Map(), []);
  const last = useRef(null);
  const plots = useMemo(() => new Plots(environment, variables, outputs, range, elements, last.current?.view.value), [[environment, variables, outputs].join("/")]);
  last.current = plots;
  useEffect(() => plots.begin(box.current), [plots]);
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) plots.reset(range);
    first.current = false;
  }, [JSON.stringify(range)]);
  useEffect(() => onPlots?.(plots), [plots]);
  const { follows } = useSignal(plots.view);
  const failure = useSignal(plots.failure);
  useSignal(plots.drawn);
  const place = (name) => (element) => (element ? elements.set(name, element) : elements.delete(name));
  return html`<div class="chart">
    ${failure && html`<p class="bar warn" role="status">${t("charts_failure", { reason: failure })}</p>`}
    <div class="row spread">
      <${Moment} plots=${plots} />
      <span class="row tools">
        ${[["◀", "charts_earlier", () => plots.pan(-0.4)], ["−", "charts_out", () => plots.zoom(1.6)], ["+", "charts_in", () => plots.zoom(1 / 1.6)], ["▶", "charts_later", () => plots.pan(0.4)]].map(
          ([sign, name, does]) => html`<button key=${name} aria-label=${t(name)} title=${t(name)} onClick=${does}>${sign}</button>`,
        )}
        <button class=${follows ? "primary" : ""} aria-pressed=${follows} onClick=${() => plots.follow()}>${t("charts_follow")}</button>
      </span>
    </div>
    <div class="plots" ref=${box} tabindex="0" role="group" aria-label=${t("charts")} aria-describedby="charts-help">
      ${variables.map((name) => html`<section key=${name} class="card">
        <${Legend} plots=${plots} name=${name} />
        <div class="plot" ref=${place(name)} aria-hidden="true"></div>
        <${Table} plots=${plots} name=${name} />
      </section>`)}
      <section class="card" hidden=${!plots.lanes.length}>
        <h3>${t("charts_outputs")}</h3>
        <div class="plot" ref=${place("")} aria-hidden="true"></div>
        <${Table} plots=${plots} name="" />
      </section>
    </div>
    <p id="charts-help" class="small faint">${t("charts_help")}</p>
    <${Events} plots=${plots} />
  </div>`;
}

/** The time at the cursor and what happened then; without a cursor the time that is shown. */
function Moment({ plots }) {
  const { start, end } = useSignal(plots.view);
  const time = useSignal(plots.cursor);
  const isLoading = useSignal(plots.isLoading);
  if (time === null) return html`<span class="moment">${span(start, end)} ${isLoading && html`<span class="faint">…</span>`}</span>`;
  const near = (plots.timeline?.events ?? []).filter((each) => Math.abs(each.time - time) < (8 * (end - start)) / plots.width);
  return html`<span class="moment" role="status"><b>${day(time)} ${second(time)}</b>
    ${near.slice(-3).map((each) => html`<br /><span class="small"><${Mark} kind=${each.kind} /> ${said(each)}</span>`)}</span>`;
}

const span = (start, end) => `${day(start)} ${clock(start)} – ${day(start) === day(end) ? "" : `${day(end)} `}${clock(end)}`;
const said = ({ source, message, by }) => [source, message].filter(Boolean).join(": ") + (by ? ` (${by})` : "");

export const Mark = ({ kind }) => html`<span class=${`mark ${markOf(kind)}`} aria-hidden="true">${MARKS[markOf(kind)]}</span>`;

/** The name of a variable with its values at the cursor, or the newest. */
function Legend({ plots, name }) {
  useSignal(plots.drawn);
  const time = useSignal(plots.cursor);
  const { timeline } = plots;
  const isKnown = timeline && (time !== null || connection.value.isConnected);
  const at = isKnown ? timeline.at(name, time === null ? timeline.times.length - 1 : timeline.index(time)) : {};
  const { unit, precision } = variableOf(plots.environment, name);
  const value = (each) => (each == null ? "–" : number(each, precision));
  const isSpread = at.mean != null && value(at.min) !== value(at.max);
  return html`<div class="row spread">
    <h3>${variableName(name)}</h3>
    <span class="legend"><span class="key measured" aria-hidden="true"></span> <b>${value(at.mean)}</b> ${unitName(unit)}
      ${isSpread && html` <span class="faint small">${value(at.min)} – ${value(at.max)}</span>`}
      ${at.desired != null && html` · <span class="key desired" aria-hidden="true"></span> ${t("charts_set_point")} ${value(at.desired)}`}</span>
  </div>`;
}

const unitName = (unit) => ({ switch: "", fraction: "" })[unit] ?? symbol(unit);

/** The shown buckets of a variable, or of the outputs, as rows; newest first. */
function Table({ plots, name }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details onToggle=${(event) => setOpen(event.target.open)}>
    <summary class="small">${t("charts_table")}<span class="hidden"> ${name ? variableName(name) : t("charts_outputs")}</span></summary>
    ${isOpen && html`<${Rows} plots=${plots} name=${name} />`}
  </details>`;
}

function Rows({ plots, name }) {
  useSignal(plots.drawn);
  const { head, rows } = plots.table(name);
  const precision = name ? variableOf(plots.environment, name).precision : 0;
  return html`<div class="scroll table" tabindex="0" role="region" aria-label=${t("charts_table")}><table>
    <thead><tr>${head.map((each) => html`<th key=${each} scope="col">${each}</th>`)}</tr></thead>
    <tbody>${rows.slice(-MOST_ROWS).reverse().map(([time, ...values]) => html`<tr key=${time}>
      <th scope="row">${day(time)} ${second(time)}</th>${values.map((value) => html`<td>${value === null ? "–" : number(value, precision)}</td>`)}
    </tr>`)}</tbody>
  </table></div>`;
}

/** What happened in the time that is shown, newest first. */
function Events({ plots }) {
  useSignal(plots.drawn);
  const { start, end } = useSignal(plots.view);
  const events = (plots.timeline?.events ?? []).filter((each) => each.time >= start && each.time <= end);
  return html`<details class="card">
    <summary>${t("charts_events", { count: events.length })}</summary>
    <ul class="events">${events.toReversed().map((each) => html`<li key=${`${each.time}${each.message}`}>
      <button class="quiet small" onClick=${() => plots.point(each.time)}>${day(each.time)} ${second(each.time)}</button>
      <${Mark} kind=${each.kind} /> <b>${each.kind.replaceAll("_", " ")}</b> ${said(each)}</li>`)}</ul>
    ${plots.timeline?.isShortened && html`<p class="small faint">${t("charts_shortened")}</p>`}
  </details>`;
}
