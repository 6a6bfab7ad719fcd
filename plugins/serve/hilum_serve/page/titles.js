// Titles of sessions, in the list and at the top.

import { html, nothing } from './vendor/lit-html/lit-html.js';

const COPY_MARK = /^(.*)( \((?:copy|from prompt)[^()]*\))$/s;

/** Draw the title of a session: of a long one, the part that tells copies apart stays visible. */
export function drawTitle(title) {
  const [, base = title, mark = ''] = COPY_MARK.exec(title) ?? [];
  return html`<span class="title-base">${base}</span>${mark ? html`<span class="title-mark">${mark}</span>` : nothing}`;
}
