// The lasting approvals of a session, which can be revoked.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { openDialog } from './dialogs.js';
import { t } from './strings.js';
import { showHidden } from './visible.js';

/**
 * Show the lasting approvals.
 *
 * @param {object} grants read() returns the answer of GET …/grants, or null after an error; revoke(scope) returns
 *   null after an error, and is null if the user may not revoke.
 */
export function grantsDialog({ read, revoke }) {
  let scopes = null;
  let stored = [];
  let busy = false;
  const load = async () => {
    const found = await read();
    scopes = found?.grants ?? scopes ?? [];
    stored = found?.stored ?? stored;
  };
  const draw = (close, again) => {
    const remove = async (scope) => {
      busy = true;
      again();
      await revoke(scope);
      await load();
      busy = false;
      again();
    };
    return html`<p class="quiet">${t('grants_text')}</p>
      ${scopes === null ? html`<p class="quiet">${t('loading')}</p>` : nothing}
      ${scopes?.length === 0 ? html`<p class="quiet">${t('no_grants')}</p>` : nothing}
      <ul class="grants">${(scopes ?? []).map((scope) => html`<li><code>${showHidden(scope)}</code>
        ${stored.includes(scope) ? html`<span class="quiet">${t('stored_grant')}</span>` : nothing}
        ${revoke === null ? nothing : html`<button type="button" class="button small" aria-label=${t('revoke_scope', { scope })} ?disabled=${busy} @click=${() => remove(scope)}>${t('revoke')}</button>`}</li>`)}</ul>
      <footer><button type="button" class="button" @click=${() => close()}>${t('close')}</button></footer>`;
  };
  return openDialog(t('grants'), draw, {
    onOpen: async (again) => {
      await load();
      again();
    },
  });
}
