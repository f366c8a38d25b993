/** The photos that cameras took. */
import { address, get } from "./api.js";
import { useEffect } from "./html.js";
import { useStatus, useTopic } from "./live.js";
import { Signal, useSignal } from "./signal.js";

const AGAIN_MS = 120_000;
const NIGHT = 150; // photos, in which a lit one is looked for
const PAGE = 1_000;
const MOST = 5 * PAGE;

const newest = new Map(); // environment -> Signal of its newest photo

/** The newest photo of an environment that is not of the dark, as `GET photos` describes it; null before, and without a camera. */
export function useNewestPhoto(environment) {
  if (!newest.has(environment)) newest.set(environment, new Signal(null));
  const photo = newest.get(environment);
  const isReady = Boolean(useStatus());
  const canopy = useTopic(`${environment}/measured/canopy_cover`)?.time; // comes with a photo
  useEffect(() => {
    if (!isReady) return undefined;
    const ask = async () => {
      const photosOf = async (limit) => (await get(`photos/${environment}?limit=${limit}`)).photos;
      const [last] = await photosOf(1);
      photo.value = last && !isLit(last) ? (await photosOf(NIGHT)).find(isLit) ?? last : last ?? null;
    };
    const again = () => document.hidden || ask().catch(() => {}); // the next one may be answered
    again();
    const timer = setInterval(() => photo.value && again(), AGAIN_MS);
    return () => clearInterval(timer);
  }, [environment, isReady, canopy]);
  return useSignal(photo);
}

/** Whether a photo shows more than darkness: only then growd looks for leaves. */
export const isLit = (photo) => photo.canopy_cover !== null;

/** The address of a photo, or of its preview. */
export const addressOf = ({ id }, isSmall = false) => address(`photo/${id}${isSmall ? "?small=true" : ""}`);

/** The photos between two times, oldest first; of very many the newest. */
export async function photosBetween(environment, start, end) {
  const found = [];
  for (let until = end; found.length < MOST; ) {
    const { photos, more } = await get(`photos/${environment}?${new URLSearchParams({ start, end: until, limit: PAGE })}`);
    found.push(...photos);
    if (!more || !photos.length) break;
    until = photos.at(-1).time;
  }
  return found.reverse();
}
