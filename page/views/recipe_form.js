/** A recipe of the format phased as a form: phases, and their set points by time. */
import { given, shown, symbol } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { Findings } from "./recipe_view.js";

const UNITS = ["days", "hours", "minutes", "seconds"];
const KINDS = ["daily", "course"];

/** A recipe to begin with: two weeks of light by day. */
export function blank({ variables }) {
  const first = variables.find((each) => each.controlled && each.variable.startsWith("light")) ?? variables.find((each) => each.controlled);
  const high = first && Math.min(first.variable === "light_illuminance" ? 8_000 : Infinity, first.reach[1]);
  const daily = first ? { [first.variable]: [{ at: "06:00", value: high }, { at: "22:00", value: first.reach[0] }] } : {};
  return { format: "phased", name: "", description: "", phases: [{ name: "growth", duration: 14, time_units: "days", daily }] };
}

/** `change(edit)` edits a copy of the recipe. */
export function Form({ recipe, change, findings, chamber }) {
  const text = (name) => html`<label>${t(`recipe_${name}`)}<br /><input value=${recipe[name] ?? ""} onInput=${({ target }) => change((copy) => (copy[name] = target.value))} /></label>`;
  return html`<div class="form">
    <div class="row wide">${text("name")}${text("description")}</div>
    ${recipe.phases.map((phase, i) => html`<${Phase} key=${i} ...${{ phase, i, findings, chamber }} count=${recipe.phases.length}
      change=${(edit) => change((copy) => edit(copy.phases[i], copy.phases))} />`)}
    <button onClick=${() => change((copy) => copy.phases.push({ ...structuredClone(copy.phases.at(-1)), name: "" }))}>+ ${t("recipe_add_phase")}</button>
  </div>`;
}

function Phase({ phase, i, count, change, findings, chamber }) {
  const place = `/phases/${i}`;
  const tracks = KINDS.flatMap((kind) => Object.keys(phase[kind] ?? {}).map((variable) => [kind, variable]));
  const used = tracks.map(([, variable]) => variable);
  const own = findings.filter(({ pointer }) => pointer.startsWith(`${place}/`) || pointer === place).filter(({ pointer }) => !tracks.some(([kind, variable]) => pointer.startsWith(`${place}/${kind}/${variable}`)));
  const add = ({ target }) => {
    const [kind, variable] = target.value.split("/");
    if (kind) change((copy) => ((copy[kind] ??= {})[variable] = [{ at: kind === "daily" ? "06:00" : 0, value: 0 }]));
    target.value = "";
  };
  return html`<fieldset><legend>${t("recipe_phase_number", { number: i + 1 })}</legend>
    <div class="row">
      <label>${t("recipe_name")}<br /><input value=${phase.name ?? ""} onInput=${({ target }) => change((copy) => (copy.name = target.value))} /></label>
      <label>${t("recipe_lasts")}<br /><${Num} value=${phase.duration} min="0" onValue=${(value) => change((copy) => (copy.duration = value))} /></label>
      <label>${t("recipe_unit")}<br /><${Choice} value=${phase.time_units} of=${UNITS} onValue=${(value) => change((copy) => (copy.time_units = value))} /></label>
      ${phase.course && html`<label>${t("recipe_cycle")}<br /><${Num} value=${phase.cycle ?? null} min="0" onValue=${(value) => change((copy) => { if (value === null) delete copy.cycle; else copy.cycle = value; })} /></label>`}
      <label>${t("recipe_otherwise")}<br /><${Choice} value=${phase.otherwise ?? "hold"} of=${["hold", "release"]} prefix="otherwise_" onValue=${(value) => change((copy) => (copy.otherwise = value))} /></label>
    </div>
    <${Findings} findings=${own} />
    ${tracks.map(([kind, variable]) => html`<${Track} key=${`${kind}/${variable}`} ...${{ kind, variable, points: phase[kind][variable], unit: phase.time_units }}
      about=${chamber.variables.find((each) => each.variable === variable)} findings=${findings.filter(({ pointer }) => `${pointer}/`.startsWith(`${place}/${kind}/${variable}/`))}
      change=${(edit) => change((copy) => {
        edit(copy[kind][variable]);
        if (!copy[kind][variable].length) delete copy[kind][variable];
        if (!Object.keys(copy[kind]).length) delete copy[kind];
      })} />`)}
    <div class="row"><select aria-label=${t("recipe_add_variable")} onChange=${add}>
        <option value="">+ ${t("recipe_add_variable")} …</option>
        ${KINDS.map((kind) => html`<optgroup key=${kind} label=${t(`recipe_${kind}`)}>${chamber.variables.filter((each) => !used.includes(each.variable)).sort((one, other) => other.controlled - one.controlled).map((each) => html`<option key=${each.variable} value=${`${kind}/${each.variable}`}>${variableName(each.variable)}</option>`)}</optgroup>`)}
      </select>
      ${i > 0 && html`<button onClick=${() => change((copy, all) => all.splice(i - 1, 0, ...all.splice(i, 1)))}>↑ ${t("recipe_earlier")}</button>`}
      ${count > 1 && html`<button class="bad" onClick=${() => change((copy, all) => all.splice(i, 1))}>${t("recipe_remove_phase")}</button>`}
    </div>
  </fieldset>`;
}

/** The set points of a variable in a phase, one a row. */
function Track({ kind, variable, points, unit, about, findings, change }) {
  const isDaily = kind === "daily";
  const name = variableName(variable);
  const set = (i, member) => (value) => change((copy) => (copy[i][member] = value));
  const next = (last) => (isDaily ? { ...last, at: "22:00" } : { ...last, at: last.at + 1 });
  return html`<div class="track">
    <h4>${name} <span class="faint small">${symbol(about?.unit ?? "")} · ${t(`recipe_${kind}`)}${isDaily ? "" : ` (${t(`recipe_${unit}`)})`}</span></h4>
    ${points.map((point, i) => html`<div class="row point" key=${i}>
      ${isDaily
        ? html`<input type="time" step=${point.at?.length > 5 ? 1 : 60} aria-label=${t("recipe_at_of", { name })} value=${point.at} onChange=${({ target }) => set(i, "at")(target.value)} />`
        : html`<${Num} label=${t("recipe_at_of", { name })} min="0" value=${point.at} onValue=${set(i, "at")} />`}
      <${Num} label=${t("recipe_value_of", { name })} value=${point.value} unit=${about?.unit} onValue=${set(i, "value")} />
      <${Choice} label=${t("recipe_way_of", { name })} value=${point.to_next ?? "hold"} of=${["hold", "ramp", "sine"]} prefix="to_" onValue=${(value) => change((copy) => { if (value === "hold") delete copy[i].to_next; else copy[i].to_next = value; })} />
      <button class="quiet" aria-label=${t("recipe_remove_point", { name })} onClick=${() => change((copy) => copy.splice(i, 1))}>✕</button>
    </div>`)}
    <${Findings} findings=${findings} />
    <button class="quiet" onClick=${() => change((copy) => copy.push(next(copy.at(-1))))}>+ ${t("recipe_add_point")}</button>
  </div>`;
}

/** A number in the unit that is shown; null without one. */
function Num({ value, unit, label, min, onValue }) {
  const isNumber = typeof value === "number";
  return html`<input type="number" step="any" min=${min} inputmode="decimal" aria-label=${label} value=${isNumber ? +shown(value, unit).toFixed(4) : ""}
    onInput=${({ target }) => onValue(target.value === "" ? null : +given(+target.value, unit).toFixed(6))} />`;
}

function Choice({ value, of, label, prefix = "", onValue }) {
  return html`<select aria-label=${label} value=${value} onChange=${({ target }) => onValue(target.value)}>
    ${of.map((each) => html`<option key=${each} value=${each}>${t(`recipe_${prefix}${each}`)}</option>`)}
  </select>`;
}
