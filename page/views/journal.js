import { html } from "../lib/html.js";

export function Journal({ environment }) {
  return html``;
}
