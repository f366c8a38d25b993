// The page of the API: RapiDoc shows openapi.json, in the colours that the browser prefers.

import './vendor/rapidoc.js';

const dark = matchMedia('(prefers-color-scheme: dark)');
const shown = document.createElement('rapi-doc');
const attributes = {
  'spec-url': '0.0.1/openapi.json',
  'render-style': 'read',
  'load-fonts': 'false',
  'show-header': 'false',
  'primary-color': '#2e7d32',
};
for (const [name, value] of Object.entries(attributes)) shown.setAttribute(name, value);
const setTheme = () => shown.setAttribute('theme', dark.matches ? 'dark' : 'light');
dark.addEventListener('change', setTheme);
setTheme();
document.body.append(shown);
