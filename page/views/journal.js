/** The journal: notes and measurements by hand, and what happened, with time and author. */
import { database, DESIGN, get, key, publish } from "../lib/api.js";
import { clock, day, given, local, number, shown, symbol, unix } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { growdTime, useChamber, useTopic, variableOf } from "../lib/live.js";
import { act, notify, NumberInput } from "../lib/parts.js";
import { mayOperate, session } from "../lib/session.js";
import { useSignal } from "../lib/signal.js";
import { Event } from "./event.js";

const KINDS = ["notes", "measurements", "events"];
const AUTHOR = "journal/author";
const SEARCHED_DAYS = 3_650;
const MOST_NOTES = 2_000; // the newest, of the notes and of each variable
const PAUSES_MS = [0, 6_000, 12_000]; // a point is in the database after five seconds, one of a new kind after ten

export function Journal({ environment }) {
  const manual = useChamber(environment).variables.filter((each) => each.manual);
  const [days, setDays] = useState(7);
  const [hidden, setHidden] = useState([]);
  const [search, setSearch] = useState("");
  const [saved, setSaved] = useState([]); // on this page: growd sends them to the database within seconds
  const { entries, failure, isShortened } = useEntries(environment, manual, search ? SEARCHED_DAYS : days, saved.length);
  const toggle = (kind) => setHidden(hidden.includes(kind) ? hidden.filter((each) => each !== kind) : [...hidden, kind]);
  const isKnown = (mine) => entries?.some((each) => each.message === mine.message && each.value === mine.value && each.time >= mine.from && each.time <= mine.time + 60);
  const has = (each) => words(environment, each).toLocaleLowerCase().includes(search.trim().toLocaleLowerCase());
  const all = entries && [...saved.filter((each) => !isKnown(each)), ...entries].filter((each) => !hidden.includes(each.type) && has(each)).sort((one, other) => other.time - one.time);
  return html`
    ${mayOperate() && html`<${Entry} environment=${environment} manual=${manual} onSaved=${(entry) => setSaved([entry, ...saved])} />`}
    ${failure && html`<p class="bar warn" role="status">${t("journal_failure", { reason: failure })}</p>`}
    <div class="row chips" role="group" aria-label=${t("show")}>
      ${KINDS.map((kind) => html`<label key=${kind}><input type="checkbox" checked=${!hidden.includes(kind)} onChange=${() => toggle(kind)} /> ${t(`journal_${kind}`)}</label>`)}
    </div>
    <label>${t("journal_search")} <input type="search" value=${search} onInput=${({ target }) => setSearch(target.value)} /></label>
    ${all ? (all.length > 0 || !failure) && html`<${List} entries=${all} environment=${environment} />` : t("loading")}
    ${isShortened && html`<p class="small faint">${t("journal_shortened")}</p>`}
    <button hidden=${Boolean(search)} onClick=${() => setDays(4 * days)}>${t("journal_more", { count: 4 * days })}</button>`;
}

/** {entries, failure, isShortened}: the entries of the last days, newest first; read again after each one that comes. */
function useEntries(environment, manual, days, saved) {
  const [found, setFound] = useState({});
  const isReady = useSignal(growdTime) > 0;
  const newest = ["events", "notes"].map((name) => useTopic(`${environment}/${name}`)?.number);
  const ask = () =>
    read(environment, manual, days).then(
      setFound,
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
  const { events, events_truncated: isShortened } = await get(`history/${environment}?start=${start}&end=${end}&series=false`);
  const entries = events.map((each) => ({ ...each, type: each.kind === "note" ? "notes" : "events" }));
  const points = async (name, category, variable, until) => {
    const of = (time) => key([environment, category, variable, time]);
    const { rows } = await database("GET", `${name}/${DESIGN}/_view/by_variable?reduce=false&descending=true&limit=${MOST_NOTES}&startkey=${of(until)}&endkey=${of(start)}`);
    return rows.map(({ value: { timestamp: time, value, by } }) => ({ time, value, by }));
  };
  try { // one request at a time: a browser has few connections
    for (const { variable } of manual) {
      for (const each of await points("environmental_data_point", "measured", variable, end)) entries.push({ ...each, type: "measurements", variable });
    }
    if (isShortened) { // but all notes
      const first = events.reduce((least, { time }) => Math.min(least, time), end);
      const notes = await points("environmental_event", "event", "note", first);
      entries.push(...notes.filter(({ time }) => time < first).map(({ value, ...each }) => ({ ...each, type: "notes", kind: "note", message: value })));
    }
  } catch (refusal) {
    return { entries, isShortened, failure: refusal.message };
  }
  return { entries, isShortened };
}

/** The fields for a note or a measurement. */
function Entry({ environment, manual, onSaved }) {
  const [what, setWhat] = useState("");
  const [text, setText] = useState("");
  const [figure, setFigure] = useState(NaN);
  const [time, setTime] = useState("");
  const [by, setBy] = useState(localStorage.getItem(AUTHOR) ?? "");
  const [isBusy, setBusy] = useState(false);
  const [count, setCount] = useState(0); // of saved entries: their field begins empty
  const hasUser = useSignal(session)?.user;
  const { unit, minimum, maximum, precision } = variableOf(environment, what);
  const send = async (event) => {
    event.preventDefault();
    localStorage.setItem(AUTHOR, by);
    const query = new URLSearchParams({ ...(!hasUser && { by }), ...(time && { time: unix(time) }) });
    const value = what ? given(figure, unit) : text.trim();
    const from = time ? unix(time) - 60 : growdTime.value - 60;
    setBusy(true);
    const isSaved = await act(() => publish(`${environment}/${what ? `measured/${what}` : "notes"}?${query}`, [value]));
    setBusy(false);
    if (!isSaved) return;
    notify(t("journal_saved")); // growd has answered: it is on the disk
    const at = time ? unix(time) : growdTime.value;
    onSaved({ time: at, from, by: hasUser || by, ...(what ? { type: "measurements", variable: what, value } : { type: "notes", kind: "note", message: value }) });
    setText("");
    setFigure(NaN);
    setCount(count + 1);
    setTime("");
  };
  const field = (name, set, value, more) => html`<label>${name} <input value=${value} onInput=${(event) => set(event.target.value)} ...${more} /></label>`;
  return html`<form class="card entry" onSubmit=${send}>
    <label>${t("journal_what")}
      <select value=${what} onChange=${(event) => (setWhat(event.target.value), setText(""), setFigure(NaN))}>
        <option value="">${t("journal_note")}</option>
        ${manual.map(({ variable }) => html`<option value=${variable}>${variableName(variable)}</option>`)}
      </select></label>
    ${what
      ? html`<label>${variableName(what)} (${unit === "switch" ? "0, 1" : symbol(unit)}) <${NumberInput} key=${`${what} ${count}`} required value=${figure} decimals=${precision} least=${shown(minimum, unit)} most=${shown(maximum, unit)} onNumber=${setFigure} /></label>`
      : html`<label>${t("journal_note")} <textarea required maxlength="2000" rows="2" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>`}
    <div class="row">
      ${field(t("journal_time"), setTime, time, { type: "datetime-local", max: local(growdTime.value) })}
      ${!hasUser && field(t("journal_by"), setBy, by, { autocomplete: "name", maxlength: 100 })}
      <button class="primary" disabled=${isBusy || (what ? Number.isNaN(figure) : !text.trim())}>${t("save")}</button>
    </div>
  </form>`;
}

function measurement(environment, { variable, value, by }) {
  const { unit, precision } = variableOf(environment, variable);
  return { kind: "note", message: `${variableName(variable)} ${number(shown(value, unit), precision)} ${["switch", "pH"].includes(unit) ? "" : symbol(unit)}`, by };
}

/** What a search looks at. */
function words(environment, entry) {
  const { kind, source = "", message, by } = entry.variable ? measurement(environment, entry) : entry;
  return [kind, source, message, by].join(" ");
}

/** Entries by day. */
function List({ entries, environment }) {
  if (!entries.length) return html`<p class="faint">${t("journal_none")}</p>`;
  return [...Map.groupBy(entries, (each) => day(each.time))].map(([name, those]) => html`<section key=${name} class="card">
    <h3>${name}</h3>
    <ul class="plain">${those.map((each) => html`<li><time class="faint">${clock(each.time)}</time> <${Event} event=${each.variable ? measurement(environment, each) : each} /></li>`)}</ul>
  </section>`);
}
