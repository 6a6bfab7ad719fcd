// Copy buttons that confirm for 1.5 seconds.

import { t } from './strings.js';

const CONFIRMED = 1_500; // milliseconds

/** Copy a text; return whether that worked. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers refuse the clipboard on plain HTTP from another machine; this older way still works.
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'copy-area';
    document.body.append(area);
    area.select();
    const worked = document.execCommand('copy');
    area.remove();
    return worked;
  }
}

/** Copy a text and show on a button that it was copied. */
export async function copyFrom(button, text) {
  const worked = await copyText(text);
  const before = button.dataset.label ?? button.getAttribute('aria-label');
  button.dataset.label = before;
  const said = worked ? t('copied') : t('copy_failed');
  button.classList.add(worked ? 'is-copied' : 'is-not-copied');
  button.setAttribute('aria-label', said);
  clearTimeout(button.copyTimer);
  button.copyTimer = setTimeout(() => {
    button.classList.remove('is-copied', 'is-not-copied');
    button.setAttribute('aria-label', button.dataset.label);
  }, CONFIRMED);
  return worked;
}

/** Return a button that copies what a function returns. */
export function copyButton(getText) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'icon-button copy';
  button.setAttribute('aria-label', t('copy'));
  button.title = t('copy');
  button.addEventListener('click', () => copyFrom(button, getText()));
  return button;
}
