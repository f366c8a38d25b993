/** Parts that several views use. */
import { Refusal } from "./api.js";
import { number, parseNumber, typed } from "./format.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { load as loadTexts, t, variableName } from "./i18n.js";
import { alone, connection, refresh } from "./live.js";
import { readable } from "./names.js";
import { askSession, mayAdminister, mayOperate } from "./session.js";
import { Signal, useSignal } from "./signal.js";

const notices = new Signal([]);
const NOTICE_MS = { ok: 6_000, warn: 15_000, bad: 60_000 };

/** Show a sentence for some time; `kind` is "ok", "warn" or "bad". Bad ones go with the next action that succeeds, too. */
export function notify(text, kind = "ok") {
  const notice = { text, kind };
  notices.value = [...notices.value.filter((each) => each.text !== text).slice(-2), notice];
  setTimeout(() => dismiss(notice), NOTICE_MS[kind]);
}

const forgive = () => (notices.value = notices.value.filter(({ kind }) => kind !== "bad"));
connection.follow(({ isConnected }) => isConnected && forgive());

const dismiss = (notice) => (notices.value = notices.value.filter((each) => each !== notice));

export function Notices() {
  return html`<div class="notices" role="status" aria-atomic="false">
    ${useSignal(notices).map((notice) => html`<p class=${notice.kind} key=${notice}>
      ${notice.text} <button class="quiet" aria-label=${t("close")} onClick=${() => dismiss(notice)}>✕</button>
    </p>`)}
  </div>`;
}

/** Do `work` and show growd's answer or refusal. True if it was done. */
export async function act(work) {
  try {
    const answer = await alone(work, false);
    forgive();
    const text = answer?.hint ?? (answer?.message === "Posted message to topic" ? "" : answer?.message);
    if (text) notify(readable(withoutCommand(text)), answer.hint ? "warn" : "ok");
    return true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    notify(readable(withoutCommand(error.message)), "bad");
    if (error.status === 401 || error.status === 403) askSession().catch(() => {});
    return false;
  } finally {
    refresh();
  }
}

/** A sentence without what it says for a terminal, and with places of a recipe in words. */
export const withoutCommand = (text) => text.replace(/\/phases\/(\d+)(?:\/(?:daily|course)\/(\w+))?(?:\/\w+)*/g, (_, number, variable) =>
  [t("recipe_phase_number", { number: Number(number) + 1 }), variable && variableName(variable)].filter(Boolean).join(", ")).replace(/: growd topic release \S+|; release with `[^`]*`/g, "");

/**
 * A button that does something at growd. Not shown to users who may not do it.
 *
 * `run` returns a promise; `confirm` is a question to ask first; `admin`: only for administrators.
 */
export function Action({ run, confirm: question, admin = false, class: style = "", children, ...rest }) {
  const [isBusy, setBusy] = useState(false);
  const [isAsking, setAsking] = useState(false);
  if (!(admin ? mayAdminister : mayOperate)()) return null;
  const go = async () => {
    setAsking(false);
    setBusy(true);
    await act(run).finally(() => setBusy(false));
  };
  return html`<button ...${rest} class=${style} disabled=${rest.disabled} aria-disabled=${isBusy || null} onClick=${() => isBusy || (question ? setAsking(true) : go())}>
      ${children}
    </button>
    ${isAsking && html`<${Dialog} title=${question} onClose=${() => setAsking(false)}>
      <div class="row"><button class="primary" onClick=${go}>${children}</button>
      <button onClick=${() => setAsking(false)}>${t("cancel")}</button></div>
    <//>`}`;
}

/** For `load` of `Loaded`: what imports the component `name` of a module, with the texts of all views but the first. */
export const imported = (load, name) => async () => (await Promise.all([load(), loadTexts("views")]))[0][name];

/**
 * A component that `load` imports; without it a sentence, and another try with the next connection.
 *
 * The button loads the page anew: some browsers remember a failed import.
 */
export function Loaded({ load, first = null, ...rest }) {
  const [component, setComponent] = useState(() => first);
  const [hasFailed, setFailed] = useState(false);
  const go = () => load().then((loaded) => (setComponent(() => loaded), setFailed(false)), (error) => (console.error(error), setFailed(true)));
  useEffect(() => void (component || go()), [load]);
  useEffect(() => (hasFailed ? connection.follow(({ isConnected }) => isConnected && go()) : undefined), [hasFailed]);
  if (component) return html`<${component} ...${rest} />`;
  return hasFailed ? html`<p role="alert">${t("not_loaded")} <button onClick=${() => location.reload()}>${t("safe_again")}</button></p>` : html`<p>${t("loading")}</p>`;
}

/** Labels and their values, as [[label, value]]; those without a value are left out. */
export const Facts = ({ of }) => html`<dl class="facts small">
  ${of.filter(([, value]) => value).map(([label, value]) => html`<div key=${label}><dt>${label}</dt><dd>${value}</dd></div>`)}
</dl>`;

let always = null; // the component that a dialog has beside its title
export const showInDialogs = (component) => (always = component);

/** A modal dialog; `onClose` is called by Escape too. "All safe" is in it, since nothing outside can be pressed. */
export function Dialog({ title, onClose, children, isSheet = false }) {
  const dialog = useRef();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    // a field of a sheet would open the keyboard of a phone
    dialog.current.querySelector(isSheet ? "h2" : ":scope > :not(.top) :is(button, input, textarea)")?.focus();
    return () => before?.focus?.(); // a browser does so at a close(), but not if the dialog goes away
  }, []);
  const beside = ({ target }) => isSheet && target === dialog.current && onClose();
  return html`<dialog ref=${dialog} class=${isSheet ? "sheet" : ""} aria-label=${title} onClick=${beside} onCancel=${(event) => (event.preventDefault(), event.target === dialog.current && onClose())}>
    <div class="row spread top"><h2 tabindex=${isSheet ? -1 : null}>${title}</h2>${always && html`<${always} />`}${isSheet && html`<button class="quiet" aria-label=${t("close")} onClick=${onClose}>✕</button>`}</div>
    ${isSheet ? html`<div class="content">${children}</div>` : children}
  </dialog>`;
}

/** A dialog for a form or for more about something: from the bottom on a phone. A press beside it closes it. */
export const Sheet = ({ title, onClose, children }) => html`<${Dialog} title=${title} onClose=${onClose} isSheet>${children}<//>`;

/**
 * A field for a number as the browser's locale writes it. Fields of the type "number" read "1,7" as 17 in some locales.
 *
 * `onNumber` gets NaN while what is typed is not a number from `least` to `most`; the field says so. An empty field is `empty`.
 */
export function NumberInput({ value, decimals = 4, least = -Infinity, most = Infinity, empty = NaN, onNumber, ...rest }) {
  const [text, setText] = useState(null); // what is typed
  const field = useRef();
  useEffect(() => {
    if (!Number.isFinite(value) || field.current === document.activeElement) return;
    field.current.setCustomValidity("");
    setText(null); // the value came from elsewhere
  }, [value]);
  const read = ({ target }) => {
    const found = parseNumber(target.value);
    const isRight = found >= least && found <= most && (decimals > 0 || Number.isInteger(found));
    const range = t(decimals > 0 ? "range" : "range_whole", { least: number(least), most: number(most) });
    target.setCustomValidity(isRight || !target.value.trim() ? "" : t("not_a_number", { range }));
    setText(target.value);
    onNumber(isRight ? found : target.value.trim() ? NaN : empty);
  };
  const shown = text ?? (Number.isFinite(value) ? typed(value, decimals) : "");
  return html`<input ...${rest} ref=${field} inputmode="decimal" autocomplete="off" aria-invalid=${Boolean(text) && !Number.isFinite(value)} value=${shown} onInput=${read} onBlur=${() => Number.isFinite(value) && setText(null)} />`;
}
