/** The third column of very wide screens: problems, the newest entries of the journal, the last photo. */
import { get } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { growdNow, useTopic } from "../lib/live.js";
import { href } from "../lib/route.js";
import { measuredText } from "./entries.js";
import { NewestPhoto } from "./now.js";
import { Problems } from "./wrong.js";

const MONTH = 31 * 86_400;
const FEW = 6;

export function Aside({ environment }) {
  const entries = useEntries(environment);
  const pictured = entries.find((each) => each.photos.length);
  return html`<${NewestPhoto} environment=${environment} isWhole /><section class="card"><h2>${t("further_problems")}</h2><${Problems} environment=${environment} isRest /></section>
    <section class="card"><h2><a href=${href(environment, "journal")}>${t("journal")}</a></h2>
      ${entries.length ? html`<ul class="plain">${entries.slice(0, FEW).map((each) => html`<li key=${each.id}><span class="small faint">${moment(each.time)}</span><br />
        ${[each.text, ...Object.entries(each.measurements).map(([name, value]) => measuredText(environment, name, value))].filter(Boolean).join(" · ")}</li>`)}</ul>`
        : html`<p class="faint">${t("no_entries")}</p>`}</section>
    ${pictured && html`<figure class="card picture"><img src=${pictured.photos[0].address} alt=${t("journal_photo_alt", { number: 1, what: pictured.text || moment(pictured.time) })} />
      <figcaption class="small faint">${moment(pictured.time)}</figcaption></figure>`}`;
}

/** The newest entries, asked for again after each note that comes. */
function useEntries(environment) {
  const [entries, setEntries] = useState([]);
  const newest = useTopic(`${environment}/notes`)?.number;
  useEffect(() => {
    const end = growdNow() + 60;
    get(`journal/${environment}?start=${end - MONTH}&end=${end}&limit=50`).then((answer) => setEntries(answer.entries), () => {});
  }, [environment, newest]);
  return entries;
}
