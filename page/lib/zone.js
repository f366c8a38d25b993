/** Times in the time zone of the chamber, which recipes mean by a time of day. */
const zones = new Map();

/** {clock, day, moment, text, unix, isHere} of a zone such as "Europe/Berlin"; without a name of the browser's. */
export function zoneOf(name) {
  if (!zones.has(name)) zones.set(name, made(name));
  return zones.get(name);
}

function made(timeZone) {
  const format = (locales, options) => {
    const { format } = new Intl.DateTimeFormat(locales, { ...options, timeZone });
    return (time) => format(time * 1000);
  };
  const here = (options) => format(navigator.languages, options);
  const time = { hour: "2-digit", minute: "2-digit" };
  const day = { weekday: "short", day: "numeric", month: "short" };
  const plain = format("sv-SE", { dateStyle: "short", timeStyle: "medium" });

  /** "2026-11-23T02:40:09", as inputs of type datetime-local have it. */
  const text = (time) => plain(time).replace(" ", "T");
  const ahead = (time) => Date.parse(`${text(time)}Z`) / 1000 - Math.floor(time);
  /** The UNIX time of such a text. */
  const unix = (text) => {
    const local = Date.parse(`${text}Z`) / 1000;
    return local - ahead(local - ahead(local));
  };
  const isHere = (time) => ahead(time) === -60 * new Date(time * 1000).getTimezoneOffset();
  return { clock: here(time), day: here(day), moment: here({ ...day, ...time }), text, unix, isHere };
}
