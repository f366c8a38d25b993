/** Where the data are: database, outbox, retention, replications, disk; and how to get them. */
import { call, database, databaseAddress, DESIGN, get, key } from "../lib/api.js";
import { bytes, duration, local, moment, number, unix } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { growdNow, useChamber, useStatus } from "../lib/live.js";
import { Action, Facts } from "../lib/parts.js";

const POINTS = "environmental_data_point";
const EVENTS = "environmental_event";
const HOUR_S = 3_600;
const DAY_S = 24 * HOUR_S;
const AGAIN_MS = 30_000;

const lasted = (time) => duration(growdNow() - time);

export function Data({ environment }) {
  const status = useStatus();
  const { variables } = useChamber(environment);
  if (!status) return html`<p>${t("loading")}</p>`;
  return html`<div class="columns">
    <${Database} status=${status} />
    ${status.store && html`<${Outbox} status=${status} />`}
    <${Retention} environment=${environment} />
    <${Replications} all=${status.replications} machineTime=${status.machine_time} />
    <${Exports} environment=${environment} variables=${variables} />
    <${Everything} isCouch=${status.database?.kind !== "embedded"} />
  </div>`;
}

/** The number and size of the documents of two databases, and why they are not known. */
function useSizes(isReachable) {
  const [found, setFound] = useState({ sizes: [] });
  useEffect(() => {
    if (isReachable) Promise.all([POINTS, EVENTS].map((name) => database("GET", name))).then((sizes) => setFound({ sizes }), (refusal) => setFound({ sizes: [], refusal: refusal.message }));
  }, [isReachable]);
  return found;
}

function Database({ status: { database: found, machine, store } }) {
  const { sizes, refusal } = useSizes(found?.reachable);
  if (!found) return null;
  const size = sizes.reduce((sum, each) => sum + (each.sizes?.file ?? 0), 0);
  const uptime = machine?.growd_uptime_s ?? 0;
  const isFull = machine?.disk_free_bytes < 500e6;
  return html`<section class="card"><div class="row spread"><h3>${t("data_database")}</h3>
      <span class=${`badge ${found.reachable ? "" : "bad"}`}>${found.reachable ? `✓ ${t("data_reachable")}` : `✕ ${t("data_not_reachable")}`}</span></div>
    ${(found.reason ?? refusal) && html`<p class="small bad">${found.reason ?? refusal}</p>`}
    <${Facts} of=${[
      [t("data_kind"), `${found.kind} ${found.version ?? ""}`],
      [t("data_address"), found.address],
      [t("data_stored"), sizes.length > 0 && t("data_points", { points: number(sizes[0].doc_count), events: number(sizes[1].doc_count) })],
      [t("data_size"), size > 0 && bytes(size)],
      [t("data_rate"), uptime > HOUR_S && store && t("data_per_day", { points: number((store.shipped / uptime) * DAY_S) })],
      [t("devices_disk"), machine?.disk_bytes && html`<span class=${isFull ? "bad" : ""}>${t("devices_free", { free: bytes(machine.disk_free_bytes), size: bytes(machine.disk_bytes) })}</span>`],
    ]} />
    ${found.indexes?.map((each) => html`<label key=${each.database + each.design} class="small">${t("data_index", { database: each.database, left: number(each.left) })}
      ${each.seconds_left > 0 && `, ${duration(each.seconds_left)}`}<progress max="100" value=${each.percent} /></label>`)}
  </section>`;
}

function Outbox({ status: { store } }) {
  const trouble = store.saving || store.shipping;
  return html`<section class="card"><div class="row spread"><h3>${t("data_outbox")}</h3>
      <span class=${`badge ${trouble ? "bad" : ""}`}>${trouble ? `✕ ${t("data_stuck")}` : `✓ ${t("data_works")}`}</span></div>
    ${trouble && html`<p class="small bad">${trouble} ${store.since > 0 && `(${lasted(store.since)})`}</p>`}
    <${Facts} of=${[
      [t("data_waiting"), number(store.waiting)],
      [t("data_oldest"), store.oldest_at && t("ago", { time: lasted(store.oldest_at) })],
      [t("data_unsaved"), number(store.unsaved)],
      [t("data_shipped"), number(store.shipped)],
      [t("data_thinned"), store.thinned > 0 && number(store.thinned)],
      [t("data_lost"), store.dropped_ever > 0 && html`<b class="bad">${number(store.dropped_ever)} (${moment(store.dropped_at)})</b>`],
    ]} />
    <p class="small faint">${t("data_outbox_about")}</p>
    ${store.notices.map((text) => html`<p class="small warn">${text}</p>`)}
    ${store.rejected > 0 && html`<${Rejected} number=${store.rejected} />`}
  </section>`;
}

function Rejected({ number: count }) {
  const [points, setPoints] = useState(null);
  const list = async () => setPoints((await call("store/rejected", { limit: 100 })).results);
  return html`<p class="warn">${t("data_rejected", { count: number(count) })}</p>
    <div class="row"><${Action} run=${list}>${t("show")}<//><${Action} run=${() => call("store/retry_rejected").then((answer) => (setPoints(null), answer))}>${t("data_retry")}<//></div>
    ${points && html`<div class="scroll"><table class="small"><tbody>${points.map(({ point, reason, rejected_at: at }) => html`<tr key=${point._id}>
      <td>${moment(at)}</td><td>${point.environment}/${point.variable} = ${String(point.value)}</td><td>${reason}</td></tr>`)}</tbody></table></div>`}`;
}

/** {retention, rollups}: what these nodes say of themselves. */
function useKeeping() {
  const [found, setFound] = useState({});
  useEffect(() => {
    const ask = async () => {
      for (const name of ["retention", "rollups"]) await get(`node/${name}`).then((answer) => setFound((known) => ({ ...known, [name]: answer[name] })), () => {});
    };
    ask();
    const timer = setInterval(ask, AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return found;
}

/** Whether the chamber has measured points that are older than so many days; true if that is not known. */
function useIsDue(environment, days, isAsked) {
  const [isDue, setDue] = useState(false);
  useEffect(() => {
    if (!isAsked || !days) return;
    const end = key([environment, growdNow() - days * DAY_S]);
    const isMeasured = ({ value: { category, is_manual: isManual } }) => category === "measured" && !isManual;
    database("GET", `${POINTS}/${DESIGN}/_view/by_timestamp?reduce=false&limit=200&startkey=${key([environment])}&endkey=${end}`).then(({ rows }) => setDue(rows.some(isMeasured)), () => setDue(true));
  }, [environment, days, isAsked]);
  return isDue;
}

/** How long points are kept, and the room that they may take. */
function Retention({ environment }) {
  const { retention, rollups } = useKeeping();
  const isAhead = retention?.begins_at > growdNow();
  const isDue = useIsDue(environment, retention?.keep_days, isAhead);
  if (!retention && !rollups) return null;
  const { keep_days: days, used, needed, limit, begins_at: begin, waits_for: reason, retired, text } = retention ?? {};
  const left = rollups?.changes_left;
  const place = limit > 0 && t("data_of", { size: bytes(needed), limit: bytes(limit) });
  return html`<section class="card"><h3>${t("data_retention")}</h3>
    ${text && html`<p class="small bad" lang="en">${text}</p>`}
    ${isAhead && days !== 0 && (isDue || (limit > 0 && needed > limit)) && html`<p class="bar warn">${t("data_begins", { when: moment(begin) })}</p>`}
    ${reason && html`<p class="small warn">${t("data_unconfirmed")} <span lang="en">${reason}</span></p>`}
    <${Facts} of=${[
      [t("data_kept"), days !== undefined && (days ? t("data_days", { days: number(days) }) : t("data_for_ever"))],
      [t("data_room"), place && html`<meter max=${limit} value=${needed} aria-hidden="true"></meter> ${place}`],
      [t("data_used"), used > 0 && bytes(used)],
      [t("data_retired"), rollups?.retired_until > 0 ? t("data_before", { when: moment(rollups.retired_until) }) : rollups && t("data_nothing")],
      [t("data_retired_now"), retired > 0 && number(retired)],
      [t("data_rollups"), rollups && (rollups.looked_at ? t("data_rolled", { when: moment(rollups.looked_at) }) : left ? t("data_left", { left: number(left) }) : t("data_starting"))],
      [t("devices_error"), rollups?.fault && html`<span class="warn" lang="en">${rollups.fault}</span>`],
    ]} />
    <p class="small faint">${t("data_retention_about")}</p>
  </section>`;
}

const STATES = { running: "", failing: "bad" };

function Replications({ all, machineTime }) {
  return html`<section class="card"><h3>${t("data_replications")}</h3>
    ${!all.length && html`<p class="small faint">${t("data_no_replication")}</p>`}
    ${all.map((each) => html`<div key=${each.name}><div class="row spread"><b>${each.name}</b>
        <span class=${`badge ${STATES[each.state] ?? "warn"}`}>${each.state === "running" ? "✓" : "✕"} ${t(`data_${each.state}`)} ${duration(machineTime - each.since)}</span></div>
      <${Facts} of=${[
        [t("data_target"), `${each.source} → ${each.target}`],
        [t("data_lag"), each.lag === null ? "?" : number(each.lag)],
        [t("data_refused"), each.refused > 0 && number(each.refused)],
        [t("data_restarts"), each.restarts > 0 && number(each.restarts)],
        [t("devices_error"), each.last_error && `${each.last_error} (${duration(machineTime - each.last_error_time)})`],
      ]} /></div>`)}
  </section>`;
}

const COLUMNS = key(["time", "environment", "category", "variable", "value", "unit", "is_manual"]);
const csv = (name, view, from, to) => databaseAddress(`${name}/${DESIGN}/_list/csv/${view}?reduce=false&startkey=${key(from)}&endkey=${key(to)}&cols=${COLUMNS}`);

/** Links to the CSV of each variable, and of all. */
function Exports({ environment, variables }) {
  const now = Math.floor(growdNow() / 60) * 60 + 60;
  const [range, setRange] = useState(null);
  const { start, end } = range ?? { start: now - DAY_S, end: now };
  const field = (name, value) => html`<label>${t(`charts_${name}`)}<input type="datetime-local" value=${local(value)}
    onChange=${(event) => event.target.value && setRange({ start, end, [name]: unix(event.target.value) })} /></label>`;
  const link = (name, category, { variable }) => html`<a download=${`${variable}-${category}.csv`} aria-label=${`CSV ${variableName(variable)}: ${t(`data_${category}`)}`}
    href=${csv(name, "by_variable", [environment, category, variable, start], [environment, category, variable, end])}>CSV</a>`;
  const whole = (name, file) => html`<a download=${`${environment}-${file}.csv`} href=${csv(name, "by_timestamp", [environment, start], [environment, end])}>${t(`data_all_${file}`)}</a>`;
  return html`<section class="card"><h3>${t("data_export")}</h3>
    <div class="fields">${field("start", start)}${field("end", end)}</div>
    ${start >= end ? html`<p class="bad">${t("charts_order")}</p>` : html`
    <div class="scroll table" tabindex="0" role="region" aria-label=${t("data_export")}><table class="small exports"><thead><tr><th scope="col">${t("data_variable")}</th>${["measured", "desired", "commanded"].map((each) => html`<th scope="col" key=${each}>${t(`data_${each}`)}</th>`)}</tr></thead>
      <tbody>${[...variables].sort((one, other) => one.manual - other.manual).map((each) => html`<tr key=${each.variable}><th scope="row">${variableName(each.variable)}</th>
        <td>${(each.measured || each.manual) && link(POINTS, "measured", each)}</td>
        <td>${each.controlled && link(POINTS, "desired", each)}</td>
        <td>${each.controlled && link(EVENTS, "commanded", each)}</td></tr>`)}</tbody></table></div>
    <p class="row">${whole(POINTS, "points")} ${whole(EVENTS, "events")}</p>`}
  </section>`;
}

const COMMANDS = ["growd db export -o points.csv", "growd db export --wide --every 600 -o wide.csv", "growd db export --format parquet -o points.parquet"];

function Everything({ isCouch }) {
  const all = (name) => databaseAddress(`${name}/_all_docs?include_docs=true`);
  const links = [
    [all("recipes"), "data_recipes", "recipes.json"],
    [all("recipe_run"), "data_runs", "runs.json"],
    isCouch && [databaseAddress("_utils/"), "data_fauxton"],
    ["api/", "data_api"],
    ["metrics", "data_metrics"],
    ["health", "data_health"],
  ];
  return html`<section class="card"><h3>${t("data_more")}</h3>
    <ul>${links.filter(Boolean).map(([href, text, download]) => html`<li key=${text}><a href=${href} download=${download}>${t(text)}</a></li>`)}</ul>
    <p class="small">${t("data_terminal")}</p>
    <pre class="small">${COMMANDS.join("\n")}</pre>
    <p class="small">${t("data_backup")}</p>
    <pre class="small">growd backup FILE\ngrowd backup --verify FILE\ngrowd restore FILE</pre>
    <p class="small faint">${t("data_backup_about")}</p>
  </section>`;
}
