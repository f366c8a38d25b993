/** The first view: the verdict, the recipe in a line, a tile for each value, the outputs, and a chart where there is room. */
import { moment } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t, variableName } from "../lib/i18n.js";
import { Age, levelText, useWritten } from "../lib/levels.js";
import { useChamber, useStatus, useTopic, variableOf } from "../lib/live.js";
import { imported, Loaded } from "../lib/parts.js";
import { href, open as openOver, route } from "../lib/route.js";
import { useSignal } from "../lib/signal.js";
import { choiceOf, tilesOf } from "../lib/tiles.js";
import { holderOf } from "../lib/verdict.js";
import { useDay } from "../lib/day.js";
import { addressOf, useNewestPhoto } from "../lib/photos.js";
import { RecipeLine } from "./recipe_line.js";
import { Tile } from "./tile.js";
import { Verdict } from "./verdict.js";

const WITH_CHART = "(min-width: 48rem)";
const WITH_ASIDE = "(min-width: 100rem)";
const BEFORE_PHOTO = 4; // tiles; a phone then shows the photo without scrolling
const ARRANGE = "arrange"; // in place of a variable in the address

export function Now({ environment }) {
  const { variables, devices } = useChamber(environment);
  const status = useStatus();
  const [choice, setChoice] = useState(() => choiceOf(environment));
  const opened = useSignal(route).query.get("of");
  const isReady = useReady(status);
  const hasChart = useMedia(WITH_CHART);
  const hasAside = useMedia(WITH_ASIDE);
  const mine = (status?.variables ?? []).filter((each) => each.environment === environment);
  const wanted = new Set(mine.filter(({ desired }) => typeof desired?.value === "number" && !desired.by.includes("/planners/")).map((each) => each.variable));
  const heard = new Set(mine.filter((each) => each.measured).map((each) => each.variable));
  const manual = variables.filter((each) => each.manual).map((each) => each.variable);
  const usual = tilesOf(variables, wanted, choice).filter((each) => each.isShown).map((each) => each.variable.variable);
  const day = useDay(environment, [...usual, ...manual]);
  const hasValue = ({ variable, manual: isManual }) => heard.has(variable) || (isManual && Boolean(lastOf(day?.series[variable])));
  const all = tilesOf(variables.map((each) => ({ ...each, hasValue: hasValue(each) })), wanted, choice);
  const shown = all.filter((each) => each.isShown);
  const outputs = devices.filter((each) => each.role === "output");
  const contacts = variables.filter((each) => each.measured && each.unit === "switch");
  const open = (of) => openOver(href(environment, "now", { of }));
  const tiles = shown.map(({ variable, isWide }) => html`<${Tile} key=${variable.variable} environment=${environment} variable=${variable} day=${day} isWide=${isWide}
    kept=${variable.manual ? lastOf(day?.series[variable.variable]) : undefined} onOpen=${() => open(variable.variable)} />`);
  if (!hasAside) tiles.splice(BEFORE_PHOTO, 0, html`<${NewestPhoto} key="photo" environment=${environment} />`);
  return html`<div class=${`first ${hasAside ? "with_aside" : ""}`}>
    <${Verdict} environment=${environment} />
    <${RecipeLine} environment=${environment} />
    <section class="tiles" aria-label=${t("now_values")}>
      ${tiles}
      ${shown.length > 0 && html`<button class="arrange wide_only" onClick=${() => open(ARRANGE)}>${t("tiles_arrange")}</button>`}
      ${variables.length > 0 && !shown.length && html`<p class="nothing">${t("now_nothing")} <a href=${href(environment, "devices")}>${t("devices")}</a></p>`}
    </section>
    ${hasChart && html`<section class="panel" aria-label=${t("charts")}>${isReady && html`<${Loaded} load=${panel} environment=${environment} />`}</section>`}
    ${hasAside && html`<aside class="aside" aria-label=${t("now_aside")}>${isReady && html`<${Loaded} load=${aside} environment=${environment} />`}</aside>`}
    <section class="outs" aria-label=${t("outputs")}>
      ${outputs.map((device) => html`<${Output} key=${device.name} environment=${environment} device=${device} onOpen=${open} />`)}
      ${contacts.map((variable) => html`<${Contact} key=${variable.variable} environment=${environment} variable=${variable} onOpen=${open} />`)}
      ${shown.length > 0 && html`<button class="chip quiet narrow_only" onClick=${() => open(ARRANGE)}>${t("tiles_arrange")}</button>`}
    </section>
    ${opened && status && html`<${Loaded} key=${opened === ARRANGE} load=${opened === ARRANGE ? arrange : sheet} environment=${environment} name=${opened}
      all=${all} kept=${manual.includes(opened) ? lastOf(day?.series[opened]) : undefined} onChoice=${setChoice} />`}
  </div>`;
}

const sheet = imported(() => import("./sheet.js"), "VariableSheet");
const arrange = imported(() => import("./arrange.js"), "Arrange");
const panel = imported(() => import("./panel.js"), "Panel");
const aside = imported(() => import("./aside.js"), "Aside");

/** Whether values are there, so that what follows does not delay them. A sheet is then fetched before it is asked for. */
function useReady(status) {
  const isReady = Boolean(status);
  useEffect(() => {
    if (isReady) sheet().catch(() => {}); // it is loaded again when it is opened
  }, [isReady]);
  return isReady;
}

function useMedia(query) {
  const media = matchMedia(query);
  const [is, setIs] = useState(media.matches);
  useEffect(() => {
    const follow = () => setIs(media.matches);
    media.addEventListener("change", follow);
    return () => media.removeEventListener("change", follow);
  }, [query]);
  return is;
}

/** The last stored value of a variable that nothing measures now, as a message; undefined without one. */
function lastOf(series) {
  const { before, time, last } = series?.measured ?? {};
  if (time?.length) return { time: time.at(-1), value: last.at(-1), quality: "ok", isKept: true };
  return before && before.value !== null ? { ...before, quality: "ok", isKept: true } : undefined;
}

/** An output with what it does now; all channels of a lamp are one. A tap opens its sheet. */
function Output({ environment, device, onOpen }) {
  const [name] = device.variables;
  const isLamp = device.kind === "lamp";
  const { level, text } = useWritten(environment, name, isLamp ? null : device);
  const isHeld = !["", "the hold"].includes(holderOf(useStatus(), environment, name));
  return html`<button class=${`chip ${level > 0 ? "on" : ""} ${isHeld ? "warn" : ""}`} aria-haspopup="dialog" onClick=${() => onOpen(name)}>
    ${isLamp ? t("lamp") : variableName(name)} <b>${level === null ? "–" : text}</b>${isHeld && html` <span aria-hidden="true">▲</span><span class="hidden">${t("held_interlock")}</span>`}</button>`;
}

/** The newest photo of a camera with its age; it leads to those of a day beside the charts. */
export function NewestPhoto({ environment, isWhole = false }) {
  const photo = useNewestPhoto(environment);
  return photo && html`<a class=${`tile photo ${isWhole ? "whole" : ""}`} href=${href(environment, "charts", { range: "day" })}>
    <img src=${addressOf(photo, !isWhole)} width=${photo.width} height=${photo.height} alt=${t("photo_of", { time: moment(photo.time) })} />
    <span class="small">${t("photo")} · <${Age} time=${photo.time} /></span></a>`;
}

/** A contact, such as a door: what it says now. */
function Contact({ environment, variable, onOpen }) {
  const message = useTopic(`${environment}/measured/${variable.variable}`);
  const isKnown = message?.quality === "ok";
  return html`<button class=${`chip ${isKnown || !message ? "" : "warn"}`} aria-haspopup="dialog" onClick=${() => onOpen(variable.variable)}>
    ${variableName(variable.variable)} <b>${isKnown ? levelText(variableOf(environment, variable.variable), message.value) : message ? t(`quality_${message.quality}`) : "–"}</b></button>`;
}
