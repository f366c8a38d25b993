import { html } from "../lib/html.js";

export function Connection({ environment }) {
  return html``;
}
