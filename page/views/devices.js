import { html } from "../lib/html.js";

export function Devices({ environment }) {
  return html``;
}
