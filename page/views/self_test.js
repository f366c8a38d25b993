/** The self-test of the outputs: its start, its progress, and the results of the last one. */
import { call } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { useStatus, useTopic } from "../lib/live.js";
import { Action } from "../lib/parts.js";
import { Said } from "../lib/verdict.js";

const MARKS = { passed: ["", "✓"], failed: ["bad", "✕"], not_tested: ["warn", "–"] };

export function SelfTest({ environment, devices }) {
  const { value: now } = useTopic(`${environment}/self_test`) ?? {};
  const others = useStatus().experiments.filter((each) => each.environment === environment);
  const [include, setIncluded] = useState([]);
  const asked = devices.filter((each) => ["valve", "dosing"].includes(each.class)); // others are tested unasked
  const choose = ({ target: { name, checked } }) => setIncluded(checked ? [...include, name] : include.filter((each) => each !== name));
  return html`<section class="card"><h3>${t("test")}</h3><p class="faint small">${t("test_about")}</p>
    ${now?.state === "running"
      ? html`<progress max="1" value=${now.progress} aria-label=${t("test_progress")} />
        <p class="row spread"><span><${Said} of=${now} /></span><${Action} class="bad" run=${() => call(`${environment}/self_test/stop`)}>${t("test_stop")}<//></p>`
      : html`${asked.length > 0 && html`<p class="row small">${t("test_include")} ${asked.map(({ name }) => html`<label key=${name}><input type="checkbox" name=${name} onChange=${choose} /> ${name}</label>`)}</p>`}
        <${Action} admin class="primary" disabled=${others.length > 0} confirm=${t("test_question")} run=${() => call(`${environment}/self_test/begin`, { include })}>${t("test_begin")}<//>`}
    ${now && html`<p class="small" role="status">${now.ended > 0 && html`${moment(now.ended)}: <${Said} of=${now} />`}</p>
      <ul class="plain">${now.results.map(({ name, outcome, reason, code, fields }) => html`<li key=${name}><div class="row spread"><b translate="no">${name}</b>
        <span class=${`badge ${MARKS[outcome][0]}`}>${MARKS[outcome][1]} ${t(`test_${outcome}`)}</span></div><div class="small"><${Said} of=${{ code, fields, text: reason }} /></div></li>`)}</ul>`}
  </section>`;
}
