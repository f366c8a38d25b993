/** `Event`: what happened, in words with a mark. */
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { authorName, deviceName, interlockName, readable } from "../lib/names.js";
import { translated } from "../lib/verdict.js";

export const MARKS = { note: "▼", bad: "▲", other: "·" };

/** The mark of a kind of event: a key of `MARKS`. */
export const markOf = (kind) => (kind === "note" ? kind : /(^|_)(fault|fail(ed|ure)?|interlock|hold|lost|error)(_|$)/.test(kind) ? "bad" : "other");

/** An event in words, with its mark; `code` and `fields` of the stream, `details` of the history say it in the user's language. */
export function Event({ event: { kind, source = "", message = "", by, code, fields, details } }) {
  const mark = markOf(kind);
  const said = { code: code || details?.code, fields: fields ?? details, text: message };
  const words = translated(said);
  const isNamed = words && (said.fields?.device || said.fields?.variable); // the sentence names its subject
  const name = kind === "note" || isNamed || source === "growd" ? "" : kind === "interlock" ? interlockName(source) : kind === "recipe" ? source.replaceAll("_", " ") : deviceName(source);
  const plain = kind === "note" ? message : words || html`<span lang="en">${readable(message.replace(`${source}: `, ""))}</span>`;
  return html`<span class=${`mark ${mark}`} aria-hidden="true">${MARKS[mark]}</span> ${kind !== "note" && html`<b>${kindName(kind)}</b> `}${name && kind !== "hold" && `${name}: `}${plain}${by && html` <span class="faint">· ${authorName(by)}</span>`}`;
}

function kindName(kind) {
  const key = `event_${kind}`;
  const known = t(key);
  return known === key ? kind.replaceAll("_", " ") : known;
}
