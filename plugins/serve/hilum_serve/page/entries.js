// Draws the entries of a conversation: prompts, answers, calls, notices and ends of runs.

import { html, nothing, render } from './vendor/lit-html/lit-html.js';
import { drawCard, drawStreamingCall, estimateCard, loadResultPage } from './cards.js';
import { copyFrom } from './copying.js';
import { keepFocus } from './focus.js';
import { baseName, formatCost, formatDuration, formatTokens, oneLine } from './format.js';
import { icon } from './icons.js';
import { drawImages } from './images.js';
import { StreamingMarkdown } from './markdown.js';
import { t, translate } from './strings.js';

const MAX_PARTS = 10; // parts of a long result that are loaded for one search
const HIDDEN_NOTICES = new Set(['rejected']);

/** Return whether an entry is shown. */
export function isShown(entry, store) {
  const lead = store.state.lead ?? 'main';
  // The page of a session shows its main agent; the cards of other agents open them.
  const agent = store.agent ?? lead;
  if (entry.agent && entry.agent !== agent) {
    return false;
  }
  switch (entry.kind) {
    case 'prompt':
      return !entry.retries && !entry.repeats;
    case 'answer':
      return entry.state === 'streaming'
        || (entry.state !== 'dropped' && Boolean(entry.text?.trim() || entry.thinking?.trim()));
    case 'card':
      return !(entry.call?.name === 'todo_write' && !entry.result?.code);
    case 'notice':
      return !HIDDEN_NOTICES.has(entry.about);
    case 'outcome':
      return entry.end?.state !== 'completed' || Boolean(entry.unread?.length);
    default:
      return false;
  }
}

/** Return the likely height of a row in pixels, before it has been measured. */
export function estimateHeight(entry) {
  switch (entry.kind) {
    case 'prompt':
      return 64 + Math.ceil((entry.text?.length ?? 0) / 80) * 22;
    case 'answer':
      return 40 + Math.min(4000, Math.ceil((entry.text?.length ?? 0) / 75) * 24);
    case 'card':
      return estimateCard(entry);
    default:
      return 44;
  }
}

/** Return the kinds of context in words, each once and with its number. */
function describeContext(context) {
  const counts = new Map();
  for (const { source } of context) {
    const kind = source.replace(/^context:/, '');
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return [...counts]
    .map(([kind, n]) => t(`context_${kind}`, { n }, kind.replaceAll('_', ' ')))
    .join(t('list_comma'));
}

/** Keeps what belongs to the rows: drawn Markdown, and what the user folded. */
export class EntryRows {
  /** @param {object} page store, actions, touch(id) and width() of the conversation. */
  constructor(page) {
    this.page = page;
    this.markdown = new Map();
    this.ui = new Map();
  }

  /** Return what the user chose for a row; it survives scrolling. */
  choices(id) {
    let choices = this.ui.get(id);
    if (!choices) {
      choices = {};
      this.ui.set(id, choices);
    }
    return choices;
  }

  create(id) {
    const element = document.createElement('article');
    this.update(id, element);
    return element;
  }

  update(id, element) {
    const entry = this.page.store.entries.get(id);
    if (!entry) {
      return;
    }
    element.className = `row entry entry-${entry.kind}`;
    keepFocus(element, () => render(this._draw(entry), element), element);
  }

  remove(id, element) {
    this.markdown.delete(id);
    this.markdown.delete(`${id}:thinking`);
    render(nothing, element);
  }

  clear() {
    this.markdown.clear();
    this.ui.clear();
  }

  _draw(entry) {
    switch (entry.kind) {
      case 'prompt':
        return this._prompt(entry);
      case 'answer':
        return this._answer(entry);
      case 'card':
        return drawCard(entry, this._context(entry.id));
      case 'notice':
        return this._notice(entry);
      default:
        return this._outcome(entry);
    }
  }

  _context(id) {
    const { page } = this;
    return {
      choices: this.choices(id),
      again: () => page.touch(id),
      width: page.width(),
      store: page.store,
      session: page.session,
      actions: page.actions,
      can: (action) => page.can(action),
    };
  }

  _markdown(key, text, complete) {
    let drawn = this.markdown.get(key);
    if (!drawn) {
      drawn = new StreamingMarkdown();
      this.markdown.set(key, drawn);
    }
    drawn.set(text, complete);
    return drawn.element;
  }

  _prompt(entry) {
    const text = entry.typed || entry.text || '';
    const { actions } = this.page;
    return html`<div class="bubble">
        ${entry.steers ? html`<span class="tag">${t('steered')}</span>` : nothing}
        <div class="plain-text" dir="auto">${text}</div>
        ${entry.attached ? html`<details ?open=${this.choices(entry.id).attached}><summary>${t('attached_text')}</summary><pre tabindex="0">${entry.attached}</pre></details>` : nothing}
        ${entry.images?.length ? drawImages(entry.images, this.page.session) : nothing}
        ${entry.context?.length ? html`<p class="quiet">${t('with_context', { what: describeContext(entry.context) })}</p>` : nothing}
      </div>
      <div class="row-actions">
        <button type="button" class="icon-button copy" aria-label=${t('copy')} title=${t('copy')} @click=${(event) => copyFrom(event.currentTarget, text)}></button>
        ${entry.steers || (entry.agent && entry.agent !== 'main') ? nothing : html`<button type="button" class="icon-button" aria-label=${t('rewind_here')} title=${t('rewind_here')} ?disabled=${!this.page.can('rewind')} @click=${() => actions.rewind(entry)}>${icon('undo')}</button>`}
      </div>`;
  }

  _answer(entry) {
    const streaming = entry.state === 'streaming' && !this.page.store.isCutOff(entry.agent);
    const choices = this.choices(entry.id);
    // A streaming answer is never cut.
    const text = (streaming ? null : choices.wholeText) ?? entry.text ?? '';
    const thinking = (entry.thinking ?? '').trim();
    const calls = Object.entries(entry.arguments ?? {});
    return html`
      ${thinking ? this._thinking(entry, thinking, streaming && !text) : nothing}
      ${text.trim() ? html`<div class="answer-text ${entry.state === 'cut_off' ? 'cut-off' : ''}" dir="auto">${this._markdown(entry.id, text, !streaming)}</div>` : nothing}
      ${entry.cut?.text && !choices.wholeText ? html`<p class="quiet">${t('text_cut', { n: formatTokens(entry.cut.text) })}
        <button type="button" class="text-button" ?disabled=${choices.loading} @click=${() => this.loadAnswer(entry)}>${t('whole_answer')}</button></p>` : nothing}
      ${streaming && !text && !thinking && calls.length === 0 ? html`<p class="waiting-dots" role="status"><span class="visually-hidden">${t('thinking')}</span><i></i><i></i><i></i></p>` : nothing}
      ${calls.map(([id, args]) => drawStreamingCall(entry.tools?.[id] ?? '', args))}
      ${streaming || !text.trim() || entry.calls ? nothing : html`<div class="row-actions">
        <button type="button" class="icon-button copy" aria-label=${t('copy')} title=${t('copy')} @click=${(event) => copyFrom(event.currentTarget, text)}></button>
        <span class="quiet facts">${this._facts(entry)}</span>
      </div>`}`;
  }

  /** Load the whole text of a long answer. */
  async loadAnswer(entry) {
    const choices = this.choices(entry.id);
    choices.loading = true;
    this.page.touch(entry.id);
    choices.wholeText = await this.page.actions.loadAnswer(entry);
    choices.loading = false;
    this.page.touch(entry.id);
  }

  /** Load a long result up to a number of characters, in a few parts at most. */
  async loadResult(entry, upto) {
    const context = this._context(entry.id);
    for (let part = 0; part < MAX_PARTS && (context.choices.loaded ?? 0) < upto; part++) {
      if (!(await loadResultPage(entry, context))) {
        break;
      }
    }
  }

  _facts(entry) {
    const usage = entry.usage ?? {};
    const facts = [baseName(entry.model ?? ''), formatDuration(entry.seconds)];
    const output = usage.output ?? usage.output_tokens ?? 0;
    if (output) {
      facts.push(t('n_tokens', { n: formatTokens(output) }));
    }
    if (usage.cost) {
      facts.push(formatCost(usage.cost));
    }
    return facts.filter(Boolean).join(' · ');
  }

  _thinking(entry, thinking, streaming) {
    const choices = this.choices(entry.id);
    const open = choices.thinking ?? false;
    const toggle = () => {
      choices.thinking = !open;
      this.page.touch(entry.id);
    };
    return html`<div class="thinking">
      <button type="button" class="fold" aria-expanded=${String(open)} @click=${toggle}>
        <span class="fold-icon">${icon('chevron')}</span>
        <span class=${streaming ? 'shimmer' : ''}>${streaming ? t('thinking') : t('thoughts')}</span>
        ${open ? nothing : html`<span class="quiet preview">${oneLine(streaming ? thinking.slice(-120) : thinking, 120)}</span>`}
      </button>
      ${open ? html`<div class="thinking-text" dir="auto">${this._markdown(`${entry.id}:thinking`, thinking, !streaming)}</div>` : nothing}
    </div>`;
  }

  _notice(entry) {
    const warns = entry.level === 'warning';
    return html`<div class="note ${warns ? 'warning' : ''}">
      ${icon(warns ? 'alert' : 'spark')}
      <span>${entry.code ? html`<code>${entry.code}</code> ` : nothing}${translate(entry.text, entry.parts?.text)}${entry.hint ? html` <span class="quiet">${translate(entry.hint, entry.parts?.hint)}</span>` : nothing}</span>
    </div>`;
  }

  _outcome(entry) {
    const end = entry.end ?? {};
    const { actions, store } = this.page;
    const isLast = store.lastOutcome?.() === entry.id;
    const failed = end.state === 'failed' || end.state === 'timed_out';
    const stopped = end.state === 'stopped' || end.state === 'interrupted';
    const title = stopped ? t('run_stopped') : end.state === 'timed_out' ? t('run_timed_out') : t('run_failed');
    const facts = ['error', 'hint', 'left']
      .filter((field) => end[field])
      .map((field) => translate(end[field], entry.parts?.[field]));
    return html`<div class="outcome-box ${failed ? 'failed' : ''}">
      <p class="outcome-title">${icon(failed ? 'alert' : 'stop')} ${end.state === 'completed' ? t('run_completed') : title} ${end.code ? html`<code>${end.code}</code>` : nothing}</p>
      ${facts.map((fact) => html`<p class="quiet plain-text">${fact}</p>`)}
      ${entry.unread?.length ? html`<p>${t('unread_messages')}</p><ul>${entry.unread.map((text) => html`<li><span class="plain-text">${text}</span>
        <button type="button" class="text-button" aria-label=${t('use_text', { text: oneLine(text, 60) })} ?disabled=${!this.page.can('prompt')} @click=${() => actions.useText(text)}>${t('use_as_message')}</button></li>`)}</ul>` : nothing}
      ${isLast && end.state !== 'completed' ? html`<button type="button" class="button" ?disabled=${!this.page.can('retry')} @click=${() => actions.retry()}>${icon('retry')} ${t('continue_run')}</button>` : nothing}
    </div>`;
  }
}
