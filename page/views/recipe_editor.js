/** The editor of a recipe: a form or its JSON, with growd's check and the plan as one types. */
import { call, database } from "../lib/api.js";
import { given, shown, symbol } from "../lib/format.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { placeOf, read, written } from "../lib/json_text.js";
import { refresh, useChamber, useStatus } from "../lib/live.js";
import { Action, Dialog, notify, NumberInput } from "../lib/parts.js";
import { href } from "../lib/route.js";
import { session } from "../lib/session.js";
import { isByClock, Plan } from "./recipe_plan.js";

const PAUSE_MS = 500;
const DRAFT = "growd recipe ";

/** The path of a recipe in the database. */
export const documentPath = (id) => `recipes/${encodeURIComponent(id)}`;

/** A recipe as people see it, without what the database adds. */
export const content = ({ _id, _rev, ...rest }) => rest;

// What is typed and not saved stays in the browser: {id, text, rev, saved}, with the revision and the text that it
// changes. The key is the id of the recipe, or one that no recipe has.

const store = kept();
const unkept = {}; // drafts for which the browser has no room: they last until the page is closed
let hasWarned = false;

function kept() {
  try {
    return localStorage;
  } catch {
    return null; // the browser keeps nothing
  }
}

/** Each user has drafts of their own: a browser may be shared. */
const nameOf = (key) => `${DRAFT}${encodeURIComponent(session.value?.user ?? "")} ${key}`;

function keep(key, draft) {
  const [name, text] = [nameOf(key), JSON.stringify({ ...draft, time: Date.now() })];
  try {
    store.setItem(name, text);
    delete unkept[name];
  } catch {
    unkept[name] = text;
    if (!hasWarned) notify(t("recipe_not_kept"), "bad");
    hasWarned = true;
  }
}

export function discard(key) {
  delete unkept[nameOf(key)];
  store?.removeItem(nameOf(key));
}

/** All drafts of the user, newest first, with their keys. */
export const drafts = () =>
  Object.entries({ ...store, ...unkept })
    .filter(([name]) => name.startsWith(nameOf("")))
    .flatMap(([name, text]) => draftIn(text, name.slice(nameOf("").length)))
    .sort((one, other) => other.time - one.time);

/** The draft of a text as a list, an empty one if it is damaged. */
function draftIn(text, key) {
  try {
    const draft = JSON.parse(text);
    return typeof draft.text === "string" && draft.time > 0 ? [{ ...draft, key }] : [];
  } catch {
    return [];
  }
}

/** Keep a draft of a new recipe and return its key. */
export function newDraft(id, text) {
  const key = `_${Date.now()}`;
  keep(key, { id, text });
  return key;
}

/** A recipe to begin with: two weeks of light by day. */
export function blank({ variables }) {
  const lamp = variables.find((each) => each.controlled && each.variable.startsWith("light"));
  const daily = lamp && { [lamp.variable]: [{ at: "06:00", value: lamp.reach[1] / 2 }, { at: "22:00", value: 0 }] };
  return { format: "phased", name: "", phases: [{ name: "growth", duration: 14, time_units: "days", daily }] };
}

const PLACE = /^\/phases\/(\d+)(?:\/(?:(?:daily|course)\/([^/]+)(?:\/(\d+)(?:\/(\w+))?)?|(\w+)))?$/;
const MEMBERS = { at: "when", value: "value", to_next: "to_next", duration: "lasts", time_units: "unit", cycle: "cycle", otherwise: "otherwise", name: "name" };

/** The place of a finding in words: "Phase 2 · Light · 3. · Set point". */
function placeText({ pointer }) {
  const [isPhased, phase, variable, point, member, own] = PLACE.exec(pointer) ?? [];
  const name = MEMBERS[member ?? own];
  const words = [t("recipe_phase_number", { number: +phase + 1 }), variable && variableName(variable), point && t("recipe_row", { number: +point + 1 }), name && t(`recipe_${name}`)];
  return isPhased ? html`<i>${words.filter(Boolean).join(" · ")}:</i>` : pointer && html`<code>${pointer}</code>`;
}

/** growd's errors and warnings; `where` shows the place of one. */
export const Findings = ({ findings, where = placeText }) =>
  findings.length > 0 && html`<ul class="findings">${findings.map((each) => html`<li class=${each.severity === "error" ? "bad" : "warn"}><b>${t(`recipe_${each.severity}`)}</b> ${where(each)} ${each.sentence}</li>`)}</ul>`;

/** growd's {plan, findings}, or {message, findings} without a plan; asked again when `key` changes. */
export function usePlan(environment, args, key) {
  const [answer, setAnswer] = useState(null);
  useEffect(() => {
    let isCurrent = true;
    const show = (found) => isCurrent && setAnswer(found);
    if (args) call(`${environment}/recipe_plan`, args).then(show, ({ message, body }) => show({ message, findings: body.findings ?? [] }));
    else show(null);
    return () => (isCurrent = false);
  }, [key]);
  return answer;
}

/** `name` is the key of a draft, or the id of a recipe. */
export function Editor({ environment, name }) {
  const [draft, setDraft] = useState(() => drafts().find(({ key }) => key === name));
  const [problem, setProblem] = useState("");
  const [wantsText, setWantsText] = useState(false);
  const [conflict, setConflict] = useState(null);
  const [checkedText, setChecked] = useState("");
  const chamber = useChamber(environment);
  const running = useStatus()?.recipes.find((each) => each.environment === environment && each.recipe_id === name);
  const text = draft?.text ?? "";
  useEffect(() => {
    if (!draft) database("GET", documentPath(name)).then((recipe) => setDraft(draftOf(recipe)), ({ message }) => setProblem(message));
  }, []);
  useEffect(() => {
    const timer = setTimeout(setChecked, checkedText && PAUSE_MS, text);
    return () => clearTimeout(timer);
  }, [text]);
  const current = useMemo(() => parsed(text), [text]);
  const isChecked = text === checkedText;
  const before = usePlan(environment, running && {}, running?.revision)?.plan;
  const answer = usePlan(environment, isObject(current.value) && { recipe: current.value, start: before?.start ?? 0 }, `${checkedText} ${before?.start}`);
  const drawn = useRef(null);
  if (answer?.plan) drawn.current = answer.plan;
  if (!draft) return html`<p>${problem || t("loading")}</p>`;

  const { id, rev, saved } = draft;
  const findings = current.findings ?? answer?.findings ?? [];
  const [errors, warnings] = ["error", "warning"].map((kind) => findings.filter(({ severity }) => severity === kind).length);
  const obstacle = !("value" in current) ? "recipe_no_json" : !id && "recipe_needs_id";
  const plan = answer?.plan ?? drawn.current;
  const isForm = !wantsText && fitsForm(current.value);
  const edit = (members) => {
    const next = { ...draft, ...members };
    setDraft(next);
    if (next.text === saved && next.id === name) discard(name);
    else keep(name, next);
  };
  const change = (work) => {
    const copy = structuredClone(current.value);
    work(copy);
    edit({ text: written(copy) });
  };
  const close = (query) => (location.hash = href(environment, "recipes", query));
  const save = async (as = id) => {
    try {
      await database("PUT", documentPath(as), { ...content(current.value), _id: as, ...(rev && as === name && { _rev: rev }) });
    } catch (refusal) {
      if (refusal.status !== 409) throw refusal;
      setConflict({ as, other: await database("GET", documentPath(as)).catch(() => null) });
      return;
    }
    discard(name);
    await refresh();
    close(running && as === name ? undefined : { recipe: as });
    return { message: t("recipe_saved", { name: as }) };
  };
  const loadOther = () => {
    newDraft(`${id}_2`, text);
    discard(name);
    setConflict(null);
    if (conflict.as === name) setDraft(draftOf(conflict.other));
    else close({ edit: conflict.as });
  };
  return html`<p><a href=${href(environment, "recipes", saved && { recipe: name })}>← ${saved ? name : t("recipe_all")}</a></p>
    <section class="card">
      <div class="row"><label>${t("recipe_id")}<br /><input value=${id} maxlength="200" required onInput=${({ target }) => edit({ id: target.value })} /></label>
        <${Action} class="primary" disabled=${Boolean(obstacle)} run=${() => save()}>${t("save")}<//>
        ${text !== saved && html`<${Action} confirm=${t("recipe_discard_sure")} run=${async () => void (discard(name), close(saved && { recipe: name }))}>${t("recipe_discard")}<//>`}
        <span class="faint small">${[rev && id === name ? t("recipe_revision", { revision: rev.slice(0, 8) }) : t("recipe_is_new"), running && t("recipe_it_runs"), text !== saved && t("recipe_kept")].filter(Boolean).join(" · ")}
          ${obstacle && html` <b class="warn">${t(obstacle)}</b>`}</span></div>
      <div class="row">
        <button aria-pressed=${isForm} disabled=${!fitsForm(current.value)} onClick=${() => setWantsText(false)}>${t("recipe_form")}</button>
        <button aria-pressed=${!isForm} onClick=${() => setWantsText(true)}>JSON</button>
        <span role="status">${!isChecked ? t("recipe_checking") : findings.length ? t(errors ? "recipe_found" : "recipe_found_warnings", { errors, warnings }) : answer?.plan ? `✓ ${t("recipe_no_findings")}` : answer?.message}</span>
      </div>
      <div class="editor">
        <div>${isForm ? html`<${Form} ...${{ recipe: current.value, change, findings, chamber }} />` : html`<${Text} ...${{ text, findings, places: current.places, edit }} />`}</div>
        <div>${plan && html`<h3>${t(before ? "recipe_compared" : isByClock(plan) ? "recipe_plan_if_now" : "recipe_plan")}</h3>
          ${!answer?.plan && html`<p class="warn">${t("recipe_old_plan")}</p>`}
          <${Plan} plan=${plan} before=${before} elapsed=${before && running?.state !== "waiting" ? running?.elapsed_s : null} />`}</div>
      </div>
    </section>
    ${conflict && html`<${Dialog} title=${t(!conflict.other ? "recipe_gone" : conflict.as === name ? "recipe_conflict" : "recipe_exists", { name: conflict.as })} onClose=${() => setConflict(null)}>
      <p>${t("recipe_nothing_lost")}</p>
      <div class="row"><${Action} class="primary" run=${() => (setConflict(null), edit({ id: `${id}_2` }), save(`${id}_2`))}>${t("recipe_save_as", { name: `${id}_2` })}<//>
        ${conflict.other && html`<button onClick=${loadOther}>${t("recipe_load_other")}</button>`}
        <button onClick=${() => setConflict(null)}>${t("cancel")}</button></div>
    <//>`}`;
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

const fitsForm = (recipe) =>
  isObject(recipe) && recipe.format === "phased" && Array.isArray(recipe.phases) && recipe.phases.every((phase) => isObject(phase) && KINDS.every((kind) =>
    isObject(phase[kind] ?? {}) && Object.values(phase[kind] ?? {}).every((points) => Array.isArray(points) && points.length && points.every(isObject))));

function draftOf(recipe) {
  const text = written(content(recipe));
  return { id: recipe._id, rev: recipe._rev, text, saved: text };
}

/** {value, places} of a text, or {findings} with its error of syntax. */
function parsed(text) {
  try {
    return read(text);
  } catch ({ expected = "value", found, offset = 0 }) {
    const sentence = t("recipe_syntax", { expected: expected.length > 3 ? t(`recipe_json_${expected}`) : expected, found: found || t("recipe_json_end") });
    return { findings: [{ severity: "error", pointer: "", offset, sentence }] };
  }
}

/** JSON with line numbers; a line with a finding is marked, with the sentence beside it. */
function Text({ text, findings, places, edit }) {
  const area = useRef();
  const lines = text.split("\n");
  const placed = findings.map((each) => {
    const offset = each.offset ?? placeOf(places, each.pointer);
    return { ...each, offset, line: text.slice(0, offset).split("\n").length };
  });
  const marks = [];
  let last = 0;
  for (const line of [...new Set(placed.map((each) => each.line))].sort((one, other) => one - other)) {
    const here = placed.filter((each) => each.line === line);
    const style = here.some((each) => each.severity === "error") ? "bad" : "warn";
    marks.push([...lines.slice(last, line - 1), ""].join("\n"), html`<mark class=${style}>${lines[line - 1] || " "}</mark><em class=${style}>${here.map((each) => each.sentence).join("; ")}</em>\n`);
    last = line;
  }
  const goTo = (offset) => {
    area.current.focus();
    area.current.setSelectionRange(offset, offset + 1);
  };
  return html`<div class="code">
      <pre class="numbers" aria-hidden="true">${lines.map((_, i) => i + 1).join("\n")}</pre>
      <pre class="marks" aria-hidden="true">${marks}${lines.slice(last).join("\n")} </pre>
      <textarea ref=${area} wrap="off" spellcheck="false" autocapitalize="off" aria-label="JSON" aria-invalid=${findings.length > 0} value=${text} onInput=${({ target }) => edit({ text: target.value })}></textarea>
    </div>
    <${Findings} findings=${placed} where=${({ line, offset }) => html`<button class="quiet" onClick=${() => goTo(offset)}>${t("recipe_line", { line })}</button>`} />`;
}

const KINDS = ["daily", "course"];

/** A recipe of the format phased; `change(work)` lets `work` edit a copy. */
const Form = ({ recipe, change, findings, chamber }) => html`<div class="form">
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
    if (kind) change((copy) => ((copy[kind] ??= {})[variable] = [{ at: kind === "daily" ? "06:00" : 0, value: 0 }]));
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
        ${KINDS.map((kind) => html`<optgroup label=${t(`recipe_${kind}`)}>${chamber.variables.filter(({ variable }) => !tracks.some((track) => track.variable === variable)).map(({ variable }) => html`<option value=${`${kind}/${variable}`}>${variableName(variable)}</option>`)}</optgroup>`)}
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
