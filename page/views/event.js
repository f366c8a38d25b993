/** `Event`: what happened, in words with a mark. */
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { authorName, interlockName, readable } from "../lib/names.js";

export const MARKS = { note: "▼", bad: "▲", other: "·" };

/** The mark of a kind of event: a key of `MARKS`. */
export const markOf = (kind) => (kind === "note" ? kind : /(^|_)(fault|fail(ed|ure)?|interlock|hold|lost|error)(_|$)/.test(kind) ? "bad" : "other");

/** An event in words, with its mark. An interlock begins its message with its own name. */
export function Event({ event: { kind, source, message = "", by } }) {
  const mark = markOf(kind);
  const [, first, rest] = /^(\w+): (.*)$/s.exec(message) ?? [];
  const lock = kind === "interlock" && (source || first);
  const words = lock ? html`${interlockName(lock)}: <span lang="en">${readable(rest ?? message)}</span>` : kind === "note" ? message
    : html`${source && !message.startsWith(source) && `${source}: `}<span lang="en">${readable(message)}</span>`;
  return html`<span class=${`mark ${mark}`} aria-hidden="true">${MARKS[mark]}</span> ${kind !== "note" && html`<b>${kindName(kind)}</b> `}${words}${by && html` <span class="faint">· ${authorName(by)}</span>`}`;
}

function kindName(kind) {
  const key = `event_${kind}`;
  const known = t(key);
  return known === key ? kind.replaceAll("_", " ") : known;
}
