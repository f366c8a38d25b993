/** The journal: notes with measurements and photos, and what happened, with time and author. */
import { database, DESIGN, get, key } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { growdTime, useChamber, useTopic } from "../lib/live.js";
import { mayOperate } from "../lib/session.js";
import { useSignal } from "../lib/signal.js";
import { Entries, measuredText } from "./entries.js";
import { EntryForm } from "./entry_form.js";

const KINDS = ["notes", "measurements", "events"];
const SEARCHED_DAYS = 3_650;
const MOST = 1_000; // the newest, of the entries and of each variable
const TYPED_MS = 400;
const PAUSES_MS = [0, 6_000, 12_000]; // a point is in the database after five seconds, one of a new kind after ten
const AGAIN_MS = 20_000; // while an entry waits for the database

export function Journal({ environment }) {
  const [days, setDays] = useState(7);
  const [hidden, setHidden] = useState([]);
  const [search, setSearch] = useState("");
  const [saved, setSaved] = useState(0);
  const { entries, failure, isShortened } = useEntries(environment, days, search.trim(), saved);
  const toggle = (kind) => setHidden(hidden.includes(kind) ? hidden.filter((each) => each !== kind) : [...hidden, kind]);
  const has = ({ type, kind, source, message, by }) => type === "notes" || [kind, source, message, by].join(" ").toLocaleLowerCase().includes(search.trim().toLocaleLowerCase());
  const all = entries?.filter((each) => !hidden.includes(each.type) && has(each)).sort((one, other) => other.time - one.time);
  return html`<div class="two">
    <div class="beside">${mayOperate() && html`<${EntryForm} environment=${environment} onSaved=${() => setSaved(saved + 1)} />`}
    ${failure && html`<p class="bar warn" role="status">${t("journal_failure", { reason: failure })}</p>`}
    <div class="row chips" role="group" aria-label=${t("show")}>
      ${KINDS.map((kind) => html`<label key=${kind}><input type="checkbox" checked=${!hidden.includes(kind)} onChange=${() => toggle(kind)} /> ${t(`journal_${kind}`)}</label>`)}
    </div>
    <label>${t("journal_search")} <input type="search" value=${search} onInput=${({ target }) => setSearch(target.value)} /></label>
    </div><div class="entries">
    ${all ? (all.length > 0 || !failure) && html`<${Entries} entries=${all} environment=${environment} isOpen />` : t("loading")}
    ${isShortened && html`<p class="small faint">${t("journal_shortened")}</p>`}
    <button class="more" hidden=${Boolean(search) || !all} onClick=${() => setDays(4 * days)}>${t("journal_more", { count: 4 * days })}</button></div></div>`;
}

/** {entries, failure, isShortened}: of the last days or what is searched; read again after each entry that comes. */
function useEntries(environment, days, search, saved) {
  const manual = useChamber(environment).variables.filter((each) => each.manual);
  const [found, setFound] = useState({});
  const isReady = useSignal(growdTime) > 0;
  const newest = ["events", "notes"].map((name) => useTopic(`${environment}/${name}`)?.number);
  const isWaiting = found.entries?.some((each) => each.waiting);
  useEffect(() => {
    if (!isReady) return undefined;
    let isCurrent = true;
    const show = (answer) => isCurrent && setFound((known) => ({ entries: [], ...known, failure: "", ...answer }));
    const ask = () => read(environment, manual, search ? SEARCHED_DAYS : days, search).then(show, ({ message }) => show({ failure: message }));
    const timers = PAUSES_MS.map((pause) => setTimeout(ask, pause || (search ? TYPED_MS : 0)));
    const again = isWaiting && setInterval(ask, AGAIN_MS);
    return () => ((isCurrent = false), clearInterval(again), timers.forEach(clearTimeout));
  }, [environment, manual.length, days, search, saved, isReady, isWaiting, ...newest]);
  return found;
}

async function read(environment, manual, days, search) {
  const end = growdTime.value + 60;
  const start = end - days * 86_400;
  const span = `start=${start}&end=${end}`;
  const journal = await get(`journal/${environment}?${span}&limit=${MOST}&search=${encodeURIComponent(search)}`);
  const entries = journal.entries.map((each) => ({ ...each, type: "notes" }));
  let failure = journal.missing;
  let isShortened = journal.more;
  try { // one request at a time: a browser has few connections
    const { events, events_truncated: isPart } = await get(`history/${environment}?${span}&series=false`);
    entries.push(...events.filter(({ kind }) => kind !== "note").map((each) => ({ ...each, type: "events" })));
    isShortened ||= isPart;
    const isInEntry = ({ timestamp, value }, variable) => journal.entries.some(({ time, measurements }) => measurements?.[variable] === value && Math.abs(time - timestamp) < 1);
    for (const { variable } of manual) {
      const of = (time) => key([environment, "measured", variable, time]);
      const { rows } = await database("GET", `environmental_data_point/${DESIGN}/_view/by_variable?reduce=false&descending=true&limit=${MOST}&startkey=${of(end)}&endkey=${of(start)}`);
      for (const { id, value } of rows) if (value.is_manual && !isInEntry(value, variable)) entries.push({ id, time: value.timestamp, type: "measurements", kind: "note", message: measuredText(environment, variable, value.value), by: value.by });
    }
  } catch (refusal) {
    failure ||= refusal.message;
  }
  return { entries, isShortened, failure };
}
