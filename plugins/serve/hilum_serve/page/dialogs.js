// Dialogs: confirmations, questions for a text, pickers, and pages of settings.

import { html, nothing, render } from './vendor/lit-html/lit-html.js';
import { repairFocus, restoreFocus } from './focus.js';
import { icon } from './icons.js';
import { t } from './strings.js';

/**
 * Show a dialog; the browser keeps the focus inside and returns it afterwards.
 *
 * @param {function} draw Function (close, again) that returns the content.
 * @param {object} options title, wide, onClose.
 * @returns {Promise} What `close` was called with; undefined if the user left.
 */
export function openDialog(title, draw, { wide = false, onOpen } = {}) {
  const dialog = document.createElement('dialog');
  dialog.className = wide ? 'dialog wide' : 'dialog';
  document.body.append(dialog);
  return new Promise((resolve) => {
    let result;
    const close = (value) => {
      result = value;
      dialog.close();
    };
    const again = () => {
      if (!dialog.isConnected) {
        return;
      }
      render(html`
        <header><h2 id="dialog-title">${typeof title === 'function' ? title() : title}</h2>
          <button type="button" class="icon-button" aria-label=${t('close')} @click=${() => close()}>${icon('close')}</button></header>
        <div class="dialog-body" tabindex="0">${draw(close, again, dialog)}</div>`, dialog);
      repairFocus();
    };
    dialog.setAttribute('aria-labelledby', 'dialog-title');
    dialog.addEventListener('close', () => {
      dialog.remove();
      restoreFocus();
      resolve(result);
    });
    dialog.addEventListener('click', (event) => {
      if (event.target === dialog) {
        close();
      }
    });
    again();
    dialog.showModal();
    dialog.querySelector('[autofocus]')?.focus();
    onOpen?.(again, dialog);
  });
}

/** Ask for a confirmation. The focus is on the safe choice: Enter alone changes nothing. */
export function confirmDialog(title, text, action, { danger = false } = {}) {
  return openDialog(title, (close) => html`
    <div class="plain-text">${text}</div>
    <footer><button type="button" class="button" autofocus @click=${() => close(false)}>${t('cancel')}</button>
      <button type="button" class="button ${danger ? 'danger' : 'primary'}" @click=${() => close(true)}>${action}</button></footer>`);
}

/** Ask for one line of text. */
export function textDialog(title, value, action) {
  return openDialog(title, (close, _again, dialog) => html`
    <form @submit=${(event) => { event.preventDefault(); close(dialog.querySelector('input').value.trim()); }}>
      <input type="text" autofocus aria-label=${title} maxlength="200" .value=${value}>
      <footer><button type="button" class="button" @click=${() => close()}>${t('cancel')}</button>
        <button type="submit" class="button primary">${action}</button></footer>
    </form>`);
}

/** Let the user choose one of several items: {value, label, about, current, disabled}. */
export function pickDialog(title, items, { search = items.length > 8 } = {}) {
  let query = '';
  return openDialog(title, (close, again) => {
    const found = items.filter((item) => `${item.label} ${item.about ?? ''}`.toLowerCase().includes(query));
    return html`
      ${search ? html`<input type="search" autofocus aria-label=${t('search')} placeholder=${t('search')} @input=${(event) => { query = event.target.value.toLowerCase(); again(); }}
        @keydown=${(event) => { if (event.key === 'Enter' && !event.isComposing && found.length && !found[0].disabled) { event.preventDefault(); close(found[0].value); } }}>` : nothing}
      <div class="choices" role="group" aria-label=${title} @keydown=${moveInList}>
        ${found.map((item, index) => html`<button type="button" class="choice" ?autofocus=${!search && (item.current || index === 0)} aria-pressed=${String(Boolean(item.current))} ?disabled=${item.disabled} @click=${() => close(item.value)}>
          <span class="choice-label">${item.label}${item.current ? html` <span class="choice-check">${icon('check')}</span>` : nothing}</span>
          ${item.about ? html`<span class="quiet">${item.about}</span>` : nothing}</button>`)}
        ${found.length ? nothing : html`<p class="quiet pad">${t('nothing_found')}</p>`}
      </div>`;
  });
}

/** Move the focus with the arrow keys. */
export function moveInList(event) {
  const buttons = [...event.currentTarget.querySelectorAll('button:enabled')];
  const index = buttons.indexOf(document.activeElement);
  const next = {
    ArrowDown: buttons[index + 1], ArrowUp: buttons[index - 1], Home: buttons[0], End: buttons.at(-1),
  }[event.key];
  if (next) {
    event.preventDefault();
    next.focus();
  }
}
