/** The journal: notes and measurements by hand, and what happened, with time and author. */
import { database, DESIGN, get, key, publish } from "../lib/api.js";
import { clock, day, given, local, number, shown, symbol } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { growdTime, useChamber, useTopic } from "../lib/live.js";
import { act, notify } from "../lib/parts.js";
import { mayOperate, session } from "../lib/session.js";
import { useSignal } from "../lib/signal.js";
import { Mark } from "./chart.js";

const DAY_S = 86_400;
const FILTERS = ["notes", "measurements", "events"];
const AUTHOR = "journal/author";
const PAUSE_MS = 1_000; // between an event and the request
const MINUTE_MS = 60_000;

export function Journal({ environment }) {
  const manual = useChamber(environment).variables.filter((each) => each.manual);
  const [days, setDays] = useState(7);
  const [version, setVersion] = useState(0);
  const { entries, failure } = useEntries(environment, manual, days, version);
  const [filters, setFilters] = useState(FILTERS);
  const toggle = (name) => setFilters(filters.includes(name) ? filters.filter((each) => each !== name) : [...filters, name]);
  return html`<h2 class="hidden">${t("journal")}</h2>
    ${mayOperate() && html`<${Entry} environment=${environment} manual=${manual} onDone=${() => setVersion(version + 1)} />`}
    ${failure && html`<p class="bar warn" role="status">${t("journal_failure", { reason: failure })}</p>`}
    <div class="row chips" role="group" aria-label=${t("journal_show")}>
      ${FILTERS.map((name) => html`<label key=${name}><input type="checkbox" checked=${filters.includes(name)} onChange=${() => toggle(name)} /> ${t(`journal_${name}`)}</label>`)}
    </div>
    ${entries ? html`<${List} entries=${entries.filter((each) => filters.includes(each.filter))} manual=${manual} />` : html`<p>${t("loading")}</p>`}
    <button onClick=${() => setDays(days * 4)}>${t("journal_more", { count: days * 4 })}</button>`;
}

/** {entries, failure}: the entries of the last days, newest first; `entries` is null before the first answer. */
function useEntries(environment, manual, days, version) {
  const [found, setFound] = useState({ entries: null, failure: "" });
  const isReady = useSignal(growdTime) > 0;
  const newest = ["events", "notes"].map((name) => useTopic(`${environment}/${name}`)?.number);
  useEffect(() => {
    if (!isReady) return undefined;
    let isCurrent = true;
    const ask = () =>
      read(environment, manual, days).then(
        (entries) => isCurrent && setFound({ entries, failure: "" }),
        (refusal) => isCurrent && setFound(({ entries }) => ({ entries: entries ?? [], failure: refusal.message })),
      );
    const first = setTimeout(ask, found.entries ? PAUSE_MS : 0);
    const further = setInterval(ask, MINUTE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(first);
      clearInterval(further);
    };
  }, [environment, manual.length, days, version, isReady, ...newest]);
  return found;
}

async function read(environment, manual, days) {
  const end = Math.ceil(growdTime.value) + 60;
  const start = end - days * DAY_S;
  const history = await get(`history/${environment}?start=${start}&end=${end}&points=2&events=true&variable=air_temperature`);
  const measurements = [];
  for (const { variable } of manual) { // one request at a time: a browser has few connections
    const range = ["start", "end"].map((side) => `${side}key=${key([environment, "measured", variable, side === "start" ? start : end])}`);
    const { rows } = await database("GET", `environmental_data_point/${DESIGN}/_view/by_variable?reduce=false&${range.join("&")}`);
    for (const { value: { timestamp, value, by } } of rows) measurements.push({ filter: "measurements", time: timestamp, variable, value, by });
  }
  const events = history.events.map((each) => ({ ...each, filter: each.kind === "note" ? "notes" : "events" }));
  return [...events, ...measurements].sort((one, other) => other.time - one.time);
}

/** The fields for a note or a measurement. */
function Entry({ environment, manual, onDone }) {
  const [what, setWhat] = useState("");
  const [text, setText] = useState("");
  const [time, setTime] = useState("");
  const [author, setAuthor] = useState(localStorage.getItem(AUTHOR) ?? "");
  const [isBusy, setBusy] = useState(false);
  const { user } = useSignal(session);
  const variable = manual.find((each) => each.variable === what);
  const send = async (event) => {
    event.preventDefault();
    localStorage.setItem(AUTHOR, author);
    const query = new URLSearchParams({ ...(author && !user && { by: author }), ...(time && { time: new Date(time) / 1000 }) });
    const value = variable ? given(Number(text), variable.unit) : text.trim();
    setBusy(true);
    const isDone = await act(() => publish(`${environment}/${variable ? `measured/${what}` : "notes"}?${query}`, [value])).finally(() => setBusy(false));
    if (!isDone) return;
    notify(t("journal_saved")); // growd has answered: it is on the disk
    setText("");
    setTime("");
    onDone();
  };
  const step = variable && 10 ** -variable.precision;
  return html`<form class="card entry" onSubmit=${send}>
    <label>${t("journal_what")}
      <select value=${what} onChange=${(event) => (setWhat(event.target.value), setText(""))}>
        <option value="">${t("journal_note")}</option>
        ${manual.map((each) => html`<option key=${each.variable} value=${each.variable}>${variableName(each.variable)}</option>`)}
      </select></label>
    ${variable
      ? html`<label>${variableName(what)} ${variable.unit === "switch" ? "(0, 1)" : `(${symbol(variable.unit)})`}
          <input type="number" inputmode="decimal" required step=${step} min=${shown(variable.minimum, variable.unit)} max=${shown(variable.maximum, variable.unit)} value=${text} onInput=${(event) => setText(event.target.value)} /></label>`
      : html`<label>${t("journal_note")}
          <textarea required maxlength="2000" rows="2" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>`}
    <div class="row">
      <label>${t("journal_time")}
        <input type="datetime-local" max=${local(growdTime.value)} value=${time} onInput=${(event) => setTime(event.target.value)} /></label>
      ${!user && html`<label>${t("journal_by")} <input autocomplete="name" maxlength="100" value=${author} onInput=${(event) => setAuthor(event.target.value)} /></label>`}
      <button class="primary" disabled=${isBusy || !text.trim()}>${t("save")}</button>
    </div>
  </form>`;
}

/** Entries by day. */
function List({ entries, manual }) {
  if (!entries.length) return html`<p class="faint">${t("journal_none")}</p>`;
  const days = Map.groupBy(entries, (each) => day(each.time));
  return [...days].map(([name, those]) => html`<section key=${name} class="card">
    <h3>${name}</h3>
    <ul class="events">${those.map((each) => html`<li key=${`${each.time}${each.kind}${each.variable}${each.message}`}><time class="faint">${clock(each.time)}</time> <${Words} entry=${each} manual=${manual} /></li>`)}</ul>
  </section>`);
}

function Words({ entry, manual }) {
  const by = entry.by && html` <span class="faint">· ${entry.by}</span>`;
  if (entry.filter === "measurements") {
    const { unit, precision } = manual.find((each) => each.variable === entry.variable) ?? { unit: "", precision: 1 };
    return html`<span class="mark note" aria-hidden="true">●</span> <b>${variableName(entry.variable)}</b> ${number(shown(entry.value, unit), precision)} ${unit === "switch" || unit === "pH" ? "" : symbol(unit)}${by}`;
  }
  const isNote = entry.filter === "notes";
  return html`<${Mark} kind=${entry.kind} /> ${!isNote && html`<b>${entry.kind.replaceAll("_", " ")}</b> ${entry.source && `${entry.source}: `}`}${entry.message}${by}`;
}
