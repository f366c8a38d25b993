/** The settings of this browser: language, units, colours, the app and its notifications. */
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { install, maySend, notifications, setNotifications } from "../lib/app.js";
import { href } from "../lib/route.js";
import { CHOICES, setSettings, settings } from "../lib/settings.js";
import { useSignal } from "../lib/signal.js";

export function Settings({ environment }) {
  return html`<section class="card settings">
    ${Object.entries(CHOICES).map(([key, all]) => html`<label key=${key}>${t(`settings_${key}`)}
      <select value=${settings[key]} onChange=${({ target }) => setSettings({ [key]: target.value })}>
        ${all.map((each) => html`<option key=${each} value=${each} lang=${key === "language" && each ? each : null}>${t(`settings_${key}_${each}`)}</option>`)}</select></label>`)}
    <p class="small faint">${t("settings_kept")}</p>
    <h3>${t("settings_app")}</h3>
    ${isSecureContext ? html`<${App} />` : html`<p class="small">${t("settings_insecure")}</p>`}
    <p><a href=${href(environment, "log")}>${t("settings_log")}</a></p>
  </section>`;
}

function App() {
  const offer = useSignal(install);
  const [isOn, setOn] = useState(notifications());
  const change = async ({ target }) => setOn(await setNotifications(target.checked));
  return html`
    ${offer ? html`<p><button onClick=${() => offer.prompt()}>${t("settings_install")}</button></p>` : html`<p class="small faint">${t("settings_installable")}</p>`}
    ${"Notification" in window && html`<label><input type="checkbox" checked=${isOn} disabled=${!maySend()} onChange=${change} /> ${t("settings_notify")}</label>
      ${!maySend() && html`<p class="small warn">${t("settings_notify_denied")}</p>`}`}`;
}
