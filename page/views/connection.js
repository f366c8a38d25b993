/** That growd has a newer page. */
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { isOutdated } from "../lib/live.js";
import { useSignal } from "../lib/signal.js";

export function Outdated() {
  return useSignal(isOutdated) && html`<p class="bar warn row spread">${t("outdated")} <button onClick=${() => location.reload()}>${t("reload")}</button></p>`;
}
