/** `Chart`: up to four variables of an environment over one axis of time, with outputs, light and events. */
import { get } from "../lib/api.js";
import { clock, dated, day, decimals, duration, number, second, shown } from "../lib/format.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { connection, growdTime, useChamber, variableOf } from "../lib/live.js";
import { levelText } from "../lib/reading.js";
import { useSignal } from "../lib/signal.js";
import { Entry, unitOf } from "./entries.js";
import { Event } from "./event.js";
import { Film } from "./film.js";
import { EDGES, LANE } from "./drawing.js";
import { Plots } from "./plots.js";

export const MOST_LINES = 4;
const MOST_ROWS = 300;
const SILENT_MS = 5_000; // without an answer, before the chart says so
const COMPARABLE_S = 2.1 * 86_400; // a view in which yesterday can be told from today
/** The variables of the outputs: what a chart has lanes for. Of a lamp it is the light of all channels. */
export const lanesOf = (devices) => devices.filter((each) => each.role === "output").map((each) => each.variables[0]);

const HOURS = [1, 6, 24, 168];

/**
 * `range`: {seconds} up to now, or {start, end} in UNIX seconds with `end` null for now; without it the last `hours`, which
 * can be changed. `lanes`: outputs drawn below. With `onChoose`, `offered` variables can be added and taken away, those `atHand`
 * with a press. `isFull` has photos, the events in words, and help. `onPlots` is called with the `Plots`, for downloads.
 *
 * The chart fills a parent that has a height, else it has one of its own.
 */
export function Chart({ environment, variables, lanes = [], hours = 24, range: given, offered, atHand = [], onChoose, isFull = false, onPlots }) {
  const box = useRef();
  const last = useRef(null);
  const [only, setOnly] = useState(null);
  const [seconds, setSeconds] = useState(hours * 3_600);
  const [hasTable, setTable] = useState(false);
  const { variables: all } = useChamber(environment);
  const range = given ?? { seconds };
  const chosen = variables.slice(0, MOST_LINES);
  const drawn = chosen.includes(only) ? [only] : chosen;
  const light = all.filter((each) => each.controlled && each.variable.startsWith("light_")).map((each) => each.variable);
  const plots = useMemo(() => new Plots(environment, drawn, lanes, light, range, last.current), [[environment, drawn, lanes, light].join("/")]);
  useEffect(() => {
    last.current = plots;
    onPlots?.(plots);
    return plots.begin(box.current);
  }, [plots]);
  useEffect(() => {
    if (JSON.stringify(plots.range) !== JSON.stringify(range)) plots.reset(range);
  }, [JSON.stringify(range)]);
  const choose = (names) => (setOnly(null), onChoose(names));
  const choices = { plots, chosen, only: drawn.length < chosen.length ? only : null, setOnly, offered, atHand, choose: onChoose && choose };
  return html`<div class=${`chart ${isFull ? "full" : ""}`}>
    <div class="row legend">
      ${chosen.map((name, i) => html`<${Line} key=${name} ...${choices} name=${name} number=${drawn.indexOf(name) + 1 || i + 1} />`)}
      ${onChoose && html`<span class="others"><${Others} ...${choices} /><${More} ...${choices} /></span>`}
    </div>
    <${Tools} plots=${plots} isFull=${isFull} hasTable=${hasTable} onTable=${() => setTable(!hasTable)}>
      ${!given && html`<select class="chip" aria-label=${t("charts_range")} value=${seconds} onChange=${({ target }) => setSeconds(Number(target.value))}>
        ${HOURS.map((each) => html`<option key=${each} value=${each * 3_600}>${duration(each * 3_600)}</option>`)}</select>`}
    <//>
    <div class="drawing">
      <div class="plot" ref=${box} tabindex="0" role="group" aria-label=${t("charts")} aria-describedby=${isFull ? "charts-help" : null} hidden=${hasTable}></div>
      ${hasTable && html`<${Table} plots=${plots} />`}
      ${!hasTable && html`<${Undrawn} plots=${plots} />`}
      <${State} plots=${plots} />
    </div>
    ${isFull && html`<${Film} plots=${plots} /><p id="charts-help" class="small faint">${t("charts_help")}</p><${Events} plots=${plots} />`}
  </div>`;
}

/** A variable of the chart with its value; its name shows only this one, or all again. */
function Line({ plots, chosen, only, setOnly, choose, name, number: n }) {
  const isAway = only && only !== name;
  return html`<span class=${`chip curve s${n} ${isAway ? "away" : ""}`}>
    <button aria-pressed=${only === name} disabled=${chosen.length < 2} title=${t(only === name ? "charts_all_again" : "charts_only")} onClick=${() => setOnly(only === name ? null : name)}>
      <b>${variableName(name)}</b> ${!isAway && html`<${Values} plots=${plots} name=${name} />`}</button>
    ${choose && html`<button aria-label=${t("charts_without", { name: variableName(name) })} disabled=${chosen.length < 2} onClick=${() => choose(chosen.filter((each) => each !== name))}>✕</button>`}
  </span>`;
}

/** What is drawn after another variable was added: beside the one that is shown alone, or beside all. */
const added = ({ chosen, only }, name) => [...(only ? [only] : chosen), name];

/** Variables that can be added: their name shows only them, + adds them. */
function Others(props) {
  const { atHand, chosen, choose } = props;
  return atHand.filter((name) => !chosen.includes(name)).map((name) => html`<span key=${name} class="chip curve">
    <button title=${t("charts_only")} onClick=${() => choose([name])}>${variableName(name)}</button>
    <button aria-label=${t("charts_with", { name: variableName(name) })} disabled=${added(props, name).length > MOST_LINES} onClick=${() => choose(added(props, name))}>+</button>
  </span>`);
}

function More(props) {
  const { offered, atHand, chosen, choose } = props;
  if (added(props, "").length > MOST_LINES) return null;
  return html`<select class="chip" aria-label=${t("charts_add")} value="" onChange=${({ target }) => choose(added(props, target.value))}>
    <option value="">+ ${t("charts_variable")}</option>
    ${offered.filter((name) => !chosen.includes(name) && !atHand.includes(name)).map((name) => html`<option key=${name} value=${name}>${variableName(name)}</option>`)}</select>`;
}

/** The shown time, and the buttons that move it. */
function Tools({ plots, isFull, hasTable, onTable, children }) {
  const view = useSignal(plots.view);
  const isOver = useSignal(plots.isOver);
  const steps = useSignal(plots.steps);
  const tool = (sign, name, does, isOff) => html`<button class="chip" aria-label=${t(name)} title=${t(name)} disabled=${isOff} onClick=${does}>${sign}</button>`;
  const isComparable = !view || view.end - view.start < COMPARABLE_S;
  return html`<div class="row spread tools">
    <${Moment} plots=${plots} />
    <span class="row">${children}
      ${isComparable && html`<button class="chip" aria-pressed=${isOver} onClick=${() => plots.overYesterday()}>${t("charts_yesterday")}</button>`}
      <span class="row moves">${tool("◀", "charts_earlier", () => plots.pan(-1))}${isFull && html`${tool("−", "charts_out", () => plots.zoom(1.6))}${tool("+", "charts_in", () => plots.zoom(1 / 1.6))}`}
      ${tool("▶", "charts_later", () => plots.pan(1))}
      ${tool("↶", "charts_back", () => plots.back(), !steps.length)}</span>
      <button class="chip" aria-pressed=${Boolean(view?.follows)} onClick=${() => plots.follow()}>${t("charts_follow")}</button>
      <button class="chip" aria-pressed=${hasTable} onClick=${onTable}>${t("charts_table")}</button>
    </span>
  </div>`;
}

/** Above the lanes: the outputs for which there is no room. */
function Undrawn({ plots }) {
  useSignal(plots.drawn);
  const { lanes, sides, outputs } = plots;
  const left = outputs.filter((name) => !lanes.includes(name));
  const place = { right: `${sides[1] + 4}px`, bottom: `${EDGES[1] + (lanes.length - 0.3) * LANE}px` };
  return left.length > 0 && html`<p class="undrawn small faint" style=${place}>${t("charts_undrawn", { names: left.map(variableName).join(", ") })}</p>`;
}

/** Over the drawing: why there is nothing, or that growd does not answer. */
function State({ plots }) {
  useSignal(growdTime);
  useSignal(plots.drawn);
  const failure = useSignal(plots.failure);
  const asked = useSignal(plots.asked);
  const silent = asked && performance.now() - asked;
  if (silent > SILENT_MS) return html`<p class="state warn" role="status">${t("charts_silent", { time: duration(silent / 1_000) })}</p>`;
  if (failure) return html`<p class="state warn" role="status">${t("charts_failure", { reason: failure })}</p>`;
  if (!plots.timeline) return html`<p class="state faint">${t("loading")}</p>`;
  if (plots.isOver.value && plots.before && plots.variables.every((name) => plots.before.of[name]?.mean.every((value) => value === null))) {
    return html`<p class="state faint" role="status">${t("charts_no_yesterday")}</p>`;
  }
  const isEmpty = plots.isKnown && !plots.commanded.length && plots.variables.every((name) => !plots.span(name));
  return isEmpty ? html`<p class="state faint" role="status">${t("charts_nothing")}</p>` : null;
}

/** Whether times of the view need their year. */
function isLong(plots) {
  const { start, end } = plots.view.value;
  return end - start > 200 * 86_400;
}

const timeIn = (plots, time) => `${(isLong(plots) ? dated : day)(time)} ${second(time)}`;

/** The time at the cursor and what happened then; without a cursor the time that is shown. */
function Moment({ plots }) {
  const view = useSignal(plots.view);
  const time = useSignal(plots.cursor);
  const isLoading = useSignal(plots.asked) > 0;
  if (!view) return html`<span class="moment"></span>`;
  const { start, end } = view;
  if (time === null && isLong(plots)) return html`<span class="moment">${dated(start)} – ${dated(end)} ${isLoading && "…"}</span>`;
  if (time === null) return html`<span class="moment">${day(start)} ${clock(start)} – ${day(start) === day(end) ? "" : day(end)} ${clock(end)} ${isLoading && "…"}</span>`;
  const near = (plots.timeline?.events ?? []).filter((each) => Math.abs(each.time - time) < (8 * (end - start)) / plots.width);
  return html`<span class="moment" role="status"><b>${timeIn(plots, time)}</b>${near.slice(-1).map((each) => html` <span class="small"><${Event} event=${each} /></span>`)}</span>`;
}

/** The values of a variable: at the cursor, or now, or the least and the greatest of the shown time; and its set point. */
function Values({ plots, name }) {
  useSignal(plots.drawn);
  const time = useSignal(plots.cursor);
  const { follows } = useSignal(plots.view) ?? {};
  const { timeline } = plots;
  const variable = variableOf(plots.environment, name);
  const { unit } = variable;
  const text = (value) => (value == null ? "–" : unit === "switch" ? levelText(variable, Math.round(value)) : number(shown(value, unit), decimals(variable)));
  const room = `reading ${variable.controlled ? "wide" : ""}`; // nothing moves when values come
  if (!timeline?.of[name]) return html`<span class=${room}>–</span>`;
  const isLive = time === null && follows && connection.value.isConnected;
  const { last, desired } = isLive ? timeline.newest(name) : { last: null };
  const at = time === null ? null : timeline.at(name, time);
  const span = plots.span(name, ["min", "max"]);
  const value = at ? text(at.mean) : last != null || !span ? text(last) : `${text(span[0])} – ${text(span[1])}`;
  const wanted = at ? at.desired : desired;
  const yesterday = time !== null && plots.before?.of[name] ? plots.before.at(name, time - 86_400).mean : null;
  return html`<span class=${room}>${value} ${unitOf(unit)}${wanted != null && html` <span class="faint" title=${t("set_point")}>→ ${text(wanted)}</span>`}${yesterday != null && html` <span class="faint">${t("charts_then", { value: text(yesterday) })}</span>`}</span>`;
}

/** The shown buckets in which something changed, newest first. */
function Table({ plots }) {
  useSignal(plots.drawn);
  if (!plots.timeline) return null;
  const columns = plots.columns();
  let before = "";
  const changed = plots.rows(columns.map((each) => each.values)).filter(([, ...values]) => before !== (before = values.join()));
  const places = ({ name }) => (plots.variables.includes(name) ? variableOf(plots.environment, name).precision : 0);
  const heading = ({ name, key }) => [variableName(name), plots.variables.includes(name) ? t(key === "set_point" ? key : `charts_${key}`) : `%${key === "most" ? `, ${t("charts_max")}` : ""}`].join(" ");
  return html`<div class="scrolled" tabindex="0" role="region" aria-label=${t("charts_table")}><table class="small">
    <thead><tr><th>${t("charts_time")}</th>${columns.map((each) => html`<th>${heading(each)}</th>`)}</tr></thead>
    <tbody>${changed.slice(-MOST_ROWS).reverse().map(([time, ...values]) => html`<tr key=${time}><th>${timeIn(plots, time)}</th>${values.map((value, i) => html`<td>${value === null ? "–" : number(value, places(columns[i]))}</td>`)}</tr>`)}</tbody></table></div>`;
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
