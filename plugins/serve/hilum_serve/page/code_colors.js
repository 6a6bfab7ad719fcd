// Colours code after it has been shown, in idle time.

import { sanitizeColors } from './safe_html.js';

const MAX_COLORED = 20_000; // characters
const FILES = {
  bash: 'bash', sh: 'bash', shell: 'bash', console: 'bash', zsh: 'bash',
  c: 'c', h: 'c', cpp: 'cpp', cc: 'cpp', hpp: 'cpp', css: 'css', diff: 'diff', patch: 'diff',
  dockerfile: 'dockerfile', go: 'go', html: 'xml', xml: 'xml', svg: 'xml', ini: 'ini',
  toml: 'ini', cfg: 'ini', java: 'java', javascript: 'javascript', js: 'javascript',
  mjs: 'javascript', jsx: 'javascript', json: 'json', jsonl: 'json', markdown: 'markdown',
  md: 'markdown', py: 'python', python: 'python', pyi: 'python', rs: 'rust', rust: 'rust',
  sql: 'sql', ts: 'typescript', tsx: 'typescript', typescript: 'typescript', yaml: 'yaml',
  yml: 'yaml',
};
const loaded = new Map();
let core = null;

/** Return the language of a file by its name; empty if unknown. */
export function languageOf(path) {
  const name = String(path).split('/').pop().toLowerCase();
  return FILES[name] ?? FILES[name.split('.').pop()] ?? '';
}

function load(language) {
  if (!loaded.has(language)) {
    const ready = (async () => {
      core ??= import('./vendor/highlight/core.min.js');
      const library = (await core).default;
      const definition = await import(`./vendor/highlight/languages/${language}.min.js`);
      library.registerLanguage(language, definition.default);
      return library;
    })();
    loaded.set(language, ready);
  }
  return loaded.get(language);
}

const whenIdle = globalThis.requestIdleCallback ?? ((work) => setTimeout(work, 50));

/** Colour a code element, if its language is known and it is not too long. */
export function colorLater(element, name) {
  const language = Object.hasOwn(FILES, name) ? FILES[name] : '';
  if (!language || element.textContent.length > MAX_COLORED) {
    return;
  }
  whenIdle(async () => {
    if (!element.isConnected) {
      return;
    }
    let library;
    try {
      library = await load(language);
    } catch {
      return; // the code stays as it is, for example without a connection
    }
    const text = element.textContent;
    const colored = library.highlight(text, { language, ignoreIllegals: true }).value;
    element.replaceChildren(sanitizeColors(colored));
  });
}
