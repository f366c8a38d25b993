/** The editor of a recipe: a form or its JSON, with growd's check and the plan as one types. */
import { database } from "../lib/api.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { JsonError, lineOf, placeOf, read, written } from "../lib/json_text.js";
import { refresh, useChamber, useStatus } from "../lib/live.js";
import { Action, Dialog } from "../lib/parts.js";
import { href } from "../lib/route.js";
import { discard, draftOf, keep, openDraft } from "./recipe_drafts.js";
import { Form } from "./recipe_form.js";
import { isByClock, Plan } from "./recipe_plan.js";
import { content, documentPath, Findings, usePlan } from "./recipe_view.js";

const PAUSE_MS = 500;

/** `name` is the key of a draft, or the id of a recipe. */
export function Editor({ environment, zone, name }) {
  const [draft, setDraft] = useState(() => draftOf(name));
  const [problem, setProblem] = useState("");
  const [wantsText, setWantsText] = useState(false);
  const [conflict, setConflict] = useState(null);
  const chamber = useChamber(environment);
  const running = useStatus()?.recipes.find((each) => each.environment === environment && each.state !== "idle" && each.recipe_id === name);
  const load = () => database("GET", documentPath(name)).then(draftFrom).then(setDraft, (refusal) => setProblem(refusal.message));
  useEffect(() => void (draft || load()), []);

  const checkedText = useLater(draft?.text ?? "");
  const checked = useMemo(() => parsed(checkedText), [checkedText]);
  const before = usePlan(environment, running ? {} : null, running?.revision)?.plan;
  const args = isObject(checked.value) ? { recipe: checked.value, ...(before && { start: before.start }) } : null;
  const answer = usePlan(environment, args, `${checkedText} ${before?.start}`);
  const findings = args ? answer?.findings ?? [] : checked.findings ?? [];

  if (!draft) return html`<p>${problem || t("loading")}</p>`;
  const { id, text, rev, saved } = draft;
  const edit = (members) => {
    const next = { ...draft, ...members };
    setDraft(next);
    if (next.text === saved && next.id === name) discard(name);
    else keep(name, next);
  };
  const current = text === checkedText ? checked : parsed(text);
  const isPhased = isObject(current.value) && current.value.format === "phased" && isWhole(current.value);
  const change = (work) => {
    const copy = structuredClone(current.value);
    work(copy);
    edit({ text: written(copy) });
  };
  const close = (query) => (location.hash = href(environment, "recipes", query));
  const save = async (as = id, base = id === name ? rev : undefined) => {
    const path = documentPath(as);
    try {
      await database("PUT", path, { ...content(read(text).value), _id: as, ...(base && { _rev: base }) });
    } catch (refusal) {
      if (refusal.status !== 409) throw refusal;
      setConflict({ as, other: await database("GET", path).catch(() => null) });
      return null;
    }
    discard(name);
    await refresh();
    close(running && as === name ? undefined : { recipe: as });
    return { message: t("recipe_saved", { name: as }) };
  };
  const loadOther = () => {
    openDraft({ id: `${id}_2`, text });
    discard(name);
    setConflict(null);
    if (conflict.as === name) setDraft(draftFrom(conflict.other));
    else close({ edit: conflict.as });
  };
  const isSyntaxError = !("value" in current);
  return html`<p><a href=${href(environment, "recipes", saved && { recipe: name })}>← ${saved ? name : t("recipe_all")}</a></p>
    <section class="card">
      <div class="row"><label>${t("recipe_id")}<br /><input value=${id} maxlength="200" required onInput=${({ target }) => edit({ id: target.value })} /></label>
        <span class="faint small">${rev && id === name ? t("recipe_revision", { revision: rev.slice(0, 8) }) : t("recipe_is_new")}${running ? ` · ${t("recipe_it_runs")}` : ""}</span></div>
      <div class="row" role="group" aria-label=${t("recipe_edit_as")}>
        <button aria-pressed=${isPhased && !wantsText} disabled=${!isPhased} onClick=${() => setWantsText(false)}>${t("recipe_form")}</button>
        <button aria-pressed=${!isPhased || wantsText} onClick=${() => setWantsText(true)}>JSON</button>
        ${!isPhased && !isSyntaxError && html`<span class="faint small">${t("recipe_no_form")}</span>`}
      </div>
      <div class="editor">
        <div>
          ${isPhased && !wantsText
            ? html`<${Form} ...${{ recipe: current.value, change, findings: current === checked ? findings : [], chamber }} />`
            : html`<${Text} ...${{ text, findings: current === checked ? findings : [], places: checked.places }} onText=${(value) => edit({ text: value })} />`}
          <p role="status">${checked !== current ? t("recipe_checking") : findings.length ? "" : answer && `✓ ${t("recipe_no_findings")}`}${args && answer && !answer.plan && !findings.length ? answer.message : ""}</p>
          <div class="row"><${Action} class="primary" disabled=${isSyntaxError || !id} run=${() => save()}>${t("save")}<//>
            ${text !== saved && html`<${Action} confirm=${t("recipe_discard_sure")} run=${async () => (discard(name), close(saved && { recipe: name }), null)}>${t("recipe_discard")}<//>
            <span class="faint small">${t("recipe_kept")}</span>`}</div>
        </div>
        <div>${answer?.plan && html`<h3>${t(before ? "recipe_compared" : "recipe_plan")}</h3>
          ${isByClock(answer.plan) && !before && html`<p class="faint small">${t("recipe_plan_if_now")}</p>`}
          <${Plan} plan=${answer.plan} before=${before} zone=${zone} elapsed=${before ? running?.elapsed_s : null} />`}</div>
      </div>
    </section>
    ${conflict && html`<${Conflict} ...${{ ...conflict, save, loadOther }} isOwn=${conflict.as === name} onClose=${() => setConflict(null)} />`}`;
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Whether the form can show it: phases with tracks of set points. */
const isWhole = ({ phases }) =>
  Array.isArray(phases) && phases.every((phase) => isObject(phase) && ["daily", "course"].every((kind) =>
    phase[kind] === undefined || (isObject(phase[kind]) && Object.values(phase[kind]).every((points) => Array.isArray(points) && points.length && points.every(isObject)))));

const draftFrom = (recipe) => {
  const text = written(content(recipe));
  return { id: recipe._id, rev: recipe._rev, text, saved: text };
};

/** {value, places} of a text, or {findings} with its error of syntax. */
function parsed(text) {
  try {
    return read(text);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const sentence = t("recipe_syntax", { expected: t(`recipe_json_${error.expected}`), found: error.found || t("recipe_json_end") });
    return { findings: [{ severity: "error", pointer: "", offset: error.offset, sentence }] };
  }
}

/** A value some time after it has last changed. */
function useLater(value) {
  const [later, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(set, later ? PAUSE_MS : 0, value);
    return () => clearTimeout(timer);
  }, [value]);
  return later;
}

/** JSON with line numbers; a line with a finding is marked, with the sentence beside it. */
function Text({ text, findings, places, onText }) {
  const area = useRef();
  const placed = findings.map((each) => {
    const offset = each.offset ?? placeOf(places, each.pointer);
    return { ...each, offset, line: lineOf(text, offset) };
  });
  const lines = text.split("\n");
  const marked = [];
  let last = 0;
  for (const line of [...new Set(placed.map((each) => each.line))].sort((one, other) => one - other)) {
    const here = placed.filter((each) => each.line === line);
    const style = here.some((each) => each.severity === "error") ? "bad" : "warn";
    marked.push(lines.slice(last, line - 1).map((each) => `${each}\n`).join(""),
      html`<mark class=${style}>${lines[line - 1] || " "}</mark><em class=${style}>${here.map((each) => each.sentence).join("; ")}</em>\n`);
    last = line;
  }
  const goTo = ({ offset }) => {
    area.current.focus();
    area.current.setSelectionRange(offset, offset + (text.slice(offset).match(/^[^\n]*/)[0].length || 1));
  };
  return html`<div class="code">
      <pre class="numbers" aria-hidden="true">${lines.map((_, i) => i + 1).join("\n")}</pre>
      <pre class="marks" aria-hidden="true">${marked}${lines.slice(last).join("\n")} </pre>
      <textarea ref=${area} wrap="off" spellcheck="false" autocapitalize="off" aria-label="JSON" aria-invalid=${findings.some((each) => each.severity === "error")}
        value=${text} onInput=${({ target }) => onText(target.value)}></textarea>
    </div>
    <${Findings} findings=${placed} where=${({ line }) => t("recipe_line", { line })} onChoose=${goTo} />`;
}

/** Somebody else has saved the recipe meanwhile, or one of this name exists. */
function Conflict({ as, other, isOwn, save, loadOther, onClose }) {
  const [name, setName] = useState(`${as}_2`);
  return html`<${Dialog} title=${t(!other ? "recipe_gone" : isOwn ? "recipe_conflict" : "recipe_exists", { name: as })} onClose=${onClose}>
    <p>${t("recipe_nothing_lost")}</p>
    <label>${t("recipe_other_name")}<br /><input value=${name} onInput=${({ target }) => setName(target.value)} /></label>
    <div class="row"><${Action} class="primary" run=${() => (onClose(), save(name, undefined))}>${t("recipe_save_as")}<//>
      ${other && html`<button onClick=${loadOther}>${t("recipe_load_other")}</button>`}
      <button onClick=${onClose}>${t("cancel")}</button></div>
  <//>`;
}
