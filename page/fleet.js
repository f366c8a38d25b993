/** The page of a fleet: all devices of a receiver on one screen. */
import { duration } from "./lib/format.js";
import { measureBars } from "./lib/frame.js";
import { html, useEffect, useRef, useState } from "./lib/html.js";
import { load, t } from "./lib/i18n.js";
import { begin, fleet, logIn, login, logOut } from "./lib/fleet_list.js";
import { useSignal } from "./lib/signal.js";
import { render } from "./vendor/preact.js";
import { Devices } from "./views/fleet_devices.js";
import { LogIn } from "./views/login.js";

await load("views", "fleet");

const TICK_MS = 5_000; // ages on the page go on

function Fleet() {
  const { devices, answered, problem } = useSignal(fleet);
  const user = useSignal(login)?.user;
  const [now, setNow] = useState(Date.now);
  const main = useRef();
  const wasOut = useRef(!user);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    if (user && wasOut.current) main.current.focus(); // the form with the focus has gone
    wasOut.current = !user;
  }, [user]);
  useEffect(() => {
    const failures = devices?.filter(({ state }) => state === "failure").length ?? 0;
    document.title = `${problem ? `(${t("old")}) ` : failures ? `(${failures}) ` : ""}${t("fleet")}`;
    document.documentElement.dataset.connection = problem ? "lost" : devices ? "ok" : "connecting";
  }, [devices, problem]);
  const reason = problem.replace(/; try again$/, ""); // the page does
  return html`
    <header><h1>${t("fleet")}</h1>
      ${user && html`<button onClick=${logOut}>${t("log_out")} (${user})</button>`}
    </header>
    ${user && problem && html`<p class="bar bad" role="alert">${devices
      ? t("fleet_lost", { reason, time: duration((Math.max(now, Date.now()) - answered) / 1000) })
      : t("fleet_none", { reason })}</p>`}
    <main id="main" tabindex="-1" ref=${main}>
      ${!user ? html`<${LogIn} send=${logIn} reason=${problem || t("fleet_log_in")} />` : devices ? html`<${Devices} devices=${devices} />` : !problem && html`<p>${t("loading")}</p>`}
    </main>`;
}

render(html`<${Fleet} />`, document.getElementById("page"));
measureBars();
begin();
