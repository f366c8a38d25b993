/** The frame of the page: header, navigation, the verdict, and one view. */
import { translateBy } from "./lib/api.js";
import { beginApp } from "./lib/app.js";
import { clock, isAbroad } from "./lib/format.js";
import { closeMenus, keepFocus, measureBars } from "./lib/frame.js";
import { html, useEffect, useRef, useState } from "./lib/html.js";
import { t } from "./lib/i18n.js";
import { Icon } from "./lib/icons.js";
import { begin, chambers, connection, growdTime, needsLogin, status } from "./lib/live.js";
import { chamberName } from "./lib/names.js";
import { imported, Loaded, Notices, notify, showInDialogs } from "./lib/parts.js";
import { href, route } from "./lib/route.js";
import { askSession, session } from "./lib/session.js";
import { useSignal } from "./lib/signal.js";
import { translated } from "./lib/verdict.js";
import { AllSafe, Failed } from "./views/all_safe.js";
import { Outdated } from "./views/connection.js";
import { News, Notes, Title } from "./views/notes.js";
import { Now } from "./views/now.js";
import { Verdict } from "./views/verdict.js";
import { render } from "./vendor/preact.js";

/** The views in the order of the navigation. All but the first are loaded when they are opened. */
const VIEWS = {
  now: async () => Now,
  charts: imported(() => import("./views/charts.js"), "Charts"),
  recipes: imported(() => import("./views/recipes.js"), "Recipes"),
  devices: imported(() => import("./views/devices.js"), "Devices"),
  journal: imported(() => import("./views/journal.js"), "Journal"),
  data: imported(() => import("./views/data.js"), "Data"),
};
const MORE = {
  settings: imported(() => import("./views/settings.js"), "Settings"),
  log: imported(() => import("./views/log.js"), "Log"),
};
const logIn = imported(() => import("./views/login.js"), "LogIn");
const user = imported(() => import("./views/login.js"), "User");
const SESSION_MS = 60_000; // a login ends without a request of its own
const ALL = "all"; // in place of an environment: the overview of all

function Page() {
  const { environment: wanted, view: asked } = useSignal(route);
  const environments = useSignal(chambers).map((each) => each.environment);
  const mustLogIn = useSignal(needsLogin);
  useSignal(session);
  const several = environments.length > 1;
  const view = Object.hasOwn({ ...VIEWS, ...MORE }, asked) ? asked : "now";
  const isAll = several && !environments.includes(wanted);
  const environment = environments.includes(wanted) ? wanted : environments[0] ?? "";
  const title = isAll ? t("all") : [t(view), several && chamberName(environment)].filter(Boolean).join(" · ");
  const isNew = !isAll && view === "now" && isEmpty(environment);
  const main = useFocus(title);
  const isKnown = useKnown();
  return html`
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), main.current.focus())}>${t("skip")}</a>
    <header>
      <div class="who">${several && !mustLogIn ? html`<${Chambers} all=${environments} current=${isAll ? ALL : environment} view=${view} />` : html`<h1>growd</h1>`}
        ${!mustLogIn && html`<${Clock} /><${Notes} />`}
        ${!mustLogIn && environment && html`<a class="pill gear" href=${href(environment, "settings")} aria-label=${t("settings")} title=${t("settings")}>⚙</a>`}
        ${session.value?.access === "couchdb" && html`<${Loaded} load=${user} />`}</div>
      ${!mustLogIn && !isAll && html`<nav aria-label=${t("nav")}>
        ${Object.keys(VIEWS).map((name) => html`<a key=${name} href=${href(environment, name)} aria-current=${name === view ? "page" : null}><${Icon} name=${name} /><span>${t(name)}</span></a>`)}
      </nav>`}
      <${AllSafe} />
    </header>
    <${Title} name=${title} />
    <${Failed} />
    ${mustLogIn && html`<main><${Loaded} load=${logIn} reason=${mustLogIn} /></main>`}
    <div class="page" hidden=${Boolean(mustLogIn)}>
      <section class="above" aria-label=${t("problems")}>
        <${News} />
        <${Outdated} />
        ${(isAll || isNew || view !== "now") && html`<${Verdict} environment=${environment} isSlim />`}
        ${wanted && environment && !several && wanted !== environment && wanted !== ALL && html`<p class="bar warn" role="alert">
          ${t("other_chamber", { wanted: chamberName(wanted), name: chamberName(environment) })}</p>`}
      </section>
      <main ref=${main} id="main" tabindex="-1" aria-label=${title}>
        <h2 class="hidden">${title}</h2>
        ${isAll ? html`<${Loaded} key=${ALL} load=${overview} />`
          : isNew ? html`<${Loaded} key=${`${environment}/`} load=${firstSteps} environment=${environment} />`
          : (isKnown || view === "now") && html`<${Loaded} key=${`${environment}/${view}`} load=${VIEWS[view] ?? MORE[view]} first=${view === "now" ? Now : null} environment=${environment} />`}
      </main>
    </div>
    <${Notices} />`;
}

/** The time of the chamber, and where that is if it is not the time of this device. */
function Clock() {
  const now = useSignal(growdTime);
  if (!now) return null;
  const zone = chambers.value[0]?.time_zone;
  const isElsewhere = isAbroad(now);
  return html`<span class=${`pill ${isElsewhere ? "" : "roomy"}`} title=${isElsewhere ? t("zone", { name: zone, time: clock(now) }) : null}>
    ${clock(now)}${isElsewhere && html` · ${zone?.split("/").pop().replaceAll("_", " ")}<span class="hidden"> ${t("zone", { name: zone, time: clock(now) })}</span>`}</span>`;
}

const isEmpty = (name) => chambers.value.some(({ environment, devices }) => environment === name && !devices.length);
const firstSteps = imported(() => import("./views/setup.js"), "FirstSteps");
const overview = imported(() => import("./views/overview.js"), "Overview");

/** Whether the status has come once: the strip above a view comes with it, and moves nothing then. */
function useKnown() {
  const [isKnown, setKnown] = useState(Boolean(status.value));
  useEffect(() => (isKnown ? undefined : status.follow((value) => value && setKnown(true))), [isKnown]);
  return isKnown;
}

/** The chamber that is shown, and the way to the others. */
function Chambers({ all, current, view }) {
  const go = ({ target }) => (location.hash = href(target.value, target.value === ALL ? "now" : view));
  return html`<h1><select class="chambers" aria-label=${t("chamber")} value=${current} onChange=${go}>
    ${[ALL, ...all].map((each) => html`<option key=${each} value=${each}>${each === ALL ? t("all") : chamberName(each)}</option>`)}
  </select></h1>`;
}

/** After a change of the view, the focus goes to its beginning, so that a screen reader reads its name. */
function useFocus(title) {
  const main = useRef();
  useEffect(() => {
    if (document.activeElement?.closest("nav, .chambers")) {
      main.current.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }, [title]);
  return main;
}

showInDialogs(AllSafe);
translateBy(translated);
render(html`<${Page} />`, document.getElementById("page"));
keepFocus();
closeMenus();
measureBars();

async function ask() {
  const before = session.value?.user;
  await askSession().catch(() => {}); // without an answer it is asked again
  if (before && !session.value.user && !needsLogin.value) notify(t("log_in_ended"), "bad"); // reading needs none
}
ask();
begin();
beginApp();
connection.follow(({ isConnected }) => isConnected && ask());
setInterval(() => session.value?.access === "couchdb" && connection.value.isConnected && ask(), SESSION_MS);
