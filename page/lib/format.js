/** Numbers, units and times as the user of this browser wants them. */
import { settings } from "./settings.js";

/** The browser's locales; before them one of the chosen language, if the browser has another first. */
const LOCALES = navigator.languages[0].startsWith(settings.language) ? navigator.languages : [settings.language, ...navigator.languages];
const SYMBOLS = { degC: "°C", percent: "%", lux: "lx", "umol/m2/s": "µmol/m²/s", "mol/m2": "mol/m²", "g/m3": "g/m³", "degC d": "°C d", index: "", plants: "", leaves: "", fraction: "%", switch: "" };
const DECIMALS = { lux: 0, "umol/m2/s": 0, pH: 2, "mS/cm": 2, kPa: 2 };
const IS_US = settings.units === "us";
const formats = new Map();

const isFahrenheit = (unit) => unit === "degC" && IS_US;
const isDegreeDays = (unit) => unit === "degC d" && IS_US;

/** The symbol of one of growd's units as it is shown: "degC" is "°C", or "°F" in US units. */
export const symbol = (unit) => (isFahrenheit(unit) ? "°F" : isDegreeDays(unit) ? "°F d" : SYMBOLS[unit] ?? unit);

/** A value of growd in the unit that is shown: a fraction in percent. */
export const shown = (value, unit) => (isFahrenheit(unit) ? value * 1.8 + 32 : isDegreeDays(unit) ? value * 1.8 : unit === "fraction" ? value * 100 : value);

/** A value in the unit that is shown, for growd. */
export const given = (value, unit) => (isFahrenheit(unit) ? (value - 32) / 1.8 : isDegreeDays(unit) ? value / 1.8 : unit === "fraction" ? value / 100 : value);

/** A number with so many decimals. */
export function number(value, decimals = 0) {
  if (!formats.has(decimals)) {
    formats.set(decimals, new Intl.NumberFormat(LOCALES, { minimumFractionDigits: decimals, maximumFractionDigits: decimals, signDisplay: "negative" }));
  }
  return formats.get(decimals).format(value);
}

/** The decimals of a variable with which people read it; growd stores more. */
export const decimals = ({ unit, precision }) => DECIMALS[unit] ?? Math.min(precision, 1);

/** How many decimals a number has, as one that was typed; undefined for one of a ramp, which has too many to show. */
export const decimalsIn = (value) => [0, 1, 2, 3].find((places) => Math.abs(value.toFixed(places) - value) < 1e-6);

/** A value with its unit: "23.4 °C"; a dash for null. */
export const quantity = (value, unit, decimals = 0) =>
  value === null || value === undefined ? "–" : `${number(shown(value, unit), decimals)} ${symbol(unit)}`;

/** A level from 0 to 1 in percent. */
export const percent = (level) => `${number(level * 100, level > 0 && level < 0.1 ? 1 : 0)} %`;

/** A difference of two values with its unit. */
export const difference = (value, unit) => `${number(shown(value, unit) - shown(0, unit), value % 1 ? 1 : 0)} ${symbol(unit)}`;

/** A number of bytes: "750 kB", "1.2 GB". */
export function bytes(count) {
  const power = Math.max(1, Math.min(4, Math.floor(Math.log10(Math.max(count, 1)) / 3)));
  return `${number(count / 1000 ** power, count < 100 * 1000 ** power ? 1 : 0)} ${["", "kB", "MB", "GB", "TB"][power]}`;
}

/** Seconds in words: "40 s", "3 min", "2 h 5 min", "4 d 3 h". */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) return `${s} s`;
  const minutes = Math.round(s / 60);
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
  const hours = Math.round(s / 3600);
  return `${Math.floor(hours / 24)} d${hours % 24 ? ` ${hours % 24} h` : ""}`;
}

// Times are those of the chamber's time zone on all views.
const HOURS = { hour: "2-digit", minute: "2-digit" };
const DATE = { day: "numeric", month: "short" };
const WEEKDAY = { weekday: "short", ...DATE };
let times = timesIn();

function timesIn(timeZone) {
  const format = (options, locales = LOCALES) => {
    const { format } = new Intl.DateTimeFormat(locales, { ...options, timeZone });
    return (time) => format(time * 1000);
  };
  return {
    clock: format(HOURS), second: format({ ...HOURS, second: "2-digit" }), day: format(DATE), month: format({ month: "short", year: "numeric" }), dated: format({ ...DATE, year: "numeric" }), date: format(WEEKDAY),
    moment: format({ ...WEEKDAY, ...HOURS }), plain: format({ dateStyle: "short", timeStyle: "medium" }, "sv-SE"), // as ISO 8601
  };
}

/** Show all times in a time zone, "Europe/Berlin" or "+01:00", from now on. Before, they are those of the browser. */
export function setZone(name) {
  try {
    times = timesIn(name);
  } catch {
    times = timesIn(); // the browser does not know it
  }
}

/** The time of day of a UNIX time. */
export const clock = (time) => times.clock(time);

/** The time of day of a UNIX time, with seconds. */
export const second = (time) => times.second(time);

/** The day of a UNIX time: "23 Nov". */
export const day = (time) => times.day(time);

/** Day, month and year of a UNIX time. */
export const dated = (time) => times.dated(time);

/** Month and year of a UNIX time. */
export const month = (time) => times.month(time);

/** The day of a UNIX time: "Mon 23 Nov". */
export const date = (time) => times.date(time);

/** Day and time of day of a UNIX time. */
export const moment = (time) => times.moment(time);

/** A UNIX time in ISO 8601 without a zone: "2026-11-23T02:40:09". */
const iso = (time) => times.plain(time).replace(" ", "T");

/** A UNIX time as the value of a field for date and time. */
export const local = (time) => iso(time).slice(0, 16);

const ahead = (time) => Date.parse(`${iso(time)}Z`) / 1000 - Math.floor(time);

/** The UNIX time of the value of a field for date and time. */
export function unix(text) {
  const utc = Date.parse(`${text}Z`) / 1000;
  return utc - ahead(utc - ahead(utc));
}

/** A Date whose members for the local time (getHours, ...) are those of the chamber. */
export const zoned = (time) => new Date(new Date(iso(time)).getTime() + (time % 1) * 1000);

/** Whether the browser's clock shows another time of day than the chamber's. */
export const isAbroad = (time) => ahead(time) !== -60 * new Date(time * 1000).getTimezoneOffset();

const PARTS = Object.fromEntries(new Intl.NumberFormat(LOCALES).formatToParts(12345.6).map(({ type, value }) => [type, value]));

/** The number that a person typed, in the browser's locale or with a decimal point; NaN if it is none. */
export function parseNumber(text) {
  const { group = "", decimal } = PARTS;
  let plain = text.replace(/[\s\u2019']/g, "").replace("−", "-");
  if (group.trim() && new RegExp(`^-?[1-9]\\d{0,2}([${group}]\\d{3})+([${decimal}]\\d*)?$`).test(plain)) plain = plain.replaceAll(group, "");
  plain = plain.replace(decimal, ".").replace(",", ".");
  return /^-?(\d+\.?\d*|\.\d+)$/.test(plain) ? Number(plain) : NaN;
}

/** A number as a person types it: without groups, and without more decimals than it has. */
export const typed = (value, decimals) => String(Number(value.toFixed(decimals))).replace(".", PARTS.decimal);
