/** Whether the page is connected, and since when not; and that growd has a newer page. */
import { duration } from "../lib/format.js";
import { html, useEffect } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { connection, isOutdated } from "../lib/live.js";
import { useSignal } from "../lib/signal.js";

export function Connection() {
  const { isConnected, silence } = useSignal(connection);
  const isLost = !isConnected && silence !== null;
  const outdated = useSignal(isOutdated);
  useEffect(() => {
    document.documentElement.dataset.connection = isConnected ? "ok" : isLost ? "lost" : "new"; // style.css greys what is old
  }, [isConnected, isLost]);
  return html`
    <div role="status" class="hidden">${isLost ? t("no_connection") : ""}</div>
    ${isLost && html`<p class="bar bad"><span aria-hidden="true">⇹ </span>${t("no_data", { time: duration(silence) })}</p>`}
    ${!isConnected && !isLost && html`<p class="bar connecting" role="status">${t("connecting")}</p>`}
    ${outdated && html`<p class="bar warn row spread">${t("outdated")} <button onClick=${() => location.reload()}>${t("reload")}</button></p>`}`;
}
