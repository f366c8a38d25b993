/** The icons of the navigation, as paths in a square of 24. */
import { html } from "./html.js";

const PATHS = {
  now: "M4 13a8 8 0 1 1 16 0M12 13l4-4M7 18h10",
  charts: "M4 4v16h16M7 15l4-5 3 3 5-7",
  recipes: "M6 4h12v16H6zM9 9h6M9 13h6",
  devices: "M8 8h8v8H8zM10 4v4M14 4v4M10 16v4M14 16v4M4 10h4M4 14h4M16 10h4M16 14h4",
  journal: "M5 19l1-4L16 5l3 3L9 18zM14 7l3 3",
  data: "M5 6c0-3 14-3 14 0v12c0 3-14 3-14 0zM5 6c0 3 14 3 14 0M5 12c0 3 14 3 14 0",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M13 5h4v4h-4zM7 15h4v4H7z",
};

export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name] ?? PATHS.data} /></svg>`;
