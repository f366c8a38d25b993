// The API page: RapiDoc shows openapi.json, in the colours that the browser prefers.

import './vendor/rapidoc.js';

const LIGHT = { theme: 'light', 'bg-color': '#ffffff', 'text-color': '#171c16', 'primary-color': '#1c6b3c', 'nav-bg-color': '#f4f6f3', 'nav-text-color': '#171c16' };
const DARK = { theme: 'dark', 'bg-color': '#10140f', 'text-color': '#e8ede6', 'primary-color': '#6fcf97', 'nav-bg-color': '#1a201a', 'nav-text-color': '#e8ede6' };

const shown = document.querySelector('rapi-doc');
const dark = matchMedia('(prefers-color-scheme: dark)');

function setColours() {
  for (const [name, value] of Object.entries(dark.matches ? DARK : LIGHT)) shown.setAttribute(name, value);
}

dark.addEventListener('change', setColours);
setColours();
// Where there is no room for the list of operations beside them, they are the list themselves.
shown.setAttribute('render-style', matchMedia('(width < 48rem)').matches ? 'view' : 'read');
