// Diffs, unified or side by side, with marked words. Long diffs grow on demand.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { compareTexts, pairRows, parseUnified } from './diff_lines.js';
import { preference, setPreference } from './preferences.js';
import { startDiffWorker } from './safe_html.js';
import { t } from './strings.js';

const BIG = 40_000; // characters; bigger diffs are calculated in the worker
const PAGE = 400; // rows that are shown at first, and added on demand
const SIDE_BY_SIDE = 900; // pixels; narrower diffs are unified
const cache = new Map();
const MAX_CACHED = 60;
let worker = null;
let nextId = 1;
const waiting = new Map();

function ask(message) {
  if (worker === null) {
    worker = startDiffWorker();
    worker.onmessage = ({ data }) => {
      waiting.get(data.id)?.(data.rows);
      waiting.delete(data.id);
    };
  }
  return new Promise((resolve) => {
    const id = nextId++;
    waiting.set(id, resolve);
    worker.postMessage({ id, ...message });
  });
}

function remember(key, value) {
  cache.delete(key);
  cache.set(key, value);
  if (cache.size > MAX_CACHED) {
    cache.delete(cache.keys().next().value);
  }
  return value;
}

/** Return the rows of a diff; null while the worker calculates them, then `again` is called. */
function rowsOf(source, again) {
  const key = source.diff !== undefined ? source.diff : `${source.before}\u0000${source.after}`;
  const known = cache.get(key);
  if (known !== undefined) {
    return known.rows;
  }
  if (key.length <= BIG) {
    const rows = source.diff !== undefined
      ? parseUnified(source.diff)
      : compareTexts(source.before, source.after);
    return remember(key, { rows }).rows;
  }
  remember(key, { rows: null });
  ask(source).then((rows) => {
    remember(key, { rows });
    again();
  });
  return null;
}

const words = (row) =>
  row.words
    ? row.words.map(([changed, text]) => (changed ? html`<mark>${text}</mark>` : text))
    : row.text;

const SIGNS = { added: '+', removed: '−', same: ' ' };

function unifiedRow(row) {
  if (row.type === 'hunk') {
    return html`<tr class="hunk"><td colspan="4">${t('line_n', { n: row.new ?? row.old })} ${row.text}</td></tr>`;
  }
  return html`<tr class=${row.type}><td class="number">${row.old ?? ''}</td><td class="number">${row.new ?? ''}</td><td class="sign">${SIGNS[row.type]}</td><td class="code">${words(row)}</td></tr>`;
}

function half(row, side) {
  if (!row) {
    return html`<td class="number"></td><td class="code none"></td>`;
  }
  const number = side === 'left' ? row.old : row.new;
  return html`<td class="number ${row.type}">${number ?? ''}</td><td class="code ${row.type}">${words(row)}</td>`;
}

function pairRow(pair) {
  if (pair.hunk) {
    return unifiedRow(pair.hunk);
  }
  return html`<tr>${half(pair.left, 'left')}${half(pair.right, 'right')}</tr>`;
}

/** Return whether diffs are shown side by side in a space of this width. */
export function isSideBySide(width) {
  const choice = preference('diff');
  return choice === 'split' || (choice === 'auto' && width >= SIDE_BY_SIDE);
}

/** Return the buttons that choose between the two views. */
export function diffChoice(width, again) {
  const split = isSideBySide(width);
  const choose = (value) => () => {
    setPreference('diff', value);
    again();
  };
  return html`<span class="segments" role="group" aria-label=${t('diff_view')}>
    <button type="button" aria-pressed=${String(!split)} @click=${choose('unified')}>${t('unified')}</button>
    <button type="button" aria-pressed=${String(split)} @click=${choose('split')}>${t('side_by_side')}</button>
  </span>`;
}

/** Draw numbers of lines, without those that are 0. */
export function drawLineCounts({ added, removed }) {
  return html`<span class="line-counts">${added ? html`<b class="added">+${added}</b>` : nothing} ${removed ? html`<b class="removed">−${removed}</b>` : nothing}</span>`;
}

/**
 * Draw a diff.
 *
 * @param {{diff: string} | {before: string, after: string}} source What to show.
 * @param {object} options width in pixels; limit of rows; more(), which raises the limit; again(),
 *   which draws the diff again.
 */
export function drawDiff(source, { width = 600, limit = PAGE, more, again }) {
  const rows = rowsOf(source, again);
  if (rows === null) {
    return html`<p class="quiet pad">${t('comparing')}</p>`;
  }
  if (rows.length === 0) {
    return html`<p class="quiet pad">${t('no_differences')}</p>`;
  }
  const split = isSideBySide(width);
  const all = split ? pairRows(rows) : rows;
  const shown = all.slice(0, limit);
  return html`<div class="diff-box" tabindex="0" role="region" aria-label=${t('diff')}>
    <table class="diff ${split ? 'split' : 'unified'}">
      ${split ? html`<colgroup><col class="number"><col><col class="number"><col></colgroup>` : nothing}
      <tbody>${shown.map(split ? pairRow : unifiedRow)}</tbody>
    </table>
    ${all.length > limit
      ? html`<button type="button" class="more" @click=${more}>${t('more_rows', { n: all.length - limit })}</button>`
      : nothing}
  </div>`;
}
