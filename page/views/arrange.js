/** The sheet in which tiles are ordered, shown and hidden. The choice is kept in this browser. */
import { html } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { Sheet } from "../lib/parts.js";
import { href, leave } from "../lib/route.js";
import { choiceOf, choose } from "../lib/tiles.js";

export function Arrange({ environment, all, onChoice }) {
  const { shown } = choiceOf(environment);
  const names = all.map((each) => each.variable.variable);
  const save = (choice) => (choose(environment, choice), onChoice(choiceOf(environment)));
  const toggle = (name, isShown) => save({ order: names, shown: { ...shown, [name]: isShown } });
  const move = (name, by) => {
    const at = names.indexOf(name);
    const order = names.toSpliced(at, 1).toSpliced(at + by, 0, name);
    const wide = all.filter((each) => each.isWide).map((each) => [each.variable.variable, true]); // it has a place of its own now
    save({ order, shown: { ...Object.fromEntries(wide), ...shown } });
  };
  return html`<${Sheet} title=${t("tiles_arrange")} onClose=${() => leave(href(environment, "now"))}>
    <p class="small faint">${t("tiles_about")}</p>
    <ul class="plain">${all.map(({ variable: { variable: name }, isShown, isWide }, i) => html`<li key=${name} class="row spread">
      <label class="grow"><input type="checkbox" checked=${isShown && !isWide} onChange=${({ target }) => toggle(name, target.checked)} /> ${variableName(name)}
        ${isWide && html` <span class="small faint">${t("tiles_wide")}</span>`}</label>
      <span class="row">
        <button aria-label=${t("tiles_up", { name: variableName(name) })} disabled=${!i} onClick=${() => move(name, -1)}>▲</button>
        <button aria-label=${t("tiles_down", { name: variableName(name) })} disabled=${i === all.length - 1} onClick=${() => move(name, 1)}>▼</button>
      </span></li>`)}</ul>
    <div class="row"><button onClick=${() => save({ order: [], shown: {} })}>${t("tiles_reset")}</button></div>
  <//>`;
}
