/** What needs no action, and what screen readers and the title of the tab say of problems. */
import { number } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { connection, useStatus } from "../lib/live.js";
import { useSignal } from "../lib/signal.js";
import { readable } from "../lib/names.js";
import { problemsOf, sentence } from "../lib/verdict.js";

const SAID_MS = 10_000;

/** A calm mark for notes, such as simulated hardware. */
export function Notes() {
  const status = useStatus();
  const notes = status?.notices.filter(({ severity }) => severity === "note") ?? [];
  if (!notes.length) return null;
  const others = notes.length - 1;
  const simulated = `${t("simulated")}${status.speed !== 1 ? ` ×${number(status.speed, status.speed < 10 && status.speed % 1 ? 1 : 0)}` : ""}`;
  const name = status.hardware !== "simulated" ? t("notes", { n: notes.length }) : others ? `${simulated} +${others}` : simulated;
  return html`<details class="menu"><summary class="pill">${name}</summary>
    <ul class="card">${notes.map((each) => html`<${Note} key=${each.text} note=${each} />`)}</ul>
  </details>`;
}

function Note({ note }) {
  const words = sentence(note);
  return html`<li lang=${words === readable(note.text) ? "en" : null}>${words}</li>`;
}

/** Which problems have come or gone, for screen readers; said once, and not there for those who read the page later. */
export function News() {
  const problems = problemsOf(useStatus()).filter(({ severity }) => severity === "failure");
  const known = useRef(new Map());
  const [said, say] = useState("");
  const present = new Map(problems.map((each) => [`${each.kind} ${each.name}`, sentence(each)]));
  useEffect(() => {
    const less = (some, others) => [...some].filter(([key]) => !others.has(key)).map(([, text]) => text);
    const [come, gone] = [less(present, known.current), less(known.current, present)];
    known.current = present;
    if (come.length || gone.length) say([...come, ...gone.map((text) => t("is_over", { text }))].join("; "));
  }, [[...present.keys()].join()]);
  useEffect(() => {
    const timer = said && setTimeout(() => say(""), SAID_MS);
    return () => clearTimeout(timer);
  }, [said]);
  return html`<div role="alert" class="hidden">${said}</div>`;
}

/** The title and the icon of the browser's tab: the view, and that something has failed, is held, or is not heard. */
export function Title({ name }) {
  const status = useStatus();
  const failures = problemsOf(status).filter(({ severity }) => severity === "failure").length;
  const { isConnected } = useSignal(connection);
  const isLost = status && !isConnected;
  const marks = isLost ? `(${t("old")}) ` : failures ? `(${failures} ✖) ` : status?.holds.length ? "(◼) " : "";
  useEffect(() => {
    document.title = `${marks}${name} · growd`;
    const icon = document.querySelector("link[rel=icon]");
    icon.href = icon.href.replace(/icon(_bad)?\.svg/, failures || isLost ? "icon_bad.svg" : "icon.svg");
  }, [marks, name]);
  return null;
}
