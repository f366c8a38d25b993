/** The frame of the page: header, problems, navigation, and one view. */
import { html, render, useEffect, useState } from "./lib/html.js";
import { t } from "./lib/i18n.js";
import { begin, chambers, needsLogin } from "./lib/live.js";
import { Notices } from "./lib/parts.js";
import { href, route } from "./lib/route.js";
import { askSession, session } from "./lib/session.js";
import { useSignal } from "./lib/signal.js";
import { AllSafe } from "./views/all_safe.js";
import { Connection } from "./views/connection.js";
import { LogIn, User } from "./views/login.js";
import { Now } from "./views/now.js";
import { Wrong } from "./views/wrong.js";

/** The views in the order of the navigation; those that are seldom open are loaded when they are. */
const VIEWS = {
  now: async () => Now,
  charts: async () => (await import("./views/charts.js")).Charts,
  recipes: async () => (await import("./views/recipes.js")).Recipes,
  devices: async () => (await import("./views/devices.js")).Devices,
  journal: async () => (await import("./views/journal.js")).Journal,
  data: async () => (await import("./views/data.js")).Data,
};

function Page() {
  const { environment: wanted, view } = useSignal(route);
  const environments = useSignal(chambers).map((each) => each.environment);
  const environment = environments.includes(wanted) ? wanted : environments[0] ?? "";
  const mustLogIn = useSignal(needsLogin);
  useSignal(session);
  return html`
    <header>
      <h1>growd</h1>
      ${environments.length > 1 && html`<${Environments} all=${environments} current=${environment} view=${view} />`}
      <${User} />
      <${AllSafe} />
    </header>
    <${Connection} />
    ${mustLogIn ? html`<${LogIn} reason=${mustLogIn} />` : html`
      <${Wrong} environment=${environment} />
      <nav aria-label=${t("nav")}>
        ${Object.keys(VIEWS).map((name) => html`<a key=${name} href=${href(environment, name)} aria-current=${name === view ? "page" : null}>${t(name)}</a>`)}
      </nav>
      <main>${environment && html`<${View} key=${`${environment}/${view}`} name=${view} environment=${environment} />`}</main>`}
    <${Notices} />`;
}

function Environments({ all, current, view }) {
  return html`<ul class="environments">
    ${all.map((each) => html`<li key=${each}><a href=${href(each, view)} aria-current=${each === current}>${each.replaceAll("_", " ")}</a></li>`)}
  </ul>`;
}

function View({ name, environment }) {
  const [component, setComponent] = useState(() => (name === "now" ? Now : null));
  useEffect(() => {
    (VIEWS[name] ?? VIEWS.now)().then((loaded) => setComponent(() => loaded));
  }, [name]);
  return component ? html`<${component} environment=${environment} />` : html`<p>${t("loading")}</p>`;
}

render(html`<${Page} />`, document.getElementById("page"));
askSession().finally(begin);
