/** Entries of the journal: text, measurements and photos. */
import { post } from "../lib/api.js";
import { clock, day, moment, shown, symbol, typed } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { variableOf } from "../lib/live.js";
import { act, Dialog } from "../lib/parts.js";
import { author, mayOperate } from "../lib/session.js";
import { Event } from "./event.js";

const DECIMALS = 4;

/** The symbol of a unit; "" for those that the name of the variable says already. */
export const unitOf = (unit) => (["switch", "pH"].includes(unit) ? "" : symbol(unit));

/** A value as it was typed, with the name of its variable: "Harvest, dry 11.2 g". */
export function measuredText(environment, variable, value) {
  const { unit } = variableOf(environment, variable);
  return `${variableName(variable)} ${typed(Number(shown(value, unit)), DECIMALS)} ${unitOf(unit)}`.trim();
}

/** The photos of an entry, small; one is opened large. */
function Photos({ entry: { time, text, photos, waiting: isWaiting } }) {
  const [open, setOpen] = useState(null);
  if (!photos?.length) return null;
  const alt = (i) => t("journal_photo_alt", { number: i + 1, what: text.slice(0, 60) || moment(time) });
  return html`<span class="photos">${photos.map(({ address, waiting }, i) => html`<button key=${address} class="quiet" onClick=${() => setOpen(i)}>
      <img src=${address} alt=${alt(i)} loading="lazy" />${waiting && !isWaiting && html`<span class="small warn">${t("journal_waits")}</span>`}</button>`)}</span>
    ${open !== null && html`<${Dialog} title=${text || moment(time)} onClose=${() => setOpen(null)}>
      <img class="large" src=${photos[open].address} alt=${alt(open)} />
      <div class="row"><button onClick=${() => setOpen(null)}>${t("close")}</button>
        ${photos.length > 1 && html`<button onClick=${() => setOpen((open + 1) % photos.length)}>${t("journal_next", { number: open + 1, count: photos.length })}</button>`}
        <a href=${photos[open].address} target="_blank">${t("journal_whole")}</a></div>
    <//>`}`;
}

/** Replaces the text of an entry; the list shows the one before under "corrected". */
function Correction({ environment, entry: { id, text } }) {
  const [words, setWords] = useState(null);
  if (words === null) return html` <button class="quiet small" onClick=${() => setWords(text)}>${t("journal_correct")}</button>`;
  const send = async (event) => {
    event.preventDefault();
    if (await act(() => post(`journal/${environment}`, { corrects: id, text: words.trim(), by: author() }))) setWords(null);
  };
  return html`<form class="entry" onSubmit=${send}>
    <label>${t("journal_new_text")} <textarea maxlength="2000" rows="3" value=${words} onInput=${({ target }) => setWords(target.value)}></textarea></label>
    <div class="row"><button type="button" onClick=${() => setWords(null)}>${t("cancel")}</button>
      <button class="primary" disabled=${!words.trim() || words.trim() === text}>${t("save")}</button></div>
  </form>`;
}

/** One entry in words, with its photos. */
export function Entry({ environment, entry, isOpen }) {
  const { text, by, measurements = {}, waiting, earlier = [] } = entry;
  const values = Object.entries(measurements).map(([variable, value]) => measuredText(environment, variable, value));
  return html`<${Event} event=${{ kind: "note", message: [text, ...values].filter(Boolean).join(" · "), by }} />
    ${waiting && html` <span class="badge warn">${t("journal_waits")}</span>`}
    ${earlier.length > 0 && html`<details class="small faint"><summary>${t("journal_corrected")}</summary>${earlier.map((each) => html`<p>${each.text} · ${each.by} · ${moment(each.written)}</p>`)}</details>`}
    <${Photos} entry=${entry} />
    ${isOpen && mayOperate() && html`<${Correction} environment=${environment} entry=${entry} />`}`;
}

/** Entries and events by day, newest first; the texts of entries can be corrected if it `isOpen`. */
export function Entries({ environment, entries, isOpen = false }) {
  if (!entries.length) return html`<p class="faint">${t("journal_none")}</p>`;
  return [...Map.groupBy(entries, (each) => day(each.time))].map(([name, those]) => html`<section key=${name} class="card">
    <h3>${name}</h3>
    <ul class="plain">${those.map((each) => html`<li key=${each.id ?? `${each.time} ${each.kind} ${each.message}`}><time class="faint">${clock(each.time)}</time> ${each.kind
      ? html`<${Event} event=${each} />` : html`<${Entry} environment=${environment} entry=${each} isOpen=${isOpen} />`}</li>`)}</ul>
  </section>`);
}
