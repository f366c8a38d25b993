import { html } from "../lib/html.js";

export function LogIn({ reason }) {
  return html`<p>${reason}</p>`;
}

export function User() {
  return null;
}
