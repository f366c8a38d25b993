/** The devices of the fleet, asked for at intervals, and the login for that. */
import { Refusal } from "./api.js";
import { nameVariables, t } from "./i18n.js";
import { Signal } from "./signal.js";

const HERE = location.origin + location.pathname;
const EVERY_MS = 15_000;
const TIMEOUT_MS = 30_000;
const KEPT = "growd/fleet"; // the login, until the tab is closed

/** {user, header}; null without a login. */
export const login = new Signal(kept());

/** `devices` as the receiver lists them, null before; `answered`: when, in ms; `problem` since then, "" if none. */
export const fleet = new Signal({ devices: null, answered: 0, problem: "" });

let ahead = 0; // ms that the receiver's clock is ahead of this one
let asking = null;
let timer = 0;

/** The receiver's time in UNIX seconds. */
export const receiverTime = () => (Date.now() + ahead) / 1000;

export async function begin() {
  await fetch(new URL("_variables", HERE)).then((answer) => answer.json()).then((named) => nameVariables([named])).catch(() => {});
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  addEventListener("online", refresh);
  refresh();
}

/** Log in. Throws a `Refusal`. */
export async function logIn(user, password) {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  const header = `Basic ${btoa(String.fromCharCode(...bytes))}`;
  take(await ask(header));
  login.value = { user, header };
  keep(login.value);
  later();
}

/** Forget the login and everything that was shown. */
export function logOut() {
  keep(null);
  location.reload();
}

async function refresh() {
  if (!login.value || asking) return;
  clearTimeout(timer);
  asking = ask(login.value.header);
  try {
    take(await asking);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    fleet.value = { ...fleet.value, problem: error.message };
    if (error.status === 401 || error.status === 403) {
      keep(null);
      login.value = null;
    }
  } finally {
    asking = null;
    later();
  }
}

/** Ask again in a while; a hidden tab asks when it is shown. */
function later() {
  clearTimeout(timer);
  timer = setTimeout(() => document.hidden || refresh(), EVERY_MS);
}

function take({ devices, time }) {
  ahead = time ? time - Date.now() : 0;
  fleet.value = { devices, answered: Date.now(), problem: "" };
}

async function ask(header) {
  let answer;
  try {
    answer = await fetch(new URL("_fleet", HERE), {
      headers: { Authorization: header },
      credentials: "omit", // the browser opens no dialog for a login
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const content = await answer.json().catch((error) => (answer.ok ? Promise.reject(error) : {}));
    if (answer.ok && Array.isArray(content.devices)) return { devices: content.devices, time: Date.parse(answer.headers.get("Date")) };
    const refusal = new Refusal(content.ERROR ?? t("fleet_bad_answer", { status: answer.status }), answer.status, content);
    refusal.retryAfter = answer.status === 429 ? Number(answer.headers.get("Retry-After")) || 0 : 0;
    throw refusal;
  } catch (error) {
    throw error instanceof Refusal ? error : new Refusal(t("fleet_no_answer"));
  }
}

function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT));
  } catch {
    return null; // the browser keeps nothing
  }
}

function keep(value) {
  try {
    if (value) sessionStorage.setItem(KEPT, JSON.stringify(value));
    else sessionStorage.removeItem(KEPT);
  } catch {
    // it holds until a reload then
  }
}
