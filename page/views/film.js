/** `Film`: the photos of the time that a chart shows, with a slider below the chart, and played as a time-lapse. */
import { day, second } from "../lib/format.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { useChamber } from "../lib/live.js";
import { addressOf, isLit, photosBetween } from "../lib/photos.js";
import { useSignal } from "../lib/signal.js";

const SETTLED_MS = 400; // of zoom and pan, before growd is asked
const FRAME_MS = 100;
const THUMB = 8; // px, half of the slider's
const MOST_FRAMES = 300; // of a film: 30 s

/** Nothing where no camera took a photo in the shown time; without photos of the dark, if there are others. The slider has the axis of the chart and moves its cursor. */
export function Film({ plots }) {
  const view = useSignal(plots.view);
  const cursor = useSignal(plots.cursor);
  useSignal(plots.drawn);
  const photos = usePhotos(plots.environment, view);
  const { devices } = useChamber(plots.environment);
  const cameras = useMemo(() => {
    const order = devices.map(({ name }) => name); // of the configuration, then those that were removed
    return [...new Set(photos.map((each) => each.camera))].sort((one, other) => (order.indexOf(one) + 1 || 99) - (order.indexOf(other) + 1 || 99));
  }, [photos, devices]);
  const [chosen, setCamera] = useState("");
  const [isPlaying, setPlaying] = useState(false);
  const camera = cameras.includes(chosen) ? chosen : cameras[0];
  const all = photos.filter((each) => each.camera === camera && each.time >= view.start && each.time <= view.end);
  const lit = all.filter(isLit);
  const frames = lit.length ? lit : all;
  const at = cursor === null ? frames.length - 1 : nearest(frames, cursor);
  usePlayer(isPlaying, frames, at, plots, () => setPlaying(false));
  if (!frames.length) return null;
  const photo = frames[at];
  const when = `${day(photo.time)} ${second(photo.time)}`;
  return html`<section class="film" aria-label=${t("photos")}>
    <input type="range" style=${plots.sides.map((px, i) => `margin-${["left", "right"][i]}: ${px - THUMB}px`).join(";")} min="0" max="1000" aria-label=${t("film_time")} aria-valuetext=${when} value=${(1_000 * (photo.time - view.start)) / (view.end - view.start)}
      onInput=${({ target }) => (setPlaying(false), plots.point(frames[nearest(frames, view.start + (target.value / 1_000) * (view.end - view.start))].time))}
      onKeyDown=${(event) => {
        const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
        if (!step) return;
        event.preventDefault(); // of 1000 steps most show the same photo
        plots.point(frames[Math.min(frames.length - 1, Math.max(0, at + step))].time);
      }} />
    <div class="row">
      <button aria-pressed=${isPlaying} disabled=${frames.length < 2} onClick=${() => setPlaying(!isPlaying)}>${t(isPlaying ? "film_stop" : "film_play")}</button>
      <span class="small" role=${isPlaying ? null : "status"}>${when} · ${t("film_count", { number: at + 1, count: frames.length })}</span>
      ${cameras.length > 1 && html`<select class="chip" aria-label=${t("film_camera")} value=${camera} onChange=${({ target }) => setCamera(target.value)}>${cameras.map((name) => html`<option key=${name}>${name}</option>`)}</select>`}
    </div>
    <a href=${addressOf(photo)} target="_blank" rel="noopener"><img src=${addressOf(photo, isPlaying)} width=${photo.width} height=${photo.height} alt=${t("photo_of", { time: when })} /></a>
  </section>`;
}

/** The photos of the view, oldest first; a view that follows now asks for the new ones only. */
function usePhotos(environment, view) {
  const [photos, setPhotos] = useState([]);
  const known = useRef({}); // those from `start` to `next` are there
  const { start, end } = view ?? {};
  const minute = Math.floor(end / 60); // a view that follows now moves each second
  const from = view?.follows ? Math.floor(start / 60) : start;
  useEffect(() => {
    if (!view) return undefined;
    let isEnded = false;
    const ask = async () => {
      const { start: first, next } = known.current;
      const isMore = start >= first && start <= next && end >= next;
      const begin = isMore ? next : start;
      const found = await photosBetween(environment, begin, end);
      if (isEnded) return;
      known.current = { start: isMore ? first : start, next: found.length ? found.at(-1).time + 0.001 : begin };
      setPhotos((before) => (isMore ? [...before, ...found] : found));
    };
    const timer = setTimeout(() => ask().catch(() => {}), SETTLED_MS); // the next minute asks again
    return () => {
      isEnded = true;
      clearTimeout(timer);
    };
  }, [environment, from, minute]);
  return photos;
}

/** Show one frame after another, each once its picture is there, until the last. */
function usePlayer(isPlaying, frames, at, plots, onEnd) {
  const place = useRef(at);
  place.current = at;
  useEffect(() => {
    if (!isPlaying) return undefined;
    let isEnded = false;
    const stride = Math.ceil(frames.length / MOST_FRAMES);
    const play = async () => {
      let next = place.current >= frames.length - 1 ? 0 : place.current;
      for (; next < frames.length && !isEnded; next += stride) {
        const picture = Object.assign(new Image(), { src: addressOf(frames[next], true) });
        await Promise.all([picture.decode().catch(() => {}), new Promise((done) => setTimeout(done, FRAME_MS))]); // one that was thinned is left out
        if (!isEnded) plots.point(frames[next].time);
      }
      if (!isEnded) onEnd();
    };
    play();
    return () => (isEnded = true);
  }, [isPlaying]);
}

/** The number of the photo that is nearest to a time. */
function nearest(photos, time) {
  let [low, high] = [0, photos.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (photos[middle].time < time) low = middle + 1;
    else high = middle;
  }
  return low > 0 && time - photos[low - 1].time < photos[low].time - time ? low - 1 : low;
}
