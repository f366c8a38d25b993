/** The form for an entry of the journal: a note, measurements and photos, which stay in it until growd has them. */
import { address, get, Refusal } from "../lib/api.js";
import { given, local, number, shown, unix } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { store } from "../lib/kept.js";
import { connection, growdTime, useChamber } from "../lib/live.js";
import { act, notify, NumberInput } from "../lib/parts.js";
import { reduced } from "../lib/photo.js";
import { author, rememberAuthor, session } from "../lib/session.js";
import { useSignal } from "../lib/signal.js";
import { unitOf } from "./entries.js";

const MOST_PHOTOS = 8;
const STALLED_MS = 30_000;
const AGAIN_MS = 5_000;

/** POST a form with files; `onProgress` gets the share that has been sent. Throws a `Refusal`. */
function upload(path, form, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch has no progress
    let stalled = 0;
    const alive = () => (clearTimeout(stalled), (stalled = setTimeout(() => request.abort(), STALLED_MS)));
    const fail = (key) => () => reject(new Refusal(t(key)));
    Object.assign(request, { responseType: "json", onerror: fail("no_connection"), onabort: fail("no_answer"), onloadend: () => clearTimeout(stalled) });
    request.onload = () => {
      const { status, response } = request;
      if (status < 300) resolve(response);
      else reject(new Refusal(response?.ERROR ?? response?.reason ?? t("bad_answer", { status }), status, response ?? {}));
    };
    request.upload.onprogress = ({ loaded, total }) => (alive(), onProgress(loaded / total));
    request.open("POST", address(path));
    request.setRequestHeader("X-CouchDB-WWW-Authenticate", "Cookie");
    request.send(form);
    alive();
  });
}

/** Whether growd has an entry that was sent without an answer: its time is that of no other. */
async function isKnown(environment, { time, text }) {
  const { entries } = await get(`journal/${environment}?start=${time - 1}&end=${time + 1}`);
  return entries.some((each) => Math.abs(each.time - time) < 1e-3 && each.text === text);
}

export function EntryForm({ environment, onSaved }) {
  const manual = useChamber(environment).variables.filter((each) => each.manual);
  const hasUser = useSignal(session)?.user;
  const place = `journal/${environment}/${hasUser ?? ""}`;
  const [{ text, figures }, setTyped] = useState(() => ({ text: "", figures: {}, ...JSON.parse(store?.getItem(place) ?? "{}") }));
  const [photos, setPhotos] = useState([]); // [{file, url}]
  const [time, setTime] = useState("");
  const [by, setBy] = useState(author);
  const [share, setShare] = useState(null); // that has been sent; null while nothing is sent
  const [lost, setLost] = useState(null); // the entry that growd has not answered
  const [doubted, setDoubted] = useState(null); // the photo whose removal was pressed once
  const [file, camera] = [useRef(), useRef()];
  const measured = manual.filter(({ variable }) => variable in figures);
  const type = (members) => {
    const typed = { text, figures, ...members };
    setTyped(typed);
    store?.setItem(place, JSON.stringify(typed)); // a phone may close the page while its camera is open
  };
  const choose = async ({ target }) => {
    const files = [...target.files];
    target.value = "";
    if (photos.length + files.length > MOST_PHOTOS) notify(t("journal_most_photos", { count: MOST_PHOTOS }), "bad");
    for (const each of files.slice(0, MOST_PHOTOS - photos.length)) {
      const small = await reduced(each);
      setPhotos((all) => [...all, { file: small, url: URL.createObjectURL(small) }]);
    }
  };
  const remove = (gone) => {
    setDoubted(null);
    URL.revokeObjectURL(gone.url);
    setPhotos((all) => all.filter((each) => each !== gone));
  };
  const send = async (again) => {
    const measurements = Object.fromEntries(measured.map(({ variable, unit }) => [variable, given(figures[variable], unit)]));
    const entry = again ?? { text: text.trim(), ...(!hasUser && { by }), time: time ? unix(time) : growdTime.value - 1, measurements };
    let isLost = false;
    const work = async () => {
      try {
        if (again && (await isKnown(environment, again))) return;
        const form = new FormData();
        form.append("entry", JSON.stringify(entry));
        for (const photo of photos) form.append("photo", photo.file, "photo");
        await upload(`journal/${environment}`, form, setShare);
      } catch (refusal) {
        if (refusal.status !== 0) throw refusal;
        isLost = true;
      }
    };
    setLost(null);
    setShare(0);
    const isSaved = await act(work);
    setShare(null);
    if (isLost) return setLost(entry);
    if (!isSaved) return undefined;
    notify(t("journal_saved")); // growd has answered: it is on the disk
    if (!hasUser) rememberAuthor(by);
    store?.removeItem(place);
    photos.forEach(remove);
    setTyped({ text: "", figures: {} });
    setTime("");
    return onSaved();
  };
  useEffect(() => {
    if (!lost) return undefined;
    const timer = setInterval(() => connection.value.isConnected && send(lost), AGAIN_MS);
    return () => clearInterval(timer);
  }, [lost]);
  const isEmpty = !text.trim() && !measured.length && !photos.length;
  const labelOf = (variable, unit) => [variableName(variable), unit === "switch" ? "(0, 1)" : unitOf(unit) && `(${unitOf(unit)})`].filter(Boolean).join(" ");
  const wrong = measured.filter(({ variable }) => !Number.isFinite(figures[variable]));
  const field = (name, set, value, more) => html`<label>${name} <input value=${value} onInput=${({ target }) => set(target.value)} ...${more} /></label>`;
  return html`<form class="card entry" onSubmit=${(event) => (event.preventDefault(), send())}>
    <fieldset disabled=${share !== null || lost !== null}>
      <label>${t("journal_note")} <textarea maxlength="2000" rows="3" value=${text} onInput=${({ target }) => type({ text: target.value })}></textarea></label>
      ${measured.map(({ variable, unit, precision, minimum, maximum }) => html`<div class="row" key=${variable}>
        <label>${labelOf(variable, unit)} <${NumberInput} required value=${figures[variable]} decimals=${precision}
          least=${shown(minimum, unit)} most=${shown(maximum, unit)} onNumber=${(value) => type({ figures: { ...figures, [variable]: value } })} /></label>
        <button type="button" class="quiet" aria-label=${t("journal_remove", { name: variableName(variable) })} onClick=${() => type({ figures: Object.fromEntries(Object.entries(figures).filter(([name]) => name !== variable)) })}>✕</button></div>`)}
      ${wrong.map(({ variable, unit, precision, minimum, maximum }) => html`<p key=${variable} class="small warn">${t("journal_fill", { name: variableName(variable),
        range: t(precision > 0 ? "range" : "range_whole", { least: number(shown(minimum, unit)), most: number(shown(maximum, unit)) }) })}</p>`)}
      ${photos.length > 0 && html`<div class="photos">${photos.map((each, i) => html`<span key=${each.url}><img src=${each.url} alt=${t("journal_photo", { number: i + 1 })} />
        <button type="button" class="quiet" aria-label=${t("journal_remove", { name: t("journal_photo", { number: i + 1 }) })} onClick=${() => (doubted === each ? remove(each) : setDoubted(each))}>${doubted === each ? t("journal_sure") : "✕"}</button></span>`)}</div>`}
      <div class="row">
        <select aria-label=${t("journal_add")} value="" onChange=${({ target }) => target.value && type({ figures: { ...figures, [target.value]: null } })}>
          <option value="">+ ${t("journal_add")} …</option>
          ${manual.filter((each) => !measured.includes(each)).map(({ variable }) => html`<option value=${variable}>${variableName(variable)}</option>`)}
        </select>
        <button type="button" onClick=${() => file.current.click()}>+ ${t("journal_file")}</button>
        <button type="button" class="touch" onClick=${() => camera.current.click()}>${t("journal_camera")}</button>
        <input ref=${file} type="file" accept="image/*" multiple hidden onChange=${choose} />
        <input ref=${camera} type="file" accept="image/*" capture="environment" hidden onChange=${choose} />
      </div>
      <div class="row">
        ${field(t("journal_time"), setTime, time, { type: "datetime-local", max: local(growdTime.value) })}
        ${!hasUser && field(t("journal_by"), setBy, by, { autocomplete: "name", maxlength: 100 })}
        <button class="primary" disabled=${isEmpty || wrong.length > 0}>${t("save")}</button>
      </div>
    </fieldset>
    ${share !== null && html`<progress value=${share} aria-label=${t("journal_sending")}></progress>`}
    ${lost && html`<p class="bar warn" role="status">${t("journal_lost")} <button type="button" onClick=${() => setLost(null)}>${t("journal_edit")}</button></p>`}
  </form>`;
}
