// Marks the hits of a search in the rows that are in the document.
//
// The CSS Custom Highlight API colours ranges of text without changing the document, so that text
// of models and files stays text, and rows can be drawn again at any time.

const AREAS = {
  text: '.bubble > .plain-text, .answer-text',
  attached: '.bubble details pre',
  thinking: '.thinking-text',
  arguments: '.card-text[data-field="arguments"]',
  result: '.card-text[data-field="result"]',
};
const BLOCKS = 'p, li, pre, div, td, th, h1, h2, h3, h4, h5, h6, blockquote';
const MAX_RANGES = 2_000;

/** Return a pattern for what was typed: any case, and any blanks for a blank. */
export function makePattern(query) {
  const words = query.split(/\s+/).filter(Boolean);
  const escaped = words.map((word) => word.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'));
  return words.length ? new RegExp(escaped.join('\\s{1,40}'), 'giu') : null;
}

/** Return whether the browser can mark text without changing the document. */
function canMark() {
  return typeof Highlight === 'function' && Boolean(CSS.highlights);
}

/** Return the ranges of a pattern in a field of a row, in order. */
export function findRanges(row, field, pattern) {
  return [...row.querySelectorAll(AREAS[field])].flatMap((area) => rangesIn(area, pattern));
}

/** Return the ranges of a pattern in an element; a hit may cross the borders of inner elements. */
function rangesIn(area, pattern) {
  const nodes = [];
  const starts = [];
  let text = '';
  let block = null;
  const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const own = node.parentElement.closest(BLOCKS);
    if (block !== null && own !== block) {
      text += '\n'; // two paragraphs are not one word
    }
    block = own;
    nodes.push(node);
    starts.push(text.length);
    text += node.data;
  }
  const ranges = [];
  let index = 0;
  for (const match of text.matchAll(pattern)) {
    while (index + 1 < nodes.length && starts[index + 1] <= match.index) {
      index += 1;
    }
    const end = match.index + match[0].length;
    let last = index;
    while (last + 1 < nodes.length && starts[last + 1] < end) {
      last += 1;
    }
    const range = new Range();
    range.setStart(nodes[index], Math.min(match.index - starts[index], nodes[index].length));
    range.setEnd(nodes[last], Math.min(end - starts[last], nodes[last].length));
    ranges.push(range);
  }
  return ranges;
}

/**
 * Mark all hits in rows, and the current one in another colour.
 *
 * @param {Map} mounted The rows in the document, by key.
 * @param {RegExp|null} pattern What to mark; null removes all marks.
 * @param {object|null} current The current hit.
 */
export function markRows(mounted, pattern, current) {
  if (!canMark()) {
    return;
  }
  const all = new Highlight();
  const one = new Highlight();
  if (pattern !== null) {
    for (const [key, row] of mounted) {
      for (const field of Object.keys(AREAS)) {
        const ranges = findRanges(row, field, pattern);
        const isCurrent = current?.entry === key && current.field === field;
        const chosen = isCurrent ? ranges[Math.min(current.index, ranges.length - 1)] : undefined;
        for (const range of ranges.slice(0, MAX_RANGES)) {
          (range === chosen ? one : all).add(range);
        }
      }
    }
  }
  CSS.highlights.set('found', all);
  CSS.highlights.set('found-current', one);
}

/** Remove all marks. */
export function removeMarks() {
  if (canMark()) {
    CSS.highlights.delete('found');
    CSS.highlights.delete('found-current');
  }
}
