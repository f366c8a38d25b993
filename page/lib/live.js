/**
 * One stream for everything live, and the status.
 *
 * The stream has the topics that components use (`useTopic`). The page counts as connected while both the stream and
 * the status arrive: growd sends something at least each `HEARTBEAT_S`. All ages are by growd's clock.
 */
import { address, get, nameDatabases } from "./api.js";
import { setZone } from "./format.js";
import { useEffect } from "./html.js";
import { nameVariables } from "./i18n.js";
import { keepLast, lastState } from "./last.js";
import { Signal, useSignal } from "./signal.js";

const HEARTBEAT_S = 5;
const THROTTLE_S = 1;
const SILENT_S = 12; // a stream that is silent for longer is broken
const BROKEN_S = 5; // without a stream
const OLD_STATUS_S = 25;
const FIRST_S = 20; // for the first connection
const STATUS_MS = 5_000;
const STATUS_TIMEOUT_MS = 8_000; // less than the browser's six connections are ever in use: "all safe" needs one
const LONGEST_PAUSE_MS = 15_000;
const EVENT_MS = 200; // several events come at once
const TOGETHER_MS = 1_000; // messages of this time are shown together: a drawing costs more than all of them

/** What `GET node/status` answered last, null before; see daemon/growd/status/model.py. */
export const status = new Signal(null);

/** What each environment measures and drives, as `GET node/chambers` lists it; asked after each reconnection. */
export const chambers = new Signal([]);

/** {isConnected, silence}: the seconds since something arrived from growd; null while the first may still arrive. */
export const connection = new Signal({ isConnected: false, silence: null });

/** growd's time in UNIX seconds, each second. It may differ from the browser's, and run fast in a simulation. */
export const growdTime = new Signal(0);

/** Why growd wants a login, "" if it does not. */
export const needsLogin = new Signal("");

/** growd has another version of this page by now. */
export const isOutdated = new Signal(false);

const topics = new Map(); // name -> Signal of its last message
const users = new Map(); // name -> number of components
let known = null; // the names of all topics, null until growd has been asked
let stream = null;
let streamed = ""; // the topics of the open stream
let openedAt = 0; // when the stream was opened, by `now()`
let streamAt = 0; // when its last event came
let statusAt = 0;
let hasBegun = false; // it was connected once
let isRecalled = false; // what is shown comes from the browser
let asking = null;
let arrived = new Map(); // the last message of each topic that is not shown yet
let shownAt = 0;
let pause = 1_000;
let retry = 0;
let lent = 0; // requests for which the stream gave its connection away
let isCrowded = false; // a request has waited for a connection while the stream lived
let base = { growd: 0, local: 0, rate: 1 }; // growd's time at a local one, and how fast it runs

let slept = 0; // performance.now() stands still while the machine sleeps, and Date.now() jumps when it is set
let offset = Date.now() - performance.now();

/** Seconds since some time, sleep included. */
const now = () => (performance.now() + slept) / 1000;

/** growd's present time in UNIX seconds, counting on while nothing arrives; 0 before the first answer. */
export const growdNow = () => base.growd && base.growd + Math.max(0, now() - base.local) * base.rate;

/** Follow the stream and the status until the page is closed. */
export function begin() {
  refresh();
  keepLast(() => connection.value.isConnected && { status: status.value, environments: chambers.value, messages: [...topics].map(([name, { value }]) => [name, value]).filter(([, value]) => value) });
  setInterval(() => document.hidden || asking || needsLogin.value || refresh(), STATUS_MS);
  setInterval(watch, 1_000);
  const wake = () => (watch(), reconnect());
  // a browser has six connections to a server, and each open stream takes one: a hidden tab gives its own back
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : wake()));
  addEventListener("online", wake);
  addEventListener("pageshow", (event) => event.persisted && wake());
}

/** Ask for the status now, as after an action; not before an earlier request has been answered. */
export function refresh() {
  const mine = (asking = (asking ?? Promise.resolve()).then(ask).finally(() => asking === mine && (asking = null)));
  return mine;
}

/**
 * Do a request without the stream, which gives its connection to it: the tabs of a browser share six of them.
 *
 * Unless `isUrgent`, only where a request has waited for one before.
 */
export async function alone(request, isUrgent = true) {
  if (!isUrgent && !isCrowded) return request();
  lent += 1;
  close();
  try {
    return await request();
  } finally {
    lent -= 1;
    open();
  }
}

const askStatus = () => get("node/status", STATUS_TIMEOUT_MS);

async function ask() {
  try {
    const asked = alone(askStatus, false).catch((error) => {
      if (error.status || !stream || now() - streamAt > SILENT_S) throw error;
      isCrowded = true; // growd answers on the stream, so the request waited in the browser
      return alone(askStatus);
    });
    if (!known) await learn(asked); // at once, so that no view comes before the problems above it
    const answer = (await asked).status;
    statusAt = now();
    isRecalled = false;
    setClock(answer.time, answer.speed);
    status.value = answer;
    watch();
  } catch (error) {
    if (error.status === 401 || error.status === 403) {
      needsLogin.value = error.message;
      close();
    } else if (!error.status) recall();
  }
}

/** Without an answer to the first question: show what this browser has seen last, as old as it is. */
function recall() {
  const last = !statusAt && lastState();
  if (!last) return;
  streamAt = statusAt = now() - last.age;
  hasBegun = isRecalled = true;
  setZone(last.environments[0]?.time_zone);
  nameVariables(last.environments);
  chambers.value = last.environments;
  for (const [name, message] of last.messages) topic(name).value = message;
  setClock(last.status.time + last.age * last.status.speed, last.status.speed);
  status.value = last.status;
  watch();
}

/** What may be another after a restart of growd: topics, chambers, this page. */
async function learn(asked) {
  const [names, described] = await Promise.all([get("topic", STATUS_TIMEOUT_MS), get("node/chambers", STATUS_TIMEOUT_MS), asked]);
  needsLogin.value = "";
  nameDatabases(described.databases);
  setZone(described.environments[0]?.time_zone);
  nameVariables(described.environments);
  if (JSON.stringify(described.environments) !== JSON.stringify(chambers.value)) chambers.value = described.environments;
  known = new Set(names.results);
  for (const { environment } of described.environments) followEvents(`${environment}/events`);
  clearTimeout(want.timer);
  want.timer = setTimeout(open, 100); // with the topics of the view, which may be loading
  fetch(location.pathname, { headers: { Accept: "text/html" } }).then(async (answer) => {
    const digest = /page\/([0-9a-f]+)\/main\.js/.exec(await answer.text())?.[1];
    isOutdated.value = Boolean(answer.ok && digest && !import.meta.url.includes(`/${digest}/`));
  }).catch(() => {});
}

/** Ask for the status at each event, such as a hold of another client. */
function followEvents(name) {
  if (users.has(name)) return;
  users.set(name, 1);
  topic(name).follow(({ time }) => {
    if (time <= (status.value?.time ?? 0)) return;
    clearTimeout(followEvents.timer);
    followEvents.timer = setTimeout(refresh, EVENT_MS);
  });
}

/** After a login or logout: begin again. */
export function restart() {
  reset();
  return refresh();
}

/** The last message of a topic, {value, time, quality, node, number}; undefined without one. */
export function useTopic(name) {
  useEffect(() => want(name), [name]);
  return useSignal(topic(name));
}

/** The status, drawn again when it changes. */
export const useStatus = () => useSignal(status);

/** growd's time, drawn again each second. */
export const useNow = () => (useSignal(growdTime), growdNow());

/** An environment as `chambers` has it, drawn again when that changes; without it one that has nothing. */
export const useChamber = (environment) =>
  useSignal(chambers).find((each) => each.environment === environment) ?? { environment, variables: [], devices: [] };

/** {variable, names, group, unit, precision, minimum, maximum, measured, controlled, manual, reach, outputs} of a variable. */
export const variableOf = (environment, name) =>
  chambers.value.find((each) => each.environment === environment)?.variables.find((each) => each.variable === name) ??
  { variable: name, unit: "", precision: 2, outputs: [] };

/** The signal of a topic, for those who draw without a component. */
export function topic(name) {
  if (!topics.has(name)) topics.set(name, new Signal(undefined));
  return topics.get(name);
}

/** Have a topic in the stream until the returned function is called. */
export function want(name) {
  users.set(name, (users.get(name) ?? 0) + 1);
  clearTimeout(want.timer);
  want.timer = setTimeout(open, 50); // one new stream for all topics of a view
  return () => users.get(name) > 1 ? users.set(name, users.get(name) - 1) : users.delete(name);
}

function open() {
  if (!known || needsLogin.value || document.hidden || lent) return;
  const names = [...users.keys()].filter((name) => known.has(name)).sort();
  const wanted = names.map((name) => `topic=${encodeURIComponent(name)}`).join("&");
  if (!known.size || (stream && wanted === streamed)) return;
  close();
  streamed = wanted;
  const mine = (stream = new EventSource(address(`stream?throttle=${THROTTLE_S}&heartbeat=${HEARTBEAT_S}&${wanted}`)));
  openedAt = now();
  mine.onmessage = (event) => {
    if (stream !== mine) return;
    heard();
    if (!arrived.size) setTimeout(showArrived, Math.max(0, 1_000 * (shownAt - now()) + TOGETHER_MS));
    const message = JSON.parse(event.data);
    arrived.set(message.topic, message);
  };
  mine.addEventListener("heartbeat", () => stream === mine && heard());
  mine.onerror = () => stream === mine && again(); // growd may have others topics after a restart
}

function showArrived() {
  const messages = arrived;
  arrived = new Map();
  shownAt = now();
  for (const [name, message] of messages) topic(name).value = message;
}

function heard() {
  streamAt = now();
  pause = 1_000;
  if (!connection.value.isConnected) watch();
}

function close() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
}

function reset() {
  close();
  known = null;
}

/** Begin again after a growing pause. */
function again() {
  reset();
  retry = setTimeout(refresh, pause);
  pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
}

/** Begin again now, if something may have been missed. */
function reconnect() {
  if (needsLogin.value) return restart();
  if (!connection.value.isConnected) {
    pause = 1_000;
    reset();
  }
  open();
  return refresh();
}

function setClock(time, rate = 1) {
  base = { growd: time, local: now(), rate };
}

/** Each second: is the connection alive? */
function watch() {
  const jump = Date.now() - performance.now() - offset;
  offset += jump;
  if (jump > 2_000) slept += jump;
  growdTime.value = growdNow();
  const silence = now() - Math.min(streamAt, statusAt);
  const isConnected = Boolean(streamAt && statusAt) && !isRecalled && now() - streamAt <= (stream ? SILENT_S : BROKEN_S) && now() - statusAt <= OLD_STATUS_S;
  if (stream && now() - Math.max(streamAt, openedAt) > SILENT_S) again(); // a socket may be dead without an error
  hasBegun ||= isConnected;
  const before = connection.value;
  if (isConnected !== before.isConnected || !isConnected) {
    connection.value = { isConnected, silence: hasBegun || silence > FIRST_S ? Math.floor(silence) : null };
  }
}
