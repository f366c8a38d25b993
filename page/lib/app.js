/** What a secure origin allows: the app that opens without growd, and notifications of new failures. */
import { keep, kept } from "./kept.js";
import { status } from "./live.js";
import { Signal } from "./signal.js";
import { problemsOf, sentence } from "./verdict.js";

const PLACE = "notifications";

/** The browser's offer to install the page, null if there is none. */
export const install = new Signal(null);

export const maySend = () => Notification.permission !== "denied";
export const notifications = () => kept(PLACE, false) && "Notification" in window && Notification.permission === "granted";

let known = null; // the failures of the last status

/** Install the service worker, and notify of new failures while nobody looks at the page. */
export async function beginApp() {
  addEventListener("beforeinstallprompt", (event) => (event.preventDefault(), (install.value = event)));
  addEventListener("appinstalled", () => (install.value = null));
  if (!isSecureContext || !navigator.serviceWorker) return;
  await navigator.serviceWorker.register(new URL("worker.js", location.origin + location.pathname));
  const { active } = await navigator.serviceWorker.ready;
  const loaded = [...document.querySelectorAll("link[href], script[src]")].map((each) => each.href || each.src);
  active.postMessage([...new Set([...loaded, ...performance.getEntriesByType("resource").map((each) => each.name)])].filter((each) => each.includes("/page/")));
  status.follow(tell);
}

function tell(status) {
  const failures = problemsOf(status).filter(({ severity }) => severity === "failure").map((each) => sentence(each));
  const come = failures.filter((text) => known && !known.includes(text));
  known = failures;
  if (document.hidden && notifications() && come.length) navigator.serviceWorker.ready.then((worker) => worker.showNotification("growd", { body: come.join("\n"), tag: "failure", icon: document.querySelector("link[rel=apple-touch-icon]").href }));
}

/** Switch notifications; whether they are on then. The browser asks its user. */
export async function setNotifications(isOn) {
  keep(PLACE, isOn && (await Notification.requestPermission()) === "granted");
  return notifications();
}
