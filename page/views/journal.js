/** The journal: notes and measurements by hand, and what happened, with time and author. */
import { database, DESIGN, get, key, publish } from "../lib/api.js";
import { clock, day, given, local, number, shown, symbol, unix } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { growdTime, useChamber, useTopic, variableOf } from "../lib/live.js";
import { act, notify } from "../lib/parts.js";
import { mayOperate, session } from "../lib/session.js";
import { useSignal } from "../lib/signal.js";
import { Event } from "./chart.js";

const KINDS = ["notes", "measurements", "events"];
const AUTHOR = "journal/author";
const PAUSES_MS = [0, 6_000, 12_000]; // a point is in the database after five seconds, one of a new kind after ten

export function Journal({ environment }) {
  const manual = useChamber(environment).variables.filter((each) => each.manual);
  const [days, setDays] = useState(7);
  const [hidden, setHidden] = useState([]);
  const [saved, setSaved] = useState([]); // on this page: growd sends them to the database within seconds
  const { entries, failure } = useEntries(environment, manual, days, saved.length);
  const toggle = (kind) => setHidden(hidden.includes(kind) ? hidden.filter((each) => each !== kind) : [...hidden, kind]);
  const isKnown = (mine) => entries?.some((each) => each.message === mine.message && each.value === mine.value && Math.abs(each.time - mine.time) < 5);
  const all = entries && [...saved.filter((each) => !isKnown(each)), ...entries].filter((each) => !hidden.includes(each.type));
  return html`
    ${mayOperate() && html`<${Entry} environment=${environment} manual=${manual} onSaved=${(entry) => setSaved([entry, ...saved])} />`}
    ${failure && html`<p class="bar warn" role="status">${t("journal_failure", { reason: failure })}</p>`}
    <div class="row chips" role="group" aria-label=${t("show")}>
      ${KINDS.map((kind) => html`<label key=${kind}><input type="checkbox" checked=${!hidden.includes(kind)} onChange=${() => toggle(kind)} /> ${t(`journal_${kind}`)}</label>`)}
    </div>
    ${all ? html`<${List} entries=${all} environment=${environment} />` : t("loading")}
    <button onClick=${() => setDays(4 * days)}>${t("journal_more", { count: 4 * days })}</button>`;
}

/** {entries, failure}: the entries of the last days, newest first; read again after each one that comes. */
function useEntries(environment, manual, days, saved) {
  const [found, setFound] = useState({});
  const isReady = useSignal(growdTime) > 0;
  const newest = ["events", "notes"].map((name) => useTopic(`${environment}/${name}`)?.number);
  const ask = () =>
    read(environment, manual, days).then(
      (entries) => setFound({ entries }),
      (refusal) => setFound(({ entries = [] }) => ({ entries, failure: refusal.message })),
    );
  useEffect(() => {
    if (!isReady) return undefined;
    const timers = PAUSES_MS.map((pause) => setTimeout(ask, pause));
    return () => timers.forEach(clearTimeout);
  }, [environment, manual.length, days, saved, isReady, ...newest]);
  return found;
}

async function read(environment, manual, days) {
  const end = growdTime.value + 60;
  const start = end - days * 86_400;
  const entries = (await get(`history/${environment}?start=${start}&end=${end}&series=false`)).events.map((each) => ({ ...each, type: each.kind === "note" ? "notes" : "events" }));
  const of = (variable, time) => key([environment, "measured", variable, time]);
  for (const { variable } of manual) { // one request at a time: a browser has few connections
    const { rows } = await database("GET", `environmental_data_point/${DESIGN}/_view/by_variable?reduce=false&startkey=${of(variable, start)}&endkey=${of(variable, end)}`);
    for (const { value: { timestamp: time, value, by } } of rows) entries.push({ type: "measurements", time, variable, value, by });
  }
  return entries.sort((one, other) => other.time - one.time);
}

/** The fields for a note or a measurement. */
function Entry({ environment, manual, onSaved }) {
  const [what, setWhat] = useState("");
  const [text, setText] = useState("");
  const [time, setTime] = useState("");
  const [by, setBy] = useState(localStorage.getItem(AUTHOR) ?? "");
  const [isBusy, setBusy] = useState(false);
  const hasUser = useSignal(session)?.user;
  const { unit, minimum, maximum, precision } = variableOf(environment, what);
  const send = async (event) => {
    event.preventDefault();
    localStorage.setItem(AUTHOR, by);
    const query = new URLSearchParams({ ...(!hasUser && { by }), ...(time && { time: unix(time) }) });
    const value = what ? given(Number(text), unit) : text.trim();
    setBusy(true);
    const isSaved = await act(() => publish(`${environment}/${what ? `measured/${what}` : "notes"}?${query}`, [value]));
    setBusy(false);
    if (!isSaved) return;
    notify(t("journal_saved")); // growd has answered: it is on the disk
    const at = time ? unix(time) : growdTime.value;
    onSaved({ time: at, by: hasUser || by, ...(what ? { type: "measurements", variable: what, value } : { type: "notes", kind: "note", message: value }) });
    setText("");
    setTime("");
  };
  const field = (name, set, value, more) => html`<label>${name} <input value=${value} onInput=${(event) => set(event.target.value)} ...${more} /></label>`;
  return html`<form class="card entry" onSubmit=${send}>
    <label>${t("journal_what")}
      <select value=${what} onChange=${(event) => (setWhat(event.target.value), setText(""))}>
        <option value="">${t("journal_note")}</option>
        ${manual.map(({ variable }) => html`<option value=${variable}>${variableName(variable)}</option>`)}
      </select></label>
    ${what
      ? field(`${variableName(what)} (${unit === "switch" ? "0, 1" : symbol(unit)})`, setText, text, { type: "number", inputmode: "decimal", required: true, step: 10 ** -precision, min: shown(minimum, unit), max: shown(maximum, unit) })
      : html`<label>${t("journal_note")} <textarea required maxlength="2000" rows="2" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>`}
    <div class="row">
      ${field(t("journal_time"), setTime, time, { type: "datetime-local", max: local(growdTime.value) })}
      ${!hasUser && field(t("journal_by"), setBy, by, { autocomplete: "name", maxlength: 100 })}
      <button class="primary" disabled=${isBusy || !text.trim()}>${t("save")}</button>
    </div>
  </form>`;
}

/** Entries by day. */
function List({ entries, environment }) {
  if (!entries.length) return html`<p class="faint">${t("journal_none")}</p>`;
  const measurement = ({ variable, value, by }) => {
    const { unit, precision } = variableOf(environment, variable);
    return { kind: "note", message: `${variableName(variable)} ${number(shown(value, unit), precision)} ${["switch", "pH"].includes(unit) ? "" : symbol(unit)}`, by };
  };
  return [...Map.groupBy(entries, (each) => day(each.time))].map(([name, those]) => html`<section key=${name} class="card">
    <h3>${name}</h3>
    <ul class="plain">${those.map((each) => html`<li><time class="faint">${clock(each.time)}</time> <${Event} event=${each.variable ? measurement(each) : each} /></li>`)}</ul>
  </section>`);
}
