/**
 * The button that makes all outputs safe, and what is said if it could not.
 *
 * The button asks for a second press in the same place instead of a dialog: a person in a hurry presses twice and
 * has it within half a second, with wet hands and with a broken stream, and a phone in a pocket does not end a run.
 */
import { call } from "../lib/api.js";
import { clock } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { alone, growdNow, refresh, useStatus } from "../lib/live.js";
import { mayOperate, session } from "../lib/session.js";
import { Signal, useSignal } from "../lib/signal.js";

const ARMED_MS = 5_000;
const BOUNCE_MS = 150; // one press of a wet finger may count as two
const TIMEOUT_MS = 10_000; // growd waits up to 3 s for its outputs

/** Why the outputs could not be made safe: {sentence, at}; null if they could, or nobody tried. */
const failed = new Signal(null);

async function makeSafe() {
  failed.value = null;
  try {
    await alone(() => call("hold/set", {}, TIMEOUT_MS));
  } catch (error) {
    // Without an answer growd may have done it. After "refused" the hold is set, but an output does not follow.
    const isKnown = error.status >= 400 && error.status < 500;
    const sentence = error.code === "refused" ? "safe_partly" : isKnown ? "safe_failed" : "safe_unknown";
    failed.value = { sentence: t(sentence, { reason: error.message }), at: growdNow() };
  }
  refresh();
}

export function AllSafe() {
  const [armedAt, setArmed] = useState(0);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    if (!armedAt) return undefined;
    const timer = setTimeout(() => setArmed(0), ARMED_MS);
    return () => clearTimeout(timer);
  }, [armedAt]);
  if (session.value && !mayOperate()) return null; // growd decides, if it has not said who this is
  const press = () => {
    if (isBusy) return undefined; // not disabled: that would take the focus from it
    if (!armedAt) return setArmed(performance.now());
    if (performance.now() - armedAt < BOUNCE_MS) return undefined;
    setArmed(0);
    setBusy(true);
    return makeSafe().finally(() => setBusy(false));
  };
  const state = isBusy ? "safe_busy" : armedAt ? "safe_armed" : "safe";
  return html`<button class=${`all_safe ${armedAt ? "armed" : ""}`} title=${t("safe_hint")} aria-disabled=${isBusy || null} onClick=${press}>
      <span aria-hidden="true">◼</span> ${t(state)}
    </button>
    <span class="hidden" aria-live="assertive">${armedAt ? t("safe_armed_hint") : ""}</span>`;
}

/** That All safe was not done, or not for all outputs; also while growd wants a login. */
export function Failed() {
  const failure = useSignal(failed);
  const status = useStatus();
  const isDone = status?.holds.length > 0 && !status.notices.some(({ kind, severity }) => kind === "hold" && severity === "failure");
  useEffect(() => {
    if (isDone) failed.value = null; // somebody did it meanwhile
  }, [isDone]);
  return failure && html`<div class="bar bad row spread" role="alert">
    <strong>✖ ${failure.at > 0 && `${clock(failure.at)} `}${failure.sentence}</strong>
    <span class="row"><button class="bad" onClick=${makeSafe}>${t("safe_again")}</button>
    <button onClick=${() => (failed.value = null)}>${t("close")}</button></span>
  </div>`;
}
