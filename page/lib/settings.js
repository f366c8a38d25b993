/** Language, units and theme, as the user of this browser chose them; without a choice those of the browser, and SI. */
import { keep, kept } from "./kept.js";

const PLACE = "settings";

export const CHOICES = { language: ["", "en", "de"], units: ["si", "us"], theme: ["", "light", "dark"] };

/** {language, units, theme}, each one of `CHOICES`; "" is as the browser is. */
export const settings = Object.fromEntries(Object.entries(CHOICES).map(([key, all]) => [key, all.find((each) => each === kept(PLACE, {})[key]) ?? all[0]]));

document.documentElement.style.colorScheme = settings.theme;

/** Change settings and show the page with them. */
export function setSettings(change) {
  keep(PLACE, { ...settings, ...change });
  location.reload();
}
