// Rewind, undo and the diffs of files, each with a preview.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { openDialog } from './dialogs.js';
import { drawDiff, drawLineCounts, diffChoice } from './diff_view.js';
import { oneLine } from './format.js';
import { icon } from './icons.js';
import { t } from './strings.js';

/** Draw what a preview says: the files with their changes, and what is not undone. */
function drawPreview(preview, open, again) {
  const { diffs = [], merged = [], skipped = {}, unrecorded = [], still_running: running = [] } = preview;
  const notes = [
    ...Object.entries(skipped).map(([path, reason]) => `${path}: ${reason}`),
    ...merged.map((path) => t('preview_merged', { path })),
    ...unrecorded.map((command) => t('preview_unrecorded', { command })),
    ...running.map((command) => t('preview_running', { command })),
  ];
  return html`
    ${diffs.length ? nothing : html`<p class="quiet">${t('no_files_change')}</p>`}
    <ul class="preview-files">${diffs.slice(0, 200).map((file) => html`<li>
      <button type="button" class="fold" aria-expanded=${String(open.has(file.path))} @click=${() => { open.has(file.path) ? open.delete(file.path) : open.add(file.path); again(); }}>
        <span class="fold-icon">${icon('chevron')}</span><code>${file.path}</code>
        <span class="quiet">${t(`undo_${file.what}`)}</span>${drawLineCounts(file)}</button>
      ${file.note ? html`<p class="quiet">${file.note}</p>` : nothing}
      ${open.has(file.path) && file.diff ? drawDiff({ diff: file.diff }, { width: 440, again }) : nothing}</li>`)}</ul>
    ${notes.map((note) => html`<p class="warning-text plain-text">${note}</p>`)}`;
}

/** Ask how far to go back; return {conversation, files} or undefined. */
export function rewindDialog(prompt, readPreview) {
  let preview = null;
  const open = new Set();
  let conversation = true;
  let files = false;
  return openDialog(t('rewind_title'), (close, again) => html`
    <p>${t('rewind_text')}</p>
    <blockquote class="plain-text">${oneLine(prompt, 300)}</blockquote>
    <label class="setting"><span>${t('rewind_conversation')}</span><input type="checkbox" role="switch" .checked=${conversation} @change=${(event) => { conversation = event.target.checked; again(); }}></label>
    <label class="setting"><span>${t('rewind_files')}</span><input type="checkbox" role="switch" .checked=${files} ?disabled=${!preview?.diffs?.length} @change=${(event) => { files = event.target.checked; again(); }}></label>
    ${preview === null ? html`<p class="quiet">${t('loading')}</p>` : files || !preview.diffs?.length ? drawPreview(preview, open, again) : nothing}
    <footer><button type="button" class="button" autofocus @click=${() => close()}>${t('cancel')}</button>
      <button type="button" class="button primary" ?disabled=${preview === null || (!conversation && !files)} @click=${() => close({ conversation, files })}>${t('rewind')}</button></footer>`,
  {
    onOpen: async (again) => {
      preview = (await readPreview()) ?? {};
      files = Boolean(preview.diffs?.length);
      again();
    },
  });
}

/** Show what an undo or redo changes; return true if the user wants it. */
export function undoDialog(preview, title, action) {
  const open = new Set();
  return openDialog(title, (close, again) => html`
    ${drawPreview(preview, open, again)}
    <footer><button type="button" class="button" autofocus @click=${() => close(false)}>${t('cancel')}</button>
      <button type="button" class="button primary" ?disabled=${!preview.diffs?.length} @click=${() => close(true)}>${action}</button></footer>`);
}

/** Show the diffs of a file. */
export function diffDialog(path, diffs) {
  let limit = 400;
  return openDialog(path, (_close, again) => {
    const width = Math.min(innerWidth - 48, 1300);
    return html`<div class="diff-title">${diffChoice(width, again)}</div>
      ${diffs.length ? nothing : html`<p class="quiet pad">${t('no_differences')}</p>`}
      ${diffs.map((file) => html`${file.note ? html`<p class="quiet pad">${file.note}</p>` : nothing}
        ${file.diff ? drawDiff({ diff: file.diff }, { width, limit, more: () => { limit += 400; again(); }, again }) : nothing}`)}`;
  }, { wide: true });
}
