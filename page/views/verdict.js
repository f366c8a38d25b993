/** The verdict over all in one strip: whether all is well, else the worst and what helps. One state at a time is in it. */
import { call } from "../lib/api.js";
import { duration, moment } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { connection, useNow, useStatus } from "../lib/live.js";
import { authorName } from "../lib/names.js";
import { Action, act, imported, Loaded } from "../lib/parts.js";
import { mayOperate } from "../lib/session.js";
import { useSignal } from "../lib/signal.js";
import { problemsOf, sentence } from "../lib/verdict.js";

const SHAPES = { well: "✓", attention: "▲", trouble: "✖\ufe0e", held: "◼", starting: "…", lost: "⇹" };

/** The strip; `isSlim`: only if there is something to say, for the other views. It comes with them, so that nothing moves. */
export function Verdict({ environment, isSlim = false }) {
  const status = useStatus();
  const verdict = status?.verdict;
  const { isConnected, silence } = useSignal(connection);
  const [isOpen, setOpen] = useState(false);
  const isLost = !isConnected && silence !== null;
  useEffect(() => {
    document.documentElement.dataset.connection = isConnected ? "ok" : isLost ? "lost" : "new"; // style.css greys what is old
  }, [isConnected, isLost]);
  const [hold] = status?.holds ?? [];
  const unsafe = status?.notices.find(({ kind, severity }) => kind === "hold" && severity === "failure");
  const failure = problemsOf(status).find((each) => each.severity === "failure" && each !== unsafe);
  const state = isLost ? "lost" : !verdict || !(isConnected || isSlim) ? "starting" : hold ? (unsafe ? "trouble" : "held") : verdict.state;
  const isQuiet = ["well", "starting"].includes(state);
  const count = problemsOf(status).length;
  const said = words(state, { verdict, hold, unsafe, failure, isConnected });
  return html`
    <div role="status" class="hidden">${isLost ? t("no_connection") : ""}</div>
    ${!(isSlim && isQuiet) && html`<section class=${`verdict ${state} ${isSlim ? "slim" : ""} ${hold ? "held_by" : ""}`} aria-label=${t("verdict")}>
      <span class="shape" aria-hidden="true">${SHAPES[state]}</span>
      <div class="what"><strong role=${hold ? "status" : null}>${said.head}</strong>
        <p class="small">${isLost ? t("no_data", { time: duration(silence) }) : said.more}${hold && html`<${Since} hold=${hold} isConnected=${isConnected} />`}</p></div>
      <span class="does">
        ${hold?.holder === "person" && html`<${Action} key=${`${hold.since} ${why(hold)}`} confirm=${[t("release_question"), why(hold)].filter(Boolean).join(" ")} disabled=${!isConnected}
          run=${() => call("hold/release", { since: hold.since, reason: hold.reason }).then(() => {})}>${t("release")}<//>`}
        ${count > 0 && html`<button onClick=${() => setOpen(true)} aria-haspopup="dialog">${count > 1 ? t("show_count", { count }) : t("show")}</button>`}
      </span>
      ${hold?.holder === "person" && !hold.reason && mayOperate() && html`<${Reason} />`}
    </section>`}
    ${isOpen && html`<${Loaded} load=${problems} environment=${environment} onClose=${() => setOpen(false)} />`}`;
}

const problems = imported(() => import("./wrong.js"), "ProblemSheet");

/** {head, more}: the sentence of the strip, and what helps. */
function words(state, { verdict, hold, unsafe, failure, isConnected }) {
  if (hold) return { head: t(!isConnected ? "held_before" : unsafe ? "held_unsafe" : "held"), more: [unsafe && sentence(unsafe), why(hold), failure && `${t("failure")}: ${sentence(failure)}`].filter(Boolean).join(" · ") };
  if (state === "lost") return { head: t("no_connection_now"), more: "" };
  if (state === "starting") return { head: t(verdict?.state === "starting" ? "verdict_starting" : "connecting"), more: "" };
  const { fields, effects } = verdict;
  if (state === "well") return { head: t("verdict_well"), more: fields.with_set_point ? t(fields.at_set_point === fields.with_set_point ? "verdict_at" : "verdict_approaching", fields) : t(verdict.code === "all_well_nothing_to_reach" ? "verdict_idle" : "verdict_free") };
  return { head: sentence(verdict), more: [verdict.remedy && sentence({ ...verdict, text: verdict.remedy }, "remedy"), effects > 0 && t("effects", { count: effects })].filter(Boolean).join(" ") };
}

function Since({ hold, isConnected }) {
  const now = useNow();
  if (!(hold.since > 0)) return null;
  return html` · ${isConnected ? t("since", { time: moment(hold.since), lasted: duration(now - hold.since) }) : moment(hold.since)}${hold.holder !== "person" && html`<br />${t("held_upgrade")}`}`;
}

const why = ({ reason, by }) => [reason, by && t("held_by", { name: authorName(by) })].filter(Boolean).join(", ");

/** The reason of a hold, if it has none yet. */
function Reason() {
  const [reason, setReason] = useState("");
  const give = (event) => {
    event.preventDefault();
    act(() => call("hold/set", { reason }).then(() => {})).then((isDone) => isDone && setReason("")); // the strip says it
  };
  return html`<form onSubmit=${give}>
    <input aria-label=${t("reason")} placeholder=${t("reason")} maxlength="200" required value=${reason} onInput=${(event) => setReason(event.target.value)} />
    <button>${t("save")}</button></form>`;
}
