// The sheet of keys.

import { html } from './vendor/lit-html/lit-html.js';
import { openDialog } from './dialogs.js';
import { t } from './strings.js';

const KEYS = [
  ['keys_input', [
    ['Enter', 'key_send'], ['Shift+Enter', 'key_newline'], ['/', 'key_slash'], ['@', 'key_files'],
    ['↑', 'key_history'], ['Esc', 'key_leave'],
  ]],
  ['keys_decide', [
    ['a', 'key_accept'], ['x', 'key_reject'], ['e', 'key_edit'], ['1–9', 'key_option'],
    ['[ ]', 'key_next_waiting'],
  ]],
  ['keys_move', [
    ['i', 'key_input'], ['j k', 'key_rows'], ['o', 'key_fold'], ['g G', 'key_ends'],
    ['Ctrl+F', 'key_find'], ['s', 'key_sessions'], ['n', 'key_new'], ['p', 'key_panel'], ['m', 'key_model'],
    ['Esc Esc', 'key_stop'], ['?', 'key_help'],
  ]],
];

/** Show the keys. */
export function openHelp() {
  return openDialog(() => t('keys'), () => html`<div class="key-sheet">
    ${KEYS.map(([title, keys]) => html`<section><h3>${t(title)}</h3><dl>
      ${keys.map(([key, about]) => html`<div><dt>${key.split(' ').map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${t(about)}</dd></div>`)}
    </dl></section>`)}
  </div><p class="quiet">${t('keys_note')}</p>`, { wide: true });
}
