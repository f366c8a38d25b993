/** The form for a recipe of the format phased. */
import { given, shown, symbol } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { status } from "../lib/live.js";
import { NumberInput } from "../lib/parts.js";
import { Findings } from "./recipe_check.js";

const KINDS = ["daily", "course"];

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Whether the form can show a recipe. */
export const fitsForm = (recipe) =>
  isObject(recipe) && recipe.format === "phased" && Array.isArray(recipe.phases) && recipe.phases.every((phase) => isObject(phase) && KINDS.every((kind) =>
    isObject(phase[kind] ?? {}) && Object.values(phase[kind] ?? {}).every((points) => Array.isArray(points) && points.length && points.every(isObject))));

/** A recipe of the format phased; `change(work)` lets `work` edit a copy. */
export const Form = ({ recipe, change, findings, chamber }) => html`<div class="form">
  <div class="row">${["name", "description"].map((name) => html`<label>${t(`recipe_${name}`)}<br /><input class="wide" value=${recipe[name] ?? ""} onInput=${({ target }) => change((copy) => (copy[name] = target.value))} /></label>`)}</div>
  ${recipe.phases.map((phase, i) => html`<${Phase} key=${i} ...${{ phase, i, chamber }} findings=${findings.filter(({ pointer }) => `${pointer}/`.startsWith(`/phases/${i}/`))}
    change=${(work) => change(({ phases }) => work(phases[i], phases))} />`)}
  <${Findings} findings=${findings.filter(({ pointer }) => !/^\/phases\/\d/.test(pointer))} />
  <button onClick=${() => change(({ phases }) => phases.push({ ...structuredClone(phases.at(-1)), name: "" }))}>+ ${t("recipe_add_phase")}</button>
</div>`;

function Phase({ phase, i, change, findings, chamber }) {
  const tracks = KINDS.flatMap((kind) => Object.entries(phase[kind] ?? {}).map(([variable, points]) => ({ kind, variable, points, place: `/phases/${i}/${kind}/${variable}/` })));
  const isIn = ({ pointer }, { place }) => `${pointer}/`.startsWith(place);
  const set = (name) => (value) => change((copy) => (copy[name] = value ?? undefined));
  const field = (name, label, more) => html`<${Field} name=${label} value=${phase[name]} set=${set(name)} wrong=${isWrong(findings, `/phases/${i}/${name}`)} ...${more} />`;
  const add = ({ target }) => {
    const [kind, variable] = target.value.split("/");
    if (kind) change((copy) => ((copy[kind] ??= {})[variable] = [{ at: kind === "daily" ? "06:00" : 0, value: present(chamber, variable) }]));
    target.value = "";
  };
  return html`<fieldset><legend>${t("recipe_phase_number", { number: i + 1 })}</legend>
    <div class="row">
      <label>${t("recipe_name")}<br /><input value=${phase.name ?? ""} onInput=${({ target }) => set("name")(target.value)} /></label>
      ${field("duration", "lasts")}
      ${field("time_units", "unit", { of: ["days", "hours", "minutes", "seconds"] })}
      ${phase.course && field("cycle", "cycle")}
      ${field("otherwise", "otherwise", { of: ["hold", "release"], prefix: "otherwise_", value: phase.otherwise ?? "hold" })}
    </div>
    <${Findings} findings=${findings.filter((each) => !tracks.some((track) => isIn(each, track)))} />
    ${tracks.map((track) => html`<${Track} key=${track.place} ...${track} findings=${findings.filter((each) => isIn(each, track))} about=${chamber.variables.find((each) => each.variable === track.variable)} change=${(work) => change((copy) => {
      const { kind, variable } = track;
      work(copy[kind][variable]);
      if (!copy[kind][variable].length) delete copy[kind][variable];
      if (!Object.keys(copy[kind]).length) delete copy[kind];
    })} />`)}
    <div class="row"><select aria-label=${t("recipe_add_variable")} onChange=${add}>
        <option value="">+ ${t("recipe_add_variable")} …</option>
        ${KINDS.map((kind) => html`<optgroup label=${t(`recipe_${kind}`)}>${chamber.variables.filter(({ variable, controlled }) => controlled && !tracks.some((track) => track.variable === variable)).map(({ variable }) => html`<option value=${`${kind}/${variable}`}>${variableName(variable)}</option>`)}</optgroup>`)}
      </select>
      ${i > 0 && html`<button onClick=${() => change((copy, all) => all.splice(i - 1, 0, ...all.splice(i, 1)))}>↑ ${t("recipe_earlier")}</button>
      <button class="bad" onClick=${() => change((copy, all) => all.splice(i, 1))}>${t("recipe_remove_phase")}</button>`}
    </div>
  </fieldset>`;
}

/** The set points of a variable in a phase, one a row. */
function Track({ kind, variable, points, place, about, findings, change }) {
  const name = variableName(variable);
  const set = (i, member) => (value) => change((copy) => (copy[i][member] = value ?? undefined));
  const nextHour = (at) => `${String(((parseInt(at) || 0) + 1) % 24).padStart(2, "0")}${String(at ?? "00:00").slice(2)}`;
  const later = ({ at, ...rest }) => ({ ...rest, at: kind === "course" ? (at ?? 0) + 1 : nextHour(at) });
  const wrong = (i, member) => isWrong(findings, `${place}${i}/${member}`);
  return html`<div class="track" role="group" aria-label=${name}>
    <p><b>${name}</b> <span class="faint small">${symbol(about?.unit ?? "")} · ${t(`recipe_${kind}`)}</span></p>
    ${points.map((point, i) => html`<div class="point">
      ${kind === "daily"
        ? html`<input type="time" step=${point.at?.length > 5 ? 1 : 60} aria-label=${t("recipe_when")} aria-invalid=${wrong(i, "at")} value=${point.at} onChange=${({ target }) => set(i, "at")(target.value)} />`
        : html`<${Field} label="when" value=${point.at} set=${set(i, "at")} wrong=${wrong(i, "at")} />`}
      <${Field} label="value" value=${point.value} unit=${about?.unit} set=${set(i, "value")} wrong=${wrong(i, "value")} />
      <${Field} label="to_next" of=${["hold", "ramp", "sine"]} prefix="to_" value=${point.to_next ?? "hold"} set=${set(i, "to_next")} wrong=${wrong(i, "to_next")} />
      <button class="quiet" aria-label=${t("recipe_remove_point")} onClick=${() => change((copy) => copy.splice(i, 1))}>✕</button>
    </div>`)}
    <${Findings} findings=${findings} />
    <button class="quiet" onClick=${() => change((copy) => copy.push(later(copy.at(-1))))}>+ ${t("recipe_value")}</button>
  </div>`;
}

/** The first value of a new track: the present set point, or what is measured now, with two digits; else 0. */
function present({ environment }, variable) {
  const { desired, measured } = status.value?.variables.find((each) => each.environment === environment && each.variable === variable) ?? {};
  return Number((desired?.value ?? measured?.value ?? 0).toPrecision(2));
}

/** Whether an error is at a place. */
const isWrong = (findings, place) => findings.some(({ severity, pointer }) => severity === "error" && pointer === place);

/** A choice `of` some, or else a number in the unit that is shown; null without one. */
function Field({ name, label, of, prefix = "", value, unit, set, wrong }) {
  const about = { "aria-label": label && t(`recipe_${label}`), "aria-invalid": wrong };
  const number = typeof value === "number" ? shown(value, unit) : NaN;
  const control = of
    ? html`<select ...${about} value=${value} onChange=${({ target }) => set(target.value)}>${of.map((each) => html`<option value=${each}>${t(`recipe_${prefix}${each}`)}</option>`)}</select>`
    : html`<${NumberInput} ...${about} value=${number} onNumber=${(typed) => set(Number.isNaN(typed) ? null : +given(typed, unit).toFixed(6))} />`;
  return name ? html`<label>${t(`recipe_${name}`)}<br />${control}</label>` : control;
}
