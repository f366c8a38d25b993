/** Texts in the language of the user: English, or German. */
import { STRINGS } from "../frame_strings.js";
import { settings } from "./settings.js";

const LANGUAGES = ["en", "de"];
const wanted = [settings.language, ...navigator.languages].map((tag) => tag.slice(0, 2)).find((tag) => LANGUAGES.includes(tag)) ?? "en";
const column = LANGUAGES.indexOf(wanted);

document.documentElement.lang = wanted;

/** More texts, {key: [English, German]}, of a part of the page that is loaded when it is opened. */
export const addTexts = (texts) => Object.assign(STRINGS, texts);

/** A text by its key, in English where the language has none; {name} in it is replaced by `values.name`. */
export function t(key, values = {}) {
  const text = STRINGS[key]?.[column] ?? STRINGS[key]?.[0] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

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

/** Who did something, as growd has it: a name, or an address, of which that of this machine says nothing to people. */
export const person = (by) => (/^(127\.|::1$)/.test(by) ? t("setup_here") : by);
