/** Texts in the language of the browser: English, or German. */
import { STRINGS, VARIABLES } from "../strings.js";

const LANGUAGES = ["en", "de"];
const wanted = navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => LANGUAGES.includes(tag)) ?? "en";
const column = LANGUAGES.indexOf(wanted);

document.documentElement.lang = wanted;

/** A text by its key, in English where the language has none; {name} in it is replaced by `values.name`. */
export function t(key, values = {}) {
  const text = STRINGS[key]?.[column] ?? STRINGS[key]?.[0] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

/** The name of a variable for people; one without an entry is shown as growd writes it. */
export const variableName = (name) => VARIABLES[name]?.[column] ?? VARIABLES[name]?.[0] ?? name.replaceAll("_", " ");
