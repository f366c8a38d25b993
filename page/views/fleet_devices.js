/** The devices of a fleet: counts, search, filters, and a card for each, those with problems first. */
import { duration, moment, number, quantity, symbol } from "../lib/format.js";
import { receiverTime } from "../lib/fleet_list.js";
import { html, useEffect, useId, useMemo, useRef, useState } from "../lib/html.js";
import { switchState, t, variableName } from "../lib/i18n.js";

const STATES = ["failure", "silent", "warning", "new", "ok", "revoked"]; // in this order
const MARKS = { failure: "✖", warning: "▲", silent: "◌", new: "＋", ok: "✓", revoked: "⊘" };
const STYLES = { failure: "bad", warning: "warn", silent: "warn", new: "", ok: "", revoked: "faint" };
const PAGE = 48; // cards at once: each has many elements
const LATE_S = 360; // growd reports each five minutes at least
const SANE_S = 1_420_070_400; // 2015; a clock that was not set is earlier
const ID_PART = 4; // characters of an id that are meant as such
const ALERTS = 5; // of a device
const MOST_TEXT = 300; // characters of an alert
const MOST_VALUE = 40; // characters of a value
const HUGE = 1e9; // no room for all digits of such a number
const WHOLE = ["lux", "ppm", "percent"]; // units that are shown without decimals

const collator = new Intl.Collator(navigator.languages, { numeric: true });

export function Devices({ devices }) {
  const [state, setState] = useState("");
  const [group, setGroup] = useState("");
  const [search, setSearch] = useState("");
  const [most, setMost] = useState(PAGE);
  const all = useMemo(() => sorted(devices), [devices]);
  const groups = useMemo(() => [...new Set(devices.map((each) => each.group).filter(Boolean))].sort(collator.compare), [devices]);
  const words = plain(search).split(/\s+/).filter(Boolean);
  const inGroup = all.filter(({ device, text }) => (!group || device.group === group) && words.every((word) => text.includes(word) || (word.length >= ID_PART && device.device.includes(word))));
  const found = inGroup.filter(({ device }) => !state || device.state === state);
  useEffect(() => setMost(PAGE), [state, group, search]);
  const list = useRef();
  const more = () => {
    setMost(most + PAGE);
    setTimeout(() => list.current.children[most]?.querySelector("h2").focus());
  };
  const count = (name) => inGroup.filter(({ device }) => device.state === name).length;
  return html`
    <div class="fleet_bar">
      <div class="row" role="group" aria-label=${t("fleet_states")}>
        <${Count} name=${t(inGroup.length === 1 ? "fleet_one" : "fleet_all")} mark="" count=${inGroup.length} isOn=${!state} onClick=${() => setState("")} />
        ${STATES.filter((each) => each === state || count(each)).map((each) => html`<${Count} key=${each} name=${t(count(each) === 1 && each !== "silent" ? `fleet_is_${each}` : `fleet_${each}`)} mark=${MARKS[each]}
          style=${STYLES[each]} count=${count(each)} isOn=${state === each} onClick=${() => setState(state === each ? "" : each)} />`)}
      </div>
      <input type="search" aria-label=${t("fleet_search")} placeholder=${t("fleet_search_hint")} value=${search} onInput=${({ target }) => setSearch(target.value)} />
      ${groups.length > 0 && html`<select aria-label=${t("fleet_group")} value=${group} onChange=${({ target }) => setGroup(target.value)}>
          <option value="">${t("fleet_groups")}</option>
          ${groups.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
        </select>`}
    </div>
    <p class="hidden" role="status">${t("fleet_found", { count: number(found.length) })}</p>
    ${!found.length && html`<p>${t(devices.length ? "fleet_none_found" : "fleet_empty")}</p>`}
    <ul class="fleet" ref=${list}>${found.slice(0, most).map(({ device }) => html`<li key=${device.device}><${Device} of=${device} words=${words} /></li>`)}</ul>
    ${found.length > most && html`<button onClick=${more}>${t("fleet_more", { count: number(Math.min(PAGE, found.length - most)), left: number(found.length - most) })}</button>`}`;
}

const Count = ({ name, mark, style = "", count, isOn, onClick }) =>
  html`<button class=${`fleet_count ${count ? style : ""}`} aria-pressed=${isOn} onClick=${onClick}><strong>${number(count)}</strong> ${mark && html`<span aria-hidden="true">${mark}</span> `}${name}</button>`;

/** The devices with the text in which a search looks, those with problems first. */
function sorted(devices) {
  const rank = (device) => STATES.indexOf(device.state);
  return devices.map((device) => ({ device, text: textOf(device) }))
    .sort((a, b) => rank(a.device) - rank(b.device) || collator.compare(a.device.name, b.device.name));
}

function textOf({ name, group, version, alerts, environments }) {
  const places = Object.entries(environments).flatMap(([place, { recipe, values }]) => [place, recipe, ...Object.keys(values ?? {}).flatMap(namesOf)]);
  return plain([name, group, version, ...alerts.map(({ text }) => text), ...places].join("\n"));
}

const plain = (text) => text.normalize("NFKC").toLowerCase(); // CO₂ is found as co2
const namesOf = (variable) => [variable, variableName(variable)];
const isMeant = (variable, words) => words.some((word) => namesOf(variable).some((name) => plain(name).includes(word)));

function Device({ of, words }) {
  const id = useId();
  const { state, received } = of;
  const passed = receiverTime() - received;
  const age = received ? duration(passed) : "";
  const isOld = ["silent", "revoked"].includes(state) || (received > 0 && passed > LATE_S);
  const lag = Object.entries(of.lag ?? {}).filter(([, documents]) => documents !== 0);
  return html`<article class=${`card device_card ${isOld ? "is_old" : ""}`} aria-labelledby=${id}>
    <div class="row spread"><h2 id=${id} tabindex="-1">${address(of.api) ? html`<a href=${address(of.api)} rel="noreferrer">${of.name}</a>` : of.name}</h2>
      <span class=${`badge ${STYLES[state]}`}>${MARKS[state]} ${t(`fleet_is_${state}`, { time: age })}</span></div>
    <p class="small faint">${dotted([of.group, of.device, of.version && t("fleet_version", { version: of.version }),
      received ? t("fleet_reported", { time: age }) : t("fleet_never"), of.points_waiting > 0 && t("fleet_waiting", { count: number(of.points_waiting) }),
      ...lag.map(([name, documents]) => t("fleet_lag", { name, count: documents === null ? "?" : number(documents) }))])}</p>
    ${of.alerts.length > 0 && html`<ul class="fleet_alerts small">${of.alerts.slice(0, ALERTS).map(({ severity, text, since }) => html`<li class=${severity === "critical" ? "bad" : severity === "warning" ? "warn" : ""}>
      ${severity === "critical" ? "✖" : severity === "warning" ? "▲" : "•"} <bdi>${cut(text, MOST_TEXT)}</bdi> ${isSane(since) && html`<span class="faint">${t("fleet_since", { time: moment(since) })}</span>`}</li>`)}
      ${of.alerts.length > ALERTS && html`<li>${t("fleet_alerts_more", { count: number(of.alerts.length - ALERTS) })}</li>`}</ul>`}
    ${isOld && received > 0 && html`<p class="small"><strong>${t("fleet_old", { time: moment(received) })}</strong></p>`}
    ${Object.entries(of.environments).map(([place, environment], _, { length }) => html`<${Place} key=${place} name=${length > 1 ? place : ""} of=${environment} words=${words} passed=${passed} />`)}
  </article>`;
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);

/** Texts in a row. Each stands for itself: what a device wrote changes no direction of the others. */
const dotted = (texts) => texts.filter(Boolean).map((text, index) => html`${index ? " · " : ""}<bdi>${text}</bdi>`);

/** Whether a device can have written this UNIX time with a clock that was set. */
const isSane = (time) => time > SANE_S && time < receiverTime() + 86_400;

/** The address of the device's own page; "" if it is unknown, no web address, one with a login, or one that only the device itself reaches. */
function address(api) {
  try {
    const url = new URL(api);
    if (isLoopback(url.hostname) && !isLoopback(location.hostname)) return "";
    return /^https?:$/.test(url.protocol) && !url.username && !url.password ? url.href.replace(/api\/[\d.]+\/?$/, "") : "";
  } catch {
    return "";
  }
}

const isLoopback = (host) => /^(localhost|127\..*|\[::1\]|0\.0\.0\.0)$/.test(host);

function Place({ name, of, words, passed }) {
  const values = Object.entries(of.values ?? {});
  const meant = values.filter(([variable]) => isMeant(variable, words));
  const isHeld = ["waiting", "paused"].includes(of.state);
  const left = (of.remaining_s ?? 0) - (isHeld ? 0 : passed); // it went on since the report
  return html`<div class="fleet_place">
    <p class="small">${name && html`<strong><bdi>${name.replaceAll("_", " ")}</bdi></strong> · `}${of.recipe
      ? dotted([of.recipe, isHeld && t(`run_${of.state}`), of.phase, left > 0 && t("run_left", { time: duration(left) })]) : t("run_idle")}</p>
    <dl class="fleet_values">${(meant.length ? meant : values).map(([variable, value]) => html`<div key=${variable}>
      <dt>${variableName(variable)}</dt><dd>${measured(variable, value)}${setPoint(variable, value)}</dd></div>`)}</dl>
  </div>`;
}

function measured(variable, { value, quality = "ok", unit = "" }) {
  if (quality === "ok" && value !== null && value !== undefined) return html`<bdi class="number">${shown(variable, value, unit)}</bdi>`;
  if (!quality) return "–"; // only set or driven, not measured
  return html`<span class="warn">– ${t(`quality_${quality === "ok" ? "stale" : quality}`)}</span>`;
}

const setPoint = (variable, { set_point: wanted, unit = "" }) =>
  wanted !== null && wanted !== undefined && html` <span class="faint small"><span aria-hidden="true">→</span><span class="hidden">${t("set_point")}</span> <bdi>${shown(variable, wanted, unit)}</bdi></span>`;

function shown(variable, value, unit) {
  if (typeof value === "boolean" || unit === "switch") return switchState(variable, value);
  if (typeof value !== "number") return cut(`${value} ${symbol(unit)}`.trim(), MOST_VALUE);
  if (Math.abs(value) >= HUGE) return cut(`${value.toExponential(1)} ${symbol(unit)}`, MOST_VALUE);
  if (unit === "pH") return number(value, 2); // the name says it
  return quantity(value, unit, WHOLE.includes(unit) || unit === "fraction" ? 0 : ["mS/cm", "kPa"].includes(unit) ? 2 : 1);
}
