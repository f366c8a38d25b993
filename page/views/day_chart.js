/** A chart of the last hours, until growd's chart component takes its place. */
import { html } from "../lib/html.js";
import { Chart } from "./chart.js";

const HOUR = 3_600;

export const DayChart = ({ environment, variables, hours, lanes = [] }) => html`<${Chart} environment=${environment} variables=${variables} outputs=${lanes} range=${{ seconds: hours * HOUR }} />`;
