/** The last 24 hours of several variables, asked for at once, for the small lines of the first view. */
import { get } from "./api.js";
import { useEffect } from "./html.js";
import { growdNow, useStatus } from "./live.js";
import { Signal, useSignal } from "./signal.js";

const DAY = 86_400;
const POINTS = 100; // 15 minutes each
const AGAIN_MS = 900_000;
const RETRY_MS = 20_000;

const days = new Map(); // environment -> Signal of {start, end, series: {variable: answer}}

/** {start, end, series} of an environment, as `GET history` answers; null before. The last one is shown again at once. */
export function useDay(environment, names) {
  if (!days.has(environment)) days.set(environment, new Signal(null));
  const day = days.get(environment);
  const wanted = [...names].sort().join("&variable=");
  const isReady = Boolean(useStatus());
  useEffect(() => {
    if (!isReady || !wanted) return undefined;
    let timer = 0;
    const later = (pause) => (timer = setTimeout(ask, pause));
    const ask = () => get(`history/${environment}?variable=${wanted}&start=${growdNow() - DAY}&end=${growdNow()}&points=${POINTS}&events=false`).then((answer) => {
      day.value = { ...answer, series: Object.fromEntries(answer.series.map((each) => [each.variable, each])) };
      later(AGAIN_MS);
    }, () => later(RETRY_MS));
    ask();
    return () => clearTimeout(timer);
  }, [environment, wanted, isReady]);
  return useSignal(day);
}
