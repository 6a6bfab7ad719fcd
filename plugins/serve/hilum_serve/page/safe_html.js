// The only place that turns text into markup. Everything else in the page uses text nodes.

import './vendor/dompurify/purify.min.js';

const purifier = globalThis.DOMPurify;

const RULES = {
  RETURN_DOM_FRAGMENT: true,
  ALLOWED_TAGS: [
    'a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr',
    'i', 'kbd', 'li', 'ol', 'p', 'pre', 's', 'span', 'strong', 'sub', 'sup', 'table', 'tbody',
    'td', 'th', 'thead', 'tr', 'ul',
  ],
  ALLOWED_ATTR: ['href', 'title', 'align', 'start', 'data-language'],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

purifier.addHook('afterSanitizeAttributes', (node) => {
  if (node.nodeName !== 'A') {
    return;
  }
  const address = node.getAttribute('href') || '';
  // Relative and protocol-relative addresses would lead into this server or hide their scheme.
  if (!/^https?:\/\//i.test(address)) {
    node.removeAttribute('href');
    return;
  }
  node.setAttribute('rel', 'noopener noreferrer');
  node.setAttribute('target', '_blank');
});

/** Return markup as a fragment of harmless elements. */
export function sanitize(markup) {
  return purifier.sanitize(markup, RULES);
}

/** Return coloured code: only `span` elements with a class. */
export function sanitizeColors(markup) {
  return purifier.sanitize(markup, {
    RETURN_DOM_FRAGMENT: true,
    ALLOWED_TAGS: ['span'],
    ALLOWED_ATTR: ['class'],
  });
}

const scripts = globalThis.trustedTypes?.createPolicy('hilum', {
  createScriptURL: (address) => {
    const allowed = new URL('./diff_worker.js', import.meta.url).href;
    if (address !== allowed) {
      throw new TypeError('Only the worker for diffs may be started.');
    }
    return address;
  },
});

/** Start the worker that calculates diffs. */
export function startDiffWorker() {
  const address = new URL('./diff_worker.js', import.meta.url).href;
  const trusted = scripts ? scripts.createScriptURL(address) : address;
  return new Worker(trusted, { type: 'module' });
}
