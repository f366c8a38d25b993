/** Which tiles the first view has, in which order. The user's choice is kept in the browser. */
import { keep, kept } from "./kept.js";

const ORDER = ["air_temperature", "air_humidity", "air_carbon_dioxide", "light_ppfd", "light_illuminance", "water_potential_hydrogen", "water_electrical_conductivity", "water_level", "water_temperature"];
const BESIDE = ["light_daily_integral", "air_vapour_pressure_deficit", "air_dew_point"]; // calculated: on wide screens only

const place = (environment) => `tiles/${environment}`;

/** {order, shown}: the names as the user ordered them, and {name: whether it is shown} where the user chose. */
export const choiceOf = (environment) => ({ order: [], shown: {}, ...kept(place(environment), {}) });
export const choose = (environment, choice) => keep(place(environment), choice);

/**
 * All variables that can be a tile, [{variable, isShown, isWide}] in their order; `isWide`: on wide screens only.
 *
 * `wanted`: the names of those with a set point of their own. The light is one tile: its PPFD, or else what is set.
 */
export function tilesOf(variables, wanted, { order, shown }) {
  const offered = variables.filter((each) => (each.measured || each.hasValue) && each.unit !== "switch");
  const names = offered.map((each) => each.variable);
  const light = names.includes("light_ppfd") && !wanted.has("light_illuminance") ? "light_illuminance" : "light_ppfd"; // is left out
  const usual = ({ variable, derived }) => variable !== light && (!derived || variable === "light_ppfd" || wanted.has(variable));
  const rank = (name) => (order.includes(name) ? order.indexOf(name) : 100 + (ORDER.indexOf(name) + 1 || 50));
  return offered.map((variable) => {
    const name = variable.variable;
    const isWide = shown[name] === undefined && !usual(variable) && BESIDE.includes(name);
    return { variable, isWide, isShown: shown[name] ?? (usual(variable) || isWide) };
  }).sort((one, other) => one.isWide - other.isWide || rank(one.variable.variable) - rank(other.variable.variable));
}
