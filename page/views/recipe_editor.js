/** The editor of a recipe: a form or its JSON, with growd's check and the plan as one types. */
import { database } from "../lib/api.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { placeOf, read, written } from "../lib/json_text.js";
import { refresh, useChamber, useStatus } from "../lib/live.js";
import { Action, Dialog } from "../lib/parts.js";
import { href } from "../lib/route.js";
import { Findings, usePlan } from "./recipe_check.js";
import { content, discard, documentPath, drafts, keep, newDraft } from "./recipe_drafts.js";
import { fitsForm, Form, isObject } from "./recipe_form.js";
import { isByClock, Plan } from "./recipe_plan.js";

const PAUSE_MS = 500;

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
