import { html } from "../lib/html.js";

export function Recipes({ environment }) {
  return html``;
}
