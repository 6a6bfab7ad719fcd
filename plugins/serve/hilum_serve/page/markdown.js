// Streaming Markdown: each finished block is drawn once; only the last block is drawn again.

import { html } from './vendor/lit-html/lit-html.js';
import { Lexer, Parser, Renderer } from './vendor/marked/marked.esm.js';
import { colorLater } from './code_colors.js';
import { copyButton } from './copying.js';
import { sanitize } from './safe_html.js';
import { showHidden } from './visible.js';

const BUDGET = 6; // milliseconds per frame for blocks of complete texts
const SLOW_BLOCK = 4_000; // characters; a longer unfinished block is drawn less often
const SLOW_INTERVAL = 300; // milliseconds

const escapeText = (text) =>
  text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

class PageRenderer extends Renderer {
  // Markup in Markdown is shown as text: models write about markup far more often than in it.
  html(token) {
    return escapeText(token.text ?? token.raw);
  }

  // Images are not loaded: their address could tell others that, and what, the user reads.
  image(token) {
    const label = escapeText(token.text || token.href || '');
    return `<a href="${escapeText(token.href || '')}">🖼 ${label}</a>`;
  }

  code(token) {
    const language = (token.lang || '').trim().split(/\s/)[0].toLowerCase();
    return `<pre data-language="${escapeText(language)}"><code>${escapeText(token.text)}</code></pre>`;
  }

  checkbox(token) {
    return token.checked ? '☑ ' : '☐ ';
  }
}

const OPTIONS = { gfm: true, breaks: false, async: false, renderer: new PageRenderer() };

/**
 * Draw code and bold text within a line; everything else stays as it was written.
 *
 * For texts that the user decides by: a name such as `__init__.py` or a pattern such as `src/**` must
 * not lose characters, and nothing can be clicked.
 */
export function drawInline(text) {
  const shown = showHidden(text);
  return new Lexer(OPTIONS).inlineTokens(shown).map((token) => {
    if (token.type === 'codespan') {
      return html`<code>${token.text}</code>`;
    }
    const isBold = token.type === 'strong' && /^\*\*[^*/]+\*\*$/.test(token.raw);
    return isBold ? html`<strong>${drawInline(token.raw.slice(2, -2))}</strong>` : token.raw;
  });
}

function lex(text, links) {
  const lexer = new Lexer(OPTIONS);
  lexer.tokens.links = links;
  return lexer.lex(text);
}

function draw(token, links) {
  const tokens = [token];
  tokens.links = links;
  const fragment = sanitize(new Parser(OPTIONS).parse(tokens));
  for (const table of fragment.querySelectorAll('table')) {
    const box = document.createElement('div');
    box.className = 'table-box';
    box.tabIndex = 0;
    table.replaceWith(box);
    box.append(table);
  }
  for (const pre of fragment.querySelectorAll('pre')) {
    decorateCode(pre);
  }
  return fragment;
}

function decorateCode(pre) {
  const box = document.createElement('div');
  box.className = 'code-block';
  const head = document.createElement('div');
  head.className = 'code-head';
  const language = document.createElement('span');
  language.textContent = pre.dataset.language || '';
  const code = pre.querySelector('code') ?? pre;
  head.append(language, copyButton(() => code.textContent));
  pre.tabIndex = 0;
  pre.replaceWith(box);
  box.append(head, pre);
}

function colorAll(root) {
  for (const pre of root.querySelectorAll('pre[data-language]')) {
    const code = pre.querySelector('code');
    if (code) {
      colorLater(code, pre.dataset.language);
    }
  }
}

export class StreamingMarkdown {
  constructor() {
    this.element = document.createElement('div');
    this.element.className = 'markdown';
    this.last = document.createElement('div');
    this.last.className = 'markdown-last';
    this.element.append(this.last);
    this._reset();
  }

  _reset() {
    this.text = '';
    this.drawn = 0; // characters of the finished blocks
    this.links = {};
    this.fence = null; // the code element of an open fence
    this.complete = false;
    this.lastDraw = 0;
    this.timer = 0;
    this.element.replaceChildren(this.last);
    this.last.replaceChildren();
  }

  /** Show a text that has grown, or another text. */
  set(text, complete) {
    if (text === this.text && complete === this.complete) {
      return;
    }
    if (!text.startsWith(this.text.slice(0, this.drawn)) || this.complete) {
      this._reset();
    }
    this.text = text;
    this.complete = complete;
    this._advance();
  }

  _advance() {
    const now = performance.now();
    const rest = this.text.slice(this.drawn);
    const isLong = rest.length > SLOW_BLOCK && !this.complete && this.fence === null;
    if (isLong && now - this.lastDraw < SLOW_INTERVAL) {
      this._later(SLOW_INTERVAL);
      return;
    }
    this.lastDraw = now;
    if (this.fence !== null && this._growFence(rest)) {
      return;
    }
    const tokens = lex(rest, this.links);
    const finished = this.complete ? tokens.length : tokens.length - 1;
    const until = now + BUDGET;
    for (let index = 0; index < finished; index++) {
      this._finish(tokens[index]);
      if (performance.now() > until && index + 1 < finished) {
        this.last.replaceChildren();
        this._later(0);
        return;
      }
    }
    this._drawLast(this.complete ? null : tokens[finished]);
  }

  _later(delay) {
    if (this.timer) {
      return;
    }
    const work = () => {
      this.timer = 0;
      this._advance();
    };
    this.timer = delay ? setTimeout(work, delay) : requestAnimationFrame(work);
  }

  _finish(token) {
    this.drawn += token.raw.length;
    if (token.type === 'space' || token.type === 'def') {
      return;
    }
    const fragment = draw(token, this.links);
    const added = [...fragment.children];
    this.last.before(fragment);
    added.forEach((element) => colorAll(element));
  }

  _drawLast(token) {
    this.fence = null;
    if (!token || token.type === 'space') {
      this.last.replaceChildren();
      return;
    }
    this.last.replaceChildren(draw(token, this.links));
    const opening = /^ {0,3}(`{3,}|~{3,})[^\n]*\n/.exec(token.raw);
    if (token.type === 'code' && opening) {
      this.fence = this.last.querySelector('code');
      this.fenceMark = opening[1];
      this.fenceHead = opening[0].length;
    }
  }

  /** Append to an open fence; return false if the fence may have been closed. */
  _growFence(rest) {
    const body = rest.slice(this.fenceHead);
    if (body.includes(`\n${this.fenceMark}`) || body.startsWith(this.fenceMark) || this.complete) {
      this.fence = null;
      return false;
    }
    const shown = this.fence.textContent.length;
    if (body.length > shown) {
      this.fence.append(body.slice(shown));
    }
    return true;
  }
}
