/** Who uses the page, and what they may do. */
import { database, get } from "./api.js";
import { store } from "./kept.js";
import { forgetLast } from "./last.js";
import { Signal } from "./signal.js";
import { restart } from "./live.js";

/** {access, user, role} as `GET session` answers; null before. */
export const session = new Signal(null);

const AUTHOR = "journal/author";

/** Who acts, for the record: the user, else the name that was given in the journal; "" if neither is known. */
export const author = () => session.value?.user || store?.getItem(AUTHOR) || "";
export const rememberAuthor = (name) => store?.setItem(AUTHOR, name);

const ROLES = ["reader", "operator", "admin"];
const has = (role) => ROLES.indexOf(session.value?.role) >= ROLES.indexOf(role);

export const mayOperate = () => has("operator");
export const mayAdminister = () => has("admin");

export async function askSession() {
  const answer = await get("session");
  if (JSON.stringify(answer) !== JSON.stringify(session.value)) session.value = answer;
}

/** Log in with a user of the database. Throws a `Refusal`. */
export async function logIn(name, password) {
  await database("POST", "_session", { name, password });
  await askSession();
  await restart();
}

export async function logOut() {
  await database("DELETE", "_session");
  forgetLast();
  location.reload(); // nothing that the user saw stays
}
