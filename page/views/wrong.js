/** What is wrong, on every view: growd's own sentences, each with what helps. */
import { call } from "../lib/api.js";
import { duration, moment, number } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { chambers, connection, growdNow, useStatus } from "../lib/live.js";
import { Action } from "../lib/parts.js";
import { href } from "../lib/route.js";
import { useSignal } from "../lib/signal.js";

const FEW = 3;
const SAID_MS = 10_000;
const SHAPES = { failure: "✖\ufe0e", warning: "▲", note: "●" };
const VIEWS = { device: "devices", interlock: "devices", database: "data", replication: "data", store: "data" };

const ENDINGS = ["unknown", "no_rise", "no_fall", "minimum_on", "minimum_off", "on_too_long", "share_per_hour", "starts_per_hour", "ml_per_hour", "ml_per_day", "not_confirmed"];

/** Names of interlocks. Those of a variable or an output are named after it; a condition has its own name. */
export function interlockName(name) {
  const known = t(`interlock_${name}`);
  if (known !== `interlock_${name}`) return known;
  if (name.startsWith("condition_")) return t("interlock_condition", { name: name.slice(10).replaceAll("_", " ") });
  if (name.includes("_or_")) return t("interlock_both", { name: name.split("_or_").map(variableName).join(" / ") });
  const ending = ENDINGS.find((each) => name.endsWith(`_${each}`));
  return ending ? t(`interlock_${ending}`, { name: variableName(name.slice(0, -ending.length - 1)) }) : name.replaceAll("_", " ");
}

/** A sentence with names in place of paths: "CO₂ unknown has tripped", with the chamber if there are several. */
export function readable(text) {
  const place = (environment) => (chambers.value.length > 1 ? `${environment.replaceAll("_", " ")}: ` : "");
  return text.replace(/\bthe interlock (\w+)/g, (_, name) => interlockName(name))
    .replace(/\b(\w+)\/interlocks\/(\w+)/g, (_, environment, name) => place(environment) + interlockName(name))
    .replace(/\b(\w+)\/actuators\/(\w+)/g, (_, environment, name) => place(environment) + name);
}

/** What is the same notice later on, though its numbers change. */
const keyOf = ({ kind, name, text }) => `${kind} ${name || text.replace(/[\d.]+/g, "")}`;

export function Wrong({ environment }) {
  const [isAll, setAll] = useState(false);
  const notices = (useStatus()?.notices ?? []).filter(({ kind }) => kind !== "hold"); // the bar of the hold says it
  const failures = notices.filter(({ severity }) => severity === "failure");
  const found = notices.filter(({ severity }) => severity !== "note");
  const shown = isAll || found.length <= FEW + 1 ? found : found.slice(0, FEW);
  return html`<div class="wrong">
    <div role="alert" class="hidden">${useNews(failures)}</div>
    ${shown.map((notice) => html`<${Item} key=${keyOf(notice)} notice=${notice} environment=${environment} />`)}
    ${found.length > FEW + 1 && html`<button class="quiet" aria-expanded=${isAll} onClick=${() => setAll(!isAll)}>
      ${isAll ? t("fewer") : t("more", { n: found.length - FEW })}
    </button>`}
  </div>`;
}

/** A calm mark for what needs no action: notes, such as simulated hardware. */
export function Notes() {
  const status = useStatus();
  const notes = status?.notices.filter(({ severity }) => severity === "note") ?? [];
  if (!notes.length) return null;
  const others = notes.length - 1;
  const simulated = `${t("simulated")}${status.speed !== 1 ? ` ×${number(status.speed)}` : ""}`;
  const name = status.hardware !== "simulated" ? t("notes", { n: notes.length }) : others ? `${simulated} +${others}` : simulated;
  return html`<details class="menu"><summary class="badge">${name}</summary>
    <ul class="card" lang="en">${notes.map(({ text }) => html`<li key=${text}>${text}</li>`)}</ul>
  </details>`;
}

function Item({ notice, environment }) {
  const { severity, kind, text, since, service, arguments: values } = notice;
  const help = service && t(`help_${service.split("/").pop()}`);
  return html`<details class=${`bar ${severity === "failure" ? "bad" : "warn"}`}>
    <summary><span aria-hidden="true">${SHAPES[severity]}</span> <span class="text"><strong>${t(severity)}:</strong> <span lang="en">${readable(text)}</span></span></summary>
    <div class="row">
      ${since > 0 && html`<span>${t("since", { time: moment(since), lasted: duration(growdNow() - since) })}</span>`}
      ${VIEWS[kind] && html`<a href=${href(environment, VIEWS[kind])}>${t(VIEWS[kind])}</a>`}
      ${help && html`<${Action} admin=${service.endsWith("/reset")} confirm=${service.endsWith("/reset") && t("help_question", { what: help, reason: text })}
        run=${() => call(service, values)}>${help}<//>`}
    </div>
  </details>`;
}

/** Which failures have come or gone, for screen readers; said once, and not there for those who read the page later. */
function useNews(failures) {
  const known = useRef(new Map());
  const [said, say] = useState("");
  const present = new Map(failures.map((each) => [keyOf(each), each.text]));
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
  return said;
}

/** The title and the icon of the browser's tab: the view, and that something has failed, is held, or is not heard. */
export function Title({ name }) {
  const status = useStatus();
  const failures = (status?.notices ?? []).filter(({ severity }) => severity === "failure").length;
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
