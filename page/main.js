/** The frame of the page: header, problems, navigation, and one view. */
import { clock, isAbroad } from "./lib/format.js";
import { keepFocus, measureBars } from "./lib/frame.js";
import { html, render, useEffect, useRef } from "./lib/html.js";
import { t } from "./lib/i18n.js";
import { begin, chambers, connection, growdTime, needsLogin } from "./lib/live.js";
import { Loaded, Notices, notify, showInDialogs } from "./lib/parts.js";
import { href, route } from "./lib/route.js";
import { askSession, session } from "./lib/session.js";
import { useSignal } from "./lib/signal.js";
import { AllSafe, Failed, Held } from "./views/all_safe.js";
import { Connection } from "./views/connection.js";
import { LogIn, User } from "./views/login.js";
import { Now } from "./views/now.js";
import { Notes, Title, Wrong } from "./views/wrong.js";

/** The views in the order of the navigation; those that are seldom open are loaded when they are. */
const VIEWS = {
  now: async () => Now,
  charts: async () => (await import("./views/charts.js")).Charts,
  recipes: async () => (await import("./views/recipes.js")).Recipes,
  devices: async () => (await import("./views/devices.js")).Devices,
  journal: async () => (await import("./views/journal.js")).Journal,
  data: async () => (await import("./views/data.js")).Data,
};
const SESSION_MS = 60_000; // a login ends without a request of its own
const ALL = "all"; // in place of an environment: the overview of all

const shownName = (environment) => environment.replaceAll("_", " ");

function Page() {
  const { environment: wanted, view: asked } = useSignal(route);
  const environments = useSignal(chambers).map((each) => each.environment);
  const mustLogIn = useSignal(needsLogin);
  useSignal(session);
  const several = environments.length > 1;
  const view = Object.hasOwn(VIEWS, asked) ? asked : "now";
  const isAll = several && !environments.includes(wanted);
  const environment = environments.includes(wanted) ? wanted : environments[0] ?? "";
  const title = isAll ? t("all") : [t(view), several && shownName(environment)].filter(Boolean).join(" · ");
  const main = useFocus(title);
  return html`
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), main.current.focus())}>${t("skip")}</a>
    <header onKeyDown=${closeMenu}>
      <div class="who"><h1>${several && !isAll ? shownName(environment) : "growd"}</h1>
      ${!mustLogIn && html`<${Notes} />`}
      ${(!mustLogIn || session.value?.user) && html`<${User} />`}</div>
      <${AllSafe} />
    </header>
    <${Title} name=${title} />
    <${Failed} />
    ${mustLogIn && html`<main><${LogIn} reason=${mustLogIn} /></main>`}
    <div hidden=${Boolean(mustLogIn)}>
      <section aria-label=${t("problems")}>
        <${Connection} />
        <${Held} />
        <${Wrong} environment=${environment} />
        ${wanted && environment && !several && wanted !== environment && wanted !== ALL && html`<p class="bar warn" role="alert">
          ${t("other_chamber", { wanted: shownName(wanted), name: shownName(environment) })}</p>`}
      </section>
      ${several && html`<${Environments} all=${environments} current=${isAll ? ALL : environment} view=${view} />`}
      ${!isAll && html`<nav aria-label=${t("nav")}>
        ${Object.keys(VIEWS).map((name) => html`<a key=${name} href=${href(environment, name)} aria-current=${name === view ? "page" : null}>${t(name)}</a>`)}
      </nav>`}
      <main ref=${main} id="main" tabindex="-1" aria-label=${title}>
        <h2 class="hidden">${title}</h2>
        <${Zone} />
        ${isAll ? html`<${Loaded} key=${ALL} load=${overview} />`
          : environment && html`<${Loaded} key=${`${environment}/${view}`} load=${VIEWS[view]} first=${view === "now" ? Now : null} environment=${environment} />`}
      </main>
    </div>
    <${Notices} />`;
}

/** Which zone all times are of, if it is not that of this device. */
function Zone() {
  const now = useSignal(growdTime);
  return now > 0 && isAbroad(now) && html`<p class="faint small">${t("zone", { name: chambers.value[0]?.time_zone, time: clock(now) })}</p>`;
}

const overview = async () => (await import("./views/overview.js")).Overview;

function Environments({ all, current, view }) {
  return html`<nav class="environments" aria-label=${t("chamber")}>
    ${[ALL, ...all].map((each) => html`<a key=${each} href=${href(each, each === ALL ? "now" : view)} aria-current=${each === current ? "page" : null}>
      ${each === ALL ? t("all") : shownName(each)}</a>`)}
  </nav>`;
}

/** Escape closes an open menu, as it does a dialog. */
function closeMenu({ key, target }) {
  const menu = key === "Escape" && target.closest("details[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
}

/** After a change of the view, the focus goes to its beginning, so that a screen reader reads its name. */
function useFocus(title) {
  const main = useRef();
  useEffect(() => {
    if (document.activeElement?.closest("nav")) {
      main.current.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }, [title]);
  return main;
}

showInDialogs(AllSafe);
render(html`<${Page} />`, document.getElementById("page"));
keepFocus();
measureBars();

async function ask() {
  const before = session.value?.user;
  await askSession().catch(() => {}); // without an answer it is asked again
  if (before && !session.value.user && !needsLogin.value) notify(t("log_in_ended"), "bad"); // reading needs none
}
ask().then(begin);
connection.follow(({ isConnected }) => isConnected && ask());
setInterval(() => session.value?.access === "couchdb" && connection.value.isConnected && ask(), SESSION_MS);
