/** Texts in the language of the user: English, or German. Only one language is loaded. */
import { settings } from "./settings.js";

const LANGUAGES = ["en", "de"];
const wanted = [settings.language, ...navigator.languages].map((tag) => tag.slice(0, 2)).find((tag) => LANGUAGES.includes(tag)) ?? "en";
const texts = {};

document.documentElement.lang = wanted;

/** Load texts of the page, files of `texts/`. */
export const load = async (...parts) => {
  for (const { TEXTS } of await Promise.all(parts.map((part) => import(`../texts/${wanted}/${part}.js`)))) Object.assign(texts, TEXTS);
};

await load("frame");

/** A text by its key; {name} in it is replaced by `values.name`. Without a text it is the key. */
export const t = (key, values = {}) => (texts[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");

const names = {}; // of variables, as growd gives them

/** Call variables as growd does, which describes them in `node/chambers`. */
export function nameVariables(environments) {
  for (const each of environments.flatMap(({ variables }) => variables)) names[each.variable] = each.names[wanted];
}

/** The name of a variable for people; one that growd does not name is shown as growd writes it. */
export const variableName = (name) => names[name] ?? name.replaceAll("_", " ");

const STATES = [[/valve|door/, "open", "shut"], [/level/, "yes", "no"], [/./, "on", "off"]];

/** What people call the state of a variable that is on or off. */
export function switchState(variable, isOn) {
  const [, on, off] = STATES.find(([named]) => named.test(variable));
  return t(isOn ? on : off);
}
