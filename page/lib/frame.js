/** What holds for the whole page: the focus is never lost, and nothing with the focus is behind the bars that stay. */

const CONTROLS = "button:enabled, a[href], summary";
const ALL_CONTROLS = `${CONTROLS}, input:enabled, select:enabled, textarea:enabled`;

let last = null; // what had the focus last: {element, parents, isByKeys}; null after the user has left it

/** Give the focus to the successor of a control that goes away while it has it, as most do after they were used. */
export function keepFocus() {
  addEventListener("focusin", ({ target }) => {
    const parents = [];
    for (let each = target.parentElement; each; each = each.parentElement) parents.push(each);
    last = { element: target, parents, isByKeys: target.matches(":focus-visible") };
  });
  addEventListener("focusout", ({ target, relatedTarget }) => {
    const left = last;
    if (!relatedTarget && document.hasFocus()) setTimeout(() => target.isConnected && !target.disabled && last === left && (last = null));
  });
  const found = new MutationObserver(() => {
    if (!last || (document.activeElement && document.activeElement !== document.body)) return;
    if (!last.element.isConnected) succeed(last);
    else if (!last.element.disabled) last.element.focus({ preventScroll: true }); // it was busy
  });
  found.observe(document.body, { childList: true, subtree: true, attributeFilter: ["disabled"] });
}

/** Focus what is left nearest: a control of the same part, or else the heading of the view. */
function succeed({ parents, isByKeys }) {
  last = null;
  const controls = isByKeys ? ALL_CONTROLS : CONTROLS; // a field would open the keyboard of a phone
  const main = document.querySelector("main:not([hidden] *)");
  const near = parents.find((each) => each.isConnected && (each.contains(main) || each === main || each.querySelector(controls)));
  const isPart = near && near !== main && !near.contains(main);
  const next = isPart ? near.querySelector(controls) : main.querySelector(":is(h2, h3):not(.hidden)") ?? main;
  if (!isPart) next.tabIndex = -1;
  next.focus({ preventScroll: Boolean(isPart) });
}

/** Tell style.css the height of the bars that stay while the page is scrolled: it changes with the size of the text. */
export function measureBars() {
  const style = document.documentElement.style;
  const measure = () => {
    const header = document.querySelector("header");
    const nav = document.querySelector("nav");
    style.setProperty("--top", `${header?.offsetHeight ?? 0}px`);
    style.setProperty("--bottom", `${nav && getComputedStyle(nav).position === "fixed" ? nav.offsetHeight : 0}px`);
  };
  new ResizeObserver(measure).observe(document.body);
}

/** A menu closes by Escape, as a dialog does, and by a press elsewhere. */
export function closeMenus() {
  const open = () => document.querySelectorAll("details.menu[open]");
  addEventListener("keydown", ({ key, target }) => {
    const menu = key === "Escape" && !target.closest("dialog") && target.closest("details.menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  addEventListener("click", ({ target }) => {
    if (!target.closest?.("dialog")) for (const each of open()) if (!each.contains(target)) each.open = false;
  });
}
