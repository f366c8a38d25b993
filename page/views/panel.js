/** The chart beside the tiles: the last 24 hours of up to four variables, which this browser keeps, with the outputs below. */
import { html, useState } from "../lib/html.js";
import { keep, kept } from "../lib/kept.js";
import { useChamber } from "../lib/live.js";
import { Chart, lanesOf } from "./chart.js";

const FIRST = ["air_temperature", "air_humidity"];

export function Panel({ environment }) {
  const { variables, devices } = useChamber(environment);
  const place = `panel/${environment}`;
  const offered = variables.filter((each) => each.measured && each.unit !== "switch").map((each) => each.variable);
  const [chosen, setChosen] = useState(() => kept(place, FIRST));
  const known = chosen.filter((name) => offered.includes(name));
  const choose = (names) => (keep(place, names), setChosen(names));
  return html`<${Chart} environment=${environment} variables=${known.length ? known : offered.slice(0, 2)} lanes=${lanesOf(devices)} offered=${offered} onChoose=${choose} />`;
}
