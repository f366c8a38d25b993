/** `Event`: what happened, in words with a mark. */
import { html } from "../lib/html.js";

export const MARKS = { note: "▼", bad: "▲", other: "·" };

/** The mark of a kind of event: a key of `MARKS`. */
export const markOf = (kind) => (kind === "note" ? kind : /(^|_)(fault|fail(ed|ure)?|interlock|hold|lost|error)(_|$)/.test(kind) ? "bad" : "other");

/** An event in words, with its mark. */
export function Event({ event: { kind, source, message, by } }) {
  const mark = markOf(kind);
  return html`<span class=${`mark ${mark}`} aria-hidden="true">${MARKS[mark]}</span> ${kind !== "note" && html`${!`${source} ${message}`.includes(kind) && html`<b>${kind.replaceAll("_", " ")}</b> `}${source && !message?.startsWith(source) && `${source}: `}`}${message}${by && html` <span class="faint">· ${by}</span>`}`;
}
