// Calculates big diffs outside the page's own thread.

import { compareTexts, parseUnified } from './diff_lines.js';

self.onmessage = ({ data }) => {
  const rows = data.diff !== undefined
    ? parseUnified(data.diff)
    : compareTexts(data.before, data.after);
  self.postMessage({ id: data.id, rows });
};
