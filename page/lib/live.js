/**
 * One stream for everything live, and the status.
 *
 * The stream has the topics that components have asked for with `useTopic`. Whether the page is connected follows
 * from what arrives: growd sends something at least each `HEARTBEAT_S`.
 */
import { address, get } from "./api.js";
import { useEffect } from "./html.js";
import { Signal, useSignal } from "./signal.js";

const HEARTBEAT_S = 5;
const THROTTLE_S = 1;
const SILENT_S = 12; // later than this the connection is taken for broken
const STATUS_MS = 5_000;
const LONGEST_PAUSE_MS = 15_000;

/** What `GET node/status` answered last, null before; see daemon/growd/status/model.py. */
export const status = new Signal(null);

/** What each environment measures and drives, as `GET node/chambers` lists it; asked after each reconnection. */
export const chambers = new Signal([]);

/** {isConnected, silence}: `silence` are the seconds since something arrived from growd. */
export const connection = new Signal({ isConnected: false, silence: 0 });

/** The newest time in UNIX seconds that growd has sent. Its clock may differ from ours, and run fast. */
export const growdTime = new Signal(0);

const topics = new Map(); // name -> Signal of its last message
let known = new Set(); // the names of all topics
let stream = null;
let streamed = ""; // the topics of the open stream
let heardAt = performance.now();
let pause = 1_000;
let retry = 0;

/** Follow the stream and the status until the page is closed. */
export function begin() {
  refresh();
  setInterval(() => document.hidden || refresh(), STATUS_MS);
  setInterval(watch, 1_000);
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
}

/** Ask for the status now, as after an action. */
export async function refresh() {
  try {
    if (!known.size) {
      const [topicNames, described] = await Promise.all([get("topic"), get("node/chambers")]);
      chambers.value = described.environments;
      known = new Set(topicNames.results);
      open();
    }
    const answer = (await get("node/status")).status;
    status.value = answer;
    heard(answer.time);
  } catch (error) {
    if (error.status === 401 || error.status === 403) needsLogin.value = error.message;
  }
}

/** Why growd wants a login, "" if it does not. */
export const needsLogin = new Signal("");

/** After a login: begin again. */
export function restart() {
  needsLogin.value = "";
  known = new Set();
  close();
  return refresh();
}

/** The last message of a topic, {value, time, quality, node, number}; undefined without one. */
export function useTopic(name) {
  useEffect(() => want(name), [name]);
  return useSignal(topic(name));
}

/** The status, drawn again when it changes. */
export const useStatus = () => useSignal(status);

/** An environment as `chambers` has it, drawn again when that changes; without it one that has nothing. */
export const useChamber = (environment) =>
  useSignal(chambers).find((each) => each.environment === environment) ?? { environment, variables: [], devices: [] };

/** {variable, unit, precision, minimum, maximum, measured, controlled, manual, reach, outputs} of a variable. */
export const variableOf = (environment, name) =>
  chambers.value.find((each) => each.environment === environment)?.variables.find((each) => each.variable === name) ??
  { variable: name, unit: "", precision: 2, outputs: [] };

/** The signal of a topic, for those who draw without a component. */
export function topic(name) {
  if (!topics.has(name)) topics.set(name, new Signal(undefined));
  return topics.get(name);
}

/** Add a topic to the stream. */
export function want(name) {
  topic(name);
  clearTimeout(want.timer);
  want.timer = setTimeout(open, 50); // one new stream for all topics of a view
}

function open() {
  const names = [...topics.keys()].filter((name) => known.has(name)).sort();
  const wanted = names.map((name) => `topic=${encodeURIComponent(name)}`).join("&");
  if (!names.length || (stream && wanted === streamed)) return;
  close();
  streamed = wanted;
  stream = new EventSource(address(`stream?throttle=${THROTTLE_S}&heartbeat=${HEARTBEAT_S}&${wanted}`));
  stream.onmessage = (event) => {
    const message = JSON.parse(event.data);
    heard(message.time);
    topic(message.topic).value = message;
  };
  stream.addEventListener("heartbeat", (event) => heard(JSON.parse(event.data).time));
  stream.onopen = () => (pause = 1_000);
  stream.onerror = () => {
    if (stream?.readyState === EventSource.CLOSED) reopen(); // the browser does not try again after a refusal
  };
}

function close() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
}

/** Open the stream again after a growing pause; the topics may be others after a restart of growd. */
function reopen() {
  close();
  known = new Set();
  retry = setTimeout(refresh, pause);
  pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
}

function heard(time) {
  heardAt = performance.now();
  if (time > growdTime.value) growdTime.value = time;
  if (!connection.value.isConnected) connection.value = { isConnected: true, silence: 0 };
}

/** Each second: is the connection alive? */
function watch() {
  const silence = Math.floor((performance.now() - heardAt) / 1000);
  if (silence <= SILENT_S) return;
  connection.value = { isConnected: false, silence };
  if (silence % SILENT_S === 0) reopen(); // a socket may be dead without an error
}
