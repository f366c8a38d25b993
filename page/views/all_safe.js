/**
 * The button that makes all outputs safe, and the bar while they are held.
 *
 * The button asks for a second press in the same place instead of a dialog: a person in a hurry presses twice and
 * has it within half a second, with wet hands and with a broken stream, and a phone in a pocket does not end a run.
 */
import { call } from "../lib/api.js";
import { clock, duration, moment } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { alone, connection, growdNow, refresh, useNow, useStatus } from "../lib/live.js";
import { Action, act } from "../lib/parts.js";
import { mayOperate, session } from "../lib/session.js";
import { Signal, useSignal } from "../lib/signal.js";
import { readable } from "./wrong.js";

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
  return failure && html`<div class="bar bad row spread" role="alert">
    <strong>✖ ${failure.at > 0 && `${clock(failure.at)} `}${failure.sentence}</strong>
    <span class="row"><button class="bad" onClick=${makeSafe}>${t("safe_again")}</button>
    <button onClick=${() => (failed.value = null)}>${t("close")}</button></span>
  </div>`;
}

/** While outputs are held: why, by whom, since when, and the release. */
export function Held() {
  const status = useStatus();
  const { isConnected } = useSignal(connection);
  const now = useNow();
  const [reason, setReason] = useState("");
  const holds = status?.holds ?? [];
  const unsafe = status?.notices.find(({ kind, severity }) => kind === "hold" && severity === "failure");
  const isDone = holds.length > 0 && !unsafe;
  useEffect(() => {
    if (isDone) failed.value = null; // somebody did it meanwhile
  }, [isDone]);
  const give = (event) => {
    event.preventDefault();
    act(() => call("hold/set", { reason }).then(() => {})).then((isDone) => isDone && setReason("")); // the bar says it
  };
  return html`
    ${holds.map((hold) => html`<div key=${hold.holder} class=${`held bar row spread ${unsafe ? "bad" : "warn"}`} role="group" aria-label=${t("held")}>
      <span><strong role="status"><span aria-hidden="true">◼</span> ${t(!isConnected ? "held_before" : unsafe ? "held_unsafe" : "held")}</strong>${" "}
        ${[why(hold), hold.since > 0 && (isConnected ? t("since", { time: moment(hold.since), lasted: duration(now - hold.since) }) : moment(hold.since))]
          .filter(Boolean).join(", ")}
        ${unsafe && html`<br />${readable(unsafe.text)}`}
        ${hold.holder !== "person" && html`<br />${t("held_upgrade")}`}</span>
      ${hold.holder === "person" && html`<span class="row">
        ${!hold.reason && mayOperate() && html`<form class="row" onSubmit=${give}>
          <input aria-label=${t("reason")} placeholder=${t("reason")} maxlength="200" required value=${reason} onInput=${(event) => setReason(event.target.value)} />
          <button>${t("save")}</button></form>`}
        <${Action} key=${`${hold.since} ${why(hold)}`} confirm=${[t("release_question"), why(hold)].filter(Boolean).join(" ")} disabled=${!isConnected}
          run=${() => call("hold/release", { since: hold.since, reason: hold.reason }).then(() => {})}>${t("release")}<//>
      </span>`}
    </div>`)}`;
}

const why = ({ reason, by }) => [reason, by && t("held_by", { name: by })].filter(Boolean).join(", ");
