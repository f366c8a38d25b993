/** Logging in and out with a user of the database, if access asks for one. */
import { duration } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Dialog } from "../lib/parts.js";
import { logIn, logOut, mayOperate, session } from "../lib/session.js";
import { useSignal } from "../lib/signal.js";

/** The form; `reason` says why growd wants a login, `send(user, password)` logs in. */
export function LogIn({ reason, send = logIn, onDone = () => {} }) {
  const [error, setError] = useState("");
  const [wait, setWait] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const form = useRef();
  useEffect(() => form.current.elements.user.focus(), []);
  useEffect(() => {
    if (wait <= 0) return undefined;
    const timer = setTimeout(() => setWait(wait - 1), 1_000);
    return () => clearTimeout(timer);
  }, [wait]);
  const submit = async (event) => {
    event.preventDefault();
    const { user, password } = event.target.elements;
    setBusy(true);
    setError("");
    try {
      await send(user.value, password.value);
      onDone();
    } catch (refusal) {
      setError(refusal.message);
      setWait(refusal.retryAfter ?? 0);
      password.value = "";
      password.focus();
    } finally {
      setBusy(false);
    }
  };
  return html`<form ref=${form} class="card log_in" onSubmit=${submit}>
    <h2>${t("log_in")}</h2>
    ${reason && html`<p class="faint">${reason}</p>`}
    <label>${t("user")}<input name="user" required autocomplete="username" autocapitalize="none" spellcheck=${false} /></label>
    <label>${t("password")}<input name="password" type="password" required autocomplete="current-password" /></label>
    <p role="alert" class="bad">${error} ${wait > 0 && t("wait_for", { time: duration(wait) })}</p>
    <button class="primary" disabled=${isBusy || wait > 0}>${t("log_in")}</button>
  </form>`;
}

/** Who is logged in. Nothing where no login exists. */
export function User() {
  const { access, user } = useSignal(session) ?? {};
  const [isOpen, setOpen] = useState(false);
  if (access !== "couchdb") return null;
  if (!user) {
    return html`<button onClick=${() => setOpen(true)}>${t("log_in")}</button>
      ${isOpen && html`<${Dialog} title=${t("log_in")} onClose=${() => setOpen(false)}><${LogIn} onDone=${() => setOpen(false)} />
        <button onClick=${() => setOpen(false)}>${t("cancel")}</button><//>`}`;
  }
  return html`<details class="menu"><summary>${user}</summary>
    <div class="card">${!mayOperate() && html`<p>${t("reader")}</p>`}<button onClick=${logOut}>${t("log_out")}</button></div>
  </details>`;
}
