// Rewind, undo and the diffs of files, each with a preview.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { openDialog } from './dialogs.js';
import { drawDiff, diffChoice } from './diff_view.js';
import { oneLine } from './format.js';
import { t } from './strings.js';

function drawFiles(preview) {
  const files = preview?.files ?? preview?.changes ?? [];
  if (files.length === 0) {
    return html`<p class="quiet">${t('no_files_change')}</p>`;
  }
  return html`<ul class="preview-files">${files.slice(0, 200).map((file) => {
    const path = typeof file === 'string' ? file : file.path;
    return html`<li><code>${path}</code>${file.action ? html` <span class="quiet">${file.action}</span>` : nothing}${file.added || file.removed ? html` <span class="line-counts"><b class="added">+${file.added ?? 0}</b> <b class="removed">−${file.removed ?? 0}</b></span>` : nothing}${file.conflict ? html` <span class="tag failed">${t('conflict')}</span>` : nothing}</li>`;
  })}</ul>
  ${(preview.problems ?? preview.conflicts ?? []).map((problem) => html`<p class="warning-text">${typeof problem === 'string' ? problem : problem.message ?? problem.path}</p>`)}`;
}

/** Ask how far to go back; return {conversation, files} or undefined. */
export function rewindDialog(entry, readPreview) {
  let preview = null;
  let conversation = true;
  let files = true;
  return openDialog(t('rewind_title'), (close, again) => html`
    <p>${t('rewind_text')}</p>
    <blockquote class="plain-text">${oneLine(entry.typed || entry.text, 300)}</blockquote>
    <label class="setting"><span>${t('rewind_conversation')}</span><input type="checkbox" role="switch" .checked=${conversation} @change=${(event) => { conversation = event.target.checked; again(); }}></label>
    <label class="setting"><span>${t('rewind_files')}</span><input type="checkbox" role="switch" .checked=${files} @change=${(event) => { files = event.target.checked; again(); }}></label>
    ${preview === null ? html`<p class="quiet">${t('loading')}</p>` : files ? drawFiles(preview) : nothing}
    <footer><button type="button" class="button" @click=${() => close()}>${t('cancel')}</button>
      <button type="button" class="button primary" autofocus ?disabled=${preview === null || (!conversation && !files)} @click=${() => close({ conversation, files })}>${t('rewind')}</button></footer>`,
  {
    onOpen: async (again) => {
      preview = (await readPreview()) ?? {};
      again();
    },
  });
}

/** Show what an undo changes; return true if the user wants it. */
export function undoDialog(preview, what) {
  return openDialog(t('undo_title'), (close) => html`
    <p>${what}</p>
    ${preview.text ? html`<pre class="card-text" tabindex="0">${preview.text}</pre>` : nothing}
    ${drawFiles(preview)}
    ${preview.diff ? drawDiff({ diff: preview.diff }, { width: 600, again: () => {} }) : nothing}
    <footer><button type="button" class="button" @click=${() => close(false)}>${t('cancel')}</button>
      <button type="button" class="button primary" autofocus @click=${() => close(true)}>${t('undo')}</button></footer>`);
}

/** Show the diff of a file. */
export function diffDialog(path, diff) {
  let limit = 400;
  return openDialog(path, (_close, again) => {
    const width = Math.min(innerWidth - 48, 1300);
    return html`<div class="diff-title">${diffChoice(width, again)}</div>
      ${drawDiff({ diff }, { width, limit, more: () => { limit += 400; again(); }, again })}`;
  }, { wide: true });
}
