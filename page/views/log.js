/** The last warnings and errors of growd's log, by device. */
import { get } from "../lib/api.js";
import { moment, second } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { growdTime, status } from "../lib/live.js";

const EVERY_MS = 15_000;

export function Log() {
  const [records, setRecords] = useState(null);
  const [failure, setFailure] = useState("");
  const [device, setDevice] = useState("");
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    const ask = () => get("node/log").then((answer) => (setRecords(answer.records), setFailure("")), (refusal) => setFailure(refusal.message));
    ask();
    const timer = setInterval(() => document.hidden || ask(), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  if (!records) return html`<p>${failure || t("loading")}</p>`;
  const devices = [...new Set(records.map((each) => each.device).filter(Boolean))].sort();
  const shown = records.filter((each) => !device || each.device === device).toReversed();
  return html`<section class="card log">
    ${failure && html`<p class="bar warn" role="status">${failure}</p>`}
    <div class="row spread">
      <label>${t("log_device")} <select value=${device} onChange=${({ target }) => setDevice(target.value)}>
        <option value="">${t("log_all")}</option>${devices.map((each) => html`<option key=${each}>${each}</option>`)}</select></label>
      ${shown.length > 0 && html`<button onClick=${async () => setCopied(await copy(report(shown)))}>${t(isCopied ? "log_copied" : "log_copy")}</button>`}
    </div>
    ${document.documentElement.lang !== "en" && html`<p class="small faint">${t("log_english")}</p>`}
    ${shown.length ? html`<ul class="plain">${shown.map((each) => html`<${Entry} key=${`${each.time} ${each.message}`} record=${each} />`)}</ul>` : html`<p>${t("log_none")}</p>`}
  </section>`;
}

function Entry({ record: { time, level, device, message, traceback } }) {
  return html`<li><span class=${level === "error" ? "bad" : "warn"}>${t(level === "error" ? "failure" : "warning")}</span>
    <span class="small faint"> ${moment(time)}:${second(time).slice(-2)}${device && ` · ${device}`}</span><br /><span lang="en">${message}</span>
    ${traceback && html`<details><summary class="small">${t("log_details")}</summary><pre lang="en">${traceback}</pre></details>`}</li>`;
}

/** What a maintainer needs: the version, the time and the records, oldest first, in plain text. */
function report(records) {
  const line = ({ time, level, logger, device, environment, message, traceback }) =>
    [`${new Date(time * 1000).toISOString()} ${level.toUpperCase()} ${logger} ${[environment, device].filter(Boolean).join("/")}: ${message}`, traceback].filter(Boolean).join("\n");
  return [`growd ${status.value?.machine?.growd_version ?? ""}, ${new Date(growdTime.value * 1000).toISOString()}, ${navigator.userAgent}`, ...records.toReversed().map(line)].join("\n");
}

/** Put a text on the clipboard; without HTTPS there is only the old way. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(field);
    field.select();
    const isDone = document.execCommand("copy");
    field.remove();
    return isDone;
  }
}
