/** Values, levels and set points in words. */
import { decimals, decimalsIn, duration, percent, quantity, shown } from "./format.js";
import { html } from "./html.js";
import { switchState, t } from "./i18n.js";
import { useChamber, useNow, useStatus, useTopic, variableOf } from "./live.js";

const CURRENT_S = 3; // numbers that change between 0 and 2 only distract

/** What the status has about a variable: {measured, desired, commanded, hand_left_s, held_by, written, ...}. */
export const useVariable = (environment, name) =>
  useStatus()?.variables.find((each) => each.environment === environment && each.variable === name);

/** A level as people say it: "on", "open", "40 %". */
export function levelText(variable, level) {
  if (level === null || level === undefined) return t("unknown");
  if (variable.unit !== "switch") return percent(level);
  return switchState(variable.variable, level);
}

/** How old a value is, by growd's clock; it counts on while nothing comes. */
export function Age({ time }) {
  const now = useNow();
  const age = now - time;
  return html`<span class="age">${age < CURRENT_S ? t("just_now") : t("ago", { time: duration(age) })}</span>`;
}

/** Whether a variable is a share, which is shown in percent. */
export const isShare = (variable) => variable.unit === "fraction";

/** A set point with its unit, without needless decimals: "8,000 lx", "22.5 °C", "40 %". */
export function setPointText(variable, value) {
  if (variable.unit === "switch") return levelText(variable, Math.round(value));
  if (isShare(variable)) return percent(value);
  return quantity(value, variable.unit, Math.min(decimals(variable), decimalsIn(shown(value, variable.unit)) ?? Infinity));
}

/** The level that is really written to an output, or to the first one of a variable, in words; null if it is not known. */
export function useWritten(environment, name, device) {
  const { devices } = useChamber(environment);
  const output = device ?? devices.find((each) => each.role === "output" && each.kind !== "lamp" && each.variables.includes(name));
  const value = useTopic(output?.topics[0] ?? `${environment}/light_channels`)?.value;
  const lamp = { light_intensity_white: "x", light_intensity_red: "y", light_intensity_blue: "z" }[name];
  const isLamp = !output && name === "light_illuminance"; // of all channels the brightest
  const level = (output ? value : isLamp ? value && Math.max(value.x, value.y, value.z) : lamp && value?.[lamp]) ?? null;
  const variable = variableOf(environment, name);
  return { level, canDim: output?.can_dim ?? variable.unit !== "switch", text: levelText(output?.can_dim === false ? { ...variable, unit: "switch" } : variable, level) };
}
