// Diffs as rows: parsing unified diffs, comparing texts, and marking changed words.

import './vendor/diff/diff.min.js';
import { showHidden } from './visible.js';

const { diffLines, diffWordsWithSpace } = globalThis.Diff;
const MAX_WORDS = 2_000; // characters of a line in which words are compared
const TIMEOUT = 500; // milliseconds
const CONTEXT = 3; // unchanged lines around changes

/**
 * A row: {type: 'hunk'|'same'|'removed'|'added'|'gap', text, old, new, words?}
 * where words is a list of [changed, text].
 */

/** Return the rows of a unified diff. */
export function parseUnified(diff) {
  const rows = [];
  let before = 0;
  let after = 0;
  let inside = false;
  for (const line of showHidden(diff.replace(/\n$/, '')).split('\n')) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/.exec(line);
    if (hunk) {
      before = Number(hunk[1]);
      after = Number(hunk[2]);
      inside = true;
      rows.push({ type: 'hunk', text: hunk[3].trim(), old: before, new: after });
    } else if (!inside || line.startsWith('\\')) {
      continue;
    } else if (line.startsWith('+')) {
      rows.push({ type: 'added', text: line.slice(1), new: after++ });
    } else if (line.startsWith('-')) {
      rows.push({ type: 'removed', text: line.slice(1), old: before++ });
    } else if (line.startsWith(' ') || line === '') {
      rows.push({ type: 'same', text: line.slice(1), old: before++, new: after++ });
    } else if (line.startsWith('diff ') || line.startsWith('--- ')) {
      inside = false;
    }
  }
  return markWords(rows);
}

/** Return the rows between two texts. */
export function compareTexts(oldText, newText) {
  const parts = diffLines(showHidden(oldText), showHidden(newText), { timeout: TIMEOUT });
  const rows = [];
  let before = 1;
  let after = 1;
  const all = parts ?? [
    { removed: true, value: oldText },
    { added: true, value: newText },
  ];
  for (const part of all) {
    const lines = part.value.split('\n');
    if (lines.at(-1) === '') {
      lines.pop();
    }
    for (const text of lines) {
      if (part.added) {
        rows.push({ type: 'added', text, new: after++ });
      } else if (part.removed) {
        rows.push({ type: 'removed', text, old: before++ });
      } else {
        rows.push({ type: 'same', text, old: before++, new: after++ });
      }
    }
  }
  return markWords(leaveOutUnchanged(rows));
}

function leaveOutUnchanged(rows) {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, index) => {
    if (row.type !== 'same') {
      near.fill(1, Math.max(0, index - CONTEXT), index + CONTEXT + 1);
    }
  });
  const kept = [];
  rows.forEach((row, index) => {
    if (near[index]) {
      if (index > 0 && !near[index - 1]) {
        kept.push({ type: 'hunk', text: '', old: row.old, new: row.new });
      }
      kept.push(row);
    }
  });
  return kept;
}

/** Mark the changed words where as many lines were removed as added. */
function markWords(rows) {
  let index = 0;
  while (index < rows.length) {
    const start = index;
    while (rows[index]?.type === 'removed') {
      index += 1;
    }
    const middle = index;
    while (rows[index]?.type === 'added') {
      index += 1;
    }
    const removed = middle - start;
    if (removed > 0 && removed === index - middle && removed <= 200) {
      for (let line = 0; line < removed; line++) {
        markPair(rows[start + line], rows[middle + line]);
      }
    }
    if (index === start) {
      index += 1;
    }
  }
  return rows;
}

function markPair(removed, added) {
  if (removed.text.length > MAX_WORDS || added.text.length > MAX_WORDS) {
    return;
  }
  const parts = diffWordsWithSpace(removed.text, added.text);
  const same = parts.filter((part) => !part.added && !part.removed);
  const kept = same.reduce((sum, part) => sum + part.value.trim().length, 0);
  // Lines that share almost nothing are easier to read without marks.
  if (kept * 3 < Math.max(removed.text.trim().length, added.text.trim().length)) {
    return;
  }
  removed.words = parts.filter((part) => !part.added).map((part) => [!!part.removed, part.value]);
  added.words = parts.filter((part) => !part.removed).map((part) => [!!part.added, part.value]);
}

/** Return pairs of rows for the view side by side. */
export function pairRows(rows) {
  const pairs = [];
  let index = 0;
  while (index < rows.length) {
    const row = rows[index];
    if (row.type === 'hunk') {
      pairs.push({ hunk: row });
      index += 1;
    } else if (row.type === 'same') {
      pairs.push({ left: row, right: row });
      index += 1;
    } else {
      const removed = [];
      const added = [];
      while (rows[index]?.type === 'removed') {
        removed.push(rows[index++]);
      }
      while (rows[index]?.type === 'added') {
        added.push(rows[index++]);
      }
      const count = Math.max(removed.length, added.length);
      for (let line = 0; line < count; line++) {
        pairs.push({ left: removed[line], right: added[line] });
      }
    }
  }
  return pairs;
}
