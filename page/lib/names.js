/** Names for people in place of growd's paths. */
import { decimalsIn, difference, quantity } from "./format.js";
import { t, variableName } from "./i18n.js";
import { chambers } from "./live.js";

const ENDINGS = ["unknown", "no_rise", "no_fall", "minimum_on", "minimum_off", "on_too_long", "ml_per_hour", "ml_per_day", "not_confirmed"];

/** Names of interlocks. Those of a variable or an output are named after it; a condition has its own name. */
export function interlockName(path) {
  const name = path.split("/").pop();
  const known = t(`interlock_${name}`);
  if (known !== `interlock_${name}`) return known;
  if (name.startsWith("condition_")) return t("interlock_condition", { name: name.slice(10).replaceAll("_", " ") });
  if (name.includes("_or_")) return t("interlock_both", { name: name.split("_or_").map(variableName).join(" / ") });
  const ending = ENDINGS.find((each) => name.endsWith(`_${each}`));
  return ending ? t(`interlock_${ending}`, { name: variableName(name.slice(0, -ending.length - 1)) }) : name.replaceAll("_", " ");
}

/** What a device is called: a sensor after what it measures, an output after what it does. Several chambers are named too. */
export function deviceName(name) {
  const [device, place] = name.split(/: |\//).reverse();
  const found = chambers.value.filter(({ environment }) => !place || environment === place).flatMap(({ devices }) => devices).find((each) => each.name === device || (each.kind === "lamp" && each.variables.includes(`light_intensity_${device}`)));
  const [first] = found?.variables ?? [];
  const words = found?.role === "camera" ? t("camera_of", { name: device }) : !first ? variableName(device) : found.kind === "lamp" ? t("lamp") : found.role === "sensor" ? t("sensor_of", { name: variableName(first) }) : variableName(first);
  return place && chambers.value.length > 1 ? `${chamberName(place)}: ${words}` : words;
}

/** What a chamber is called. */
export const chamberName = (environment) => environment.replaceAll("_", " ").replace(/^./, (first) => first.toUpperCase());

/** Who did something: a name, an address, or somebody at the device itself. */
export const authorName = (by) => (/^(127\.|::1$)/.test(by) ? t("at_device") : by);

/** A sentence of growd with names in place of its paths and variables. */
export function readable(text) {
  const several = chambers.value.length > 1;
  const place = (environment) => (several ? `${chamberName(environment)}: ` : "");
  const variables = chambers.value.flatMap((each) => each.variables.map(({ variable }) => variable)).filter((name) => name.includes("_"));
  return inUnits(text).replace(/\bthe interlock (\w+)/g, (_, name) => interlockName(name))
    .replace(/\b(\w+)\/interlocks\/(\w+)/g, (_, environment, name) => place(environment) + interlockName(name))
    .replace(/\b(\w+)\/(?:actuators\/)?(\w+)/g, (all, environment, name) => (chambers.value.some((each) => each.environment === environment) ? place(environment) + name : all))
    .replace(new RegExp(`\\b(${variables.join("|") || "-"})\\b`, "g"), (name) => variableName(name));
}

const UNITS = /(\b(?:by|within|of|least) )?(-?\d+(?:\.\d+)?)( (?:to|and|-) (-?\d+(?:\.\d+)?))? (degC|°C|percent|%|lux|umol\/m2\/s|mol\/m2|g\/m3)(?![\w/])/g;

/** A sentence with values in the user's units; after "by" and the like a value is a difference. */
const inUnits = (text) => text.replace(UNITS, (_, before = "", value, and = "", other, unit) => {
  const own = unit.replace("°C", "degC");
  const say = (each) => (before.trim() && before !== "of " ? difference(Number(each), own) : quantity(Number(each), own, Math.min(1, decimalsIn(Number(each)) ?? 1)));
  return `${before}${say(value)}${and && and.replace(other, say(other))}`;
});
