/** The names of the guides through calibrations and autotunes. */
import { t, variableName } from "../lib/i18n.js";

/** {variable, kind, says}: what a service calibrates or tunes, and its texts by their keys. CO₂ has its own. */
export function guideOf(service) {
  const [variable, name] = service.split("/").slice(-2);
  const kind = name === "autotune" && variable !== "air_carbon_dioxide" ? "tune" : variable === "pump_calibration" ? "pump" : name;
  return { variable, kind, says: (key, values) => t(`calibration_${key}_${kind}`, { name: variableName(variable), ...values }) };
}

/** The name of a guide: "Tune the CO₂ controller". */
export function guideName(service) {
  const { variable, kind } = guideOf(service);
  return t(`calibration_${kind}`, { name: variableName(variable) });
}
