/** `Event`: what happened, in words with a mark. */
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { authorName, deviceName, interlockName, readable } from "../lib/names.js";
import { translated } from "../lib/verdict.js";

/** The marks of events, the most severe last. */
export const MARKS = { other: "·", note: "▼", bad: "▲" };
const BAD = /(^|_)(fault|fail(ed|ure)?|interlock|hold|lost|error)(_|$)/;
const ENDS = /(^|_)(released|over)$/; // codes that end what a "bad" kind of event began

/** The mark of an event: a key of `MARKS`. An interlock that pauses outputs in normal operation is no problem. */
export function markOf({ kind, code, fields, details }) {
  const about = fields ?? details;
  return kind === "note" ? kind : BAD.test(kind) && !ENDS.test(code || details?.code) && !about?.is_expected ? "bad" : "other";
}

/** An event in words, with its mark; `code` and `fields` of the stream, `details` of the history say it in the user's language. */
export function Event({ event }) {
  const { kind, source = "", message = "", by, code, fields, details } = event;
  const mark = markOf(event);
  const said = { code: code || details?.code, fields: fields ?? details, text: message };
  const words = translated(said);
  const isNamed = words && (said.fields?.device || said.fields?.variable); // the sentence names its subject
  const name = kind === "note" || isNamed ? "" : sourceName(kind, source);
  const plain = kind === "note" ? message : words || html`<span lang="en">${readable(message.replace(`${source}: `, ""))}</span>`;
  return html`<span class=${`mark ${mark}`} aria-hidden="true">${MARKS[mark]}</span> ${kind !== "note" && html`<b>${kindName(kind)}</b> `}${name && `${name}: `}${plain}${by && html` <span class="faint">· ${authorName(by)}</span>`}`;
}

/** What an event is about, for people; "" for growd itself and all outputs. */
export const sourceName = (kind, source) =>
  kind === "hold" || source === "growd" ? "" : kind === "interlock" ? interlockName(source) : kind === "recipe" ? source.replaceAll("_", " ") : deviceName(source);

/** The name of a kind of events. */
export function kindName(kind) {
  const key = `event_${kind}`;
  const known = t(key);
  return known === key ? kind.replaceAll("_", " ") : known;
}
