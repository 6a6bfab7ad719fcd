// Small icons as inline SVG; they take the colour of the text.

import { svg, html } from './vendor/lit-html/lit-html.js';

const SHAPES = {
  alert: svg`<path d="M8 2.5 14.5 13.5h-13Z"/><path d="M8 6.5v3.5M8 11.8v.1"/>`,
  agent: svg`<rect x="3" y="5.5" width="10" height="7.5" rx="2"/><path d="M8 5.5V3M6 8.7v1M10 8.7v1M1.5 8.5v2M14.5 8.5v2"/>`,
  arrow_up: svg`<path d="M8 13V3M4 7l4-4 4 4"/>`,
  arrow_down: svg`<path d="M8 3v10M4 9l4 4 4-4"/>`,
  branch: svg`<circle cx="4.5" cy="3.5" r="1.5"/><circle cx="4.5" cy="12.5" r="1.5"/><circle cx="11.5" cy="5.5" r="1.5"/><path d="M4.5 5v6M11.5 7c0 3-7 1.5-7 4"/>`,
  check: svg`<path d="m3 8.5 3.5 3.5L13 4.5"/>`,
  chevron: svg`<path d="m6 4 4 4-4 4"/>`,
  clock: svg`<circle cx="8" cy="8" r="5.5"/><path d="M8 5v3.2l2 1.3"/>`,
  close: svg`<path d="m4 4 8 8M12 4l-8 8"/>`,
  copy: svg`<rect x="5.5" y="5.5" width="8" height="8" rx="1.5"/><path d="M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2"/>`,
  dots: svg`<path d="M3.5 8h.1M8 8h.1M12.5 8h.1" stroke-width="2.2"/>`,
  file: svg`<path d="M4 2h5l3 3v9H4ZM9 2v3h3"/>`,
  help: svg`<circle cx="8" cy="8" r="6"/><path d="M6.3 6.3A1.8 1.8 0 1 1 8 8.6v.7M8 11.4v.1"/>`,
  image: svg`<rect x="2" y="3" width="12" height="10" rx="1.5"/><circle cx="5.5" cy="6.5" r="1"/><path d="m2.5 12 3.5-3.5 2 2 3-3 3 3"/>`,
  menu: svg`<path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11"/>`,
  minus: svg`<path d="M4 8h8"/>`,
  panel: svg`<rect x="2" y="3" width="12" height="10" rx="1.5"/><path d="M10 3v10"/>`,
  plus: svg`<path d="M8 3v10M3 8h10"/>`,
  question: svg`<path d="M2.5 3h11v8h-6l-3 2.5V11h-2Z"/>`,
  retry: svg`<path d="M13 8a5 5 0 1 1-1.6-3.7M13 2.5v2.8h-2.8"/>`,
  search: svg`<circle cx="7" cy="7" r="4.3"/><path d="m10.3 10.3 3.2 3.2"/>`,
  send: svg`<path d="M8 13V3.5M4 7.2 8 3l4 4.2"/>`,
  settings: svg`<path d="M2.5 5h6M12 5h1.5M2.5 11H4M7.5 11h6"/><circle cx="10.2" cy="5" r="1.7"/><circle cx="5.8" cy="11" r="1.7"/>`,
  shield: svg`<path d="M8 1.8 13 4v4c0 3-2 5-5 6.2C5 13 3 11 3 8V4Z"/>`,
  spark: svg`<path d="M8 2.2 9.4 6.6 13.8 8 9.4 9.4 8 13.8 6.6 9.4 2.2 8l4.4-1.4Z"/>`,
  stop: svg`<rect x="4" y="4" width="8" height="8" rx="1.5" fill="currentColor"/>`,
  terminal: svg`<path d="m3.5 5 3 3-3 3M8.5 11h4"/>`,
  undo: svg`<path d="M5.5 3 2.5 6l3 3M2.5 6H10a3.5 3.5 0 0 1 0 7H6"/>`,
};

/** Draw an icon. It is decoration: its button or text carries the name. */
export function icon(name) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">${SHAPES[name]}</svg>`;
}
