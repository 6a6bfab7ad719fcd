// The search inside of a conversation.
//
// The document contains only the rows near the viewport, and the page only the newest entries, so
// the search of the browser cannot find the others. The server searches; the page loads the entry of
// a hit, opens what is folded, and marks the words.

import { html, nothing, render } from './vendor/lit-html/lit-html.js';
import { isShown } from './entries.js';
import { icon } from './icons.js';
import { findRanges, makePattern, markRows, removeMarks } from './marks.js';
import { t } from './strings.js';
import { showHidden } from './visible.js';

const TYPING = 150; // milliseconds after the last key until the search begins
const REFRESH = 1_000; // milliseconds after which new entries are searched
const MARK_AGAIN = 100; // milliseconds between two times that rows are marked while they change
const PAGE = 500; // hits of one request
const MAX_HITS = 2_000;
const MAX_LENGTH = 600; // characters of a search, as on the server
const FRAMES = 60; // frames in which a row must be drawn

const nextFrame = () => new Promise((resolve) => { requestAnimationFrame(resolve); });

export class FindBar {
  constructor(page) {
    this.page = page;
    this.element = document.createElement('div');
    this.element.className = 'find-place';
    this.isOpen = false;
    this._reset();
  }

  _reset() {
    this.query = '';
    this.pattern = null;
    this.hits = []; // in the order of the conversation
    this.current = -1;
    this.isComplete = true; // whether all entries were searched
    this.isSearching = false;
    this.changed = Infinity; // the oldest entry that changed since it was searched
    // Counts what was revealed, so that only the last one goes on, also after a reset.
    this.shown = (this.shown ?? 0) + 1;
  }

  /** Open the field, or select its text if it is open. */
  open(query = '') {
    if (!this.isOpen) {
      this.isOpen = true;
      this.focusBefore = document.activeElement;
      this.page.list.onPaint = () => this.markSoon();
    }
    this._draw();
    const input = this.input();
    if (query) {
      input.value = query;
      this._search(query);
    }
    input.focus();
    input.select();
  }

  input() {
    return this.element.querySelector('input');
  }

  close() {
    if (!this.isOpen) {
      return;
    }
    this.isOpen = false;
    this.request?.abort();
    clearTimeout(this.typing);
    clearTimeout(this.refresh);
    this.refresh = undefined;
    this.page.list.onPaint = null;
    removeMarks();
    this._reset();
    render(nothing, this.element);
    const before = this.focusBefore;
    const isThere = before?.isConnected && before !== document.body;
    (isThere ? before : this.page.scroller).focus({ preventScroll: true });
  }

  /** Note entries that the stream has changed; they are searched again soon. */
  note(keys) {
    if (!this.isOpen || this.pattern === null) {
      return;
    }
    for (const key of keys) {
      this.changed = Math.min(this.changed, key);
    }
    this._refreshSoon();
  }

  _refreshSoon() {
    if (this.refresh === undefined && this.changed < Infinity) {
      this.refresh = setTimeout(() => {
        this.refresh = undefined;
        this._searchNew();
      }, REFRESH);
    }
  }

  // --- searching -------------------------------------------------------------------------------

  _typed(text) {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this._search(text), TYPING);
  }

  async _search(query) {
    clearTimeout(this.typing);
    this.request?.abort();
    this._reset();
    this.query = query;
    this.pattern = makePattern(query);
    this._draw();
    this.mark();
    if (this.pattern === null) {
      return;
    }
    await this._read(0);
  }

  /** Search what has changed since the search. */
  async _searchNew() {
    if (!this.isOpen || this.isSearching) {
      this._refreshSoon();
      return;
    }
    const after = this.changed;
    this.changed = Infinity;
    await this._read(after);
  }

  /** Search all entries from one on, page by page from the newest, and show the first hit. */
  async _read(after) {
    const request = new AbortController();
    this.request = request;
    this.isSearching = true;
    this._draw();
    const kept = this.hits.filter((hit) => hit.entry < after);
    const wanted = this.hits[this.current];
    let found = [];
    let before = 0;
    try {
      do {
        const page = await this.page.api.search(this.query, { before, after, limit: PAGE }, request.signal);
        found = [...inOrder(page.hits.filter((hit) => this._canShow(hit))), ...found];
        before = page.before;
        this._take([...kept, ...found], wanted);
      } while (before && kept.length + found.length < MAX_HITS);
      this.isComplete = this.isComplete && !before;
    } catch (error) {
      if (error.name === 'AbortError') {
        return;
      }
      this.changed = Math.min(this.changed, after); // is read again with the next change
      this.page.app.report(error);
    }
    this.isSearching = false;
    this._draw();
  }

  /** Return whether the page shows the entry of a hit, as far as that is known. */
  _canShow(hit) {
    const entry = this.page.store.entries.get(hit.entry);
    const isList = hit.tool === 'todo_write'; // the panel shows lists of steps
    return entry ? isShown({ ...entry, agent: '' }, this.page.store) : !isList;
  }

  _take(hits, wanted) {
    this.hits = hits;
    const isSame = (hit) => hit.entry === wanted?.entry && hit.field === wanted.field && hit.index === wanted.index;
    this.current = wanted ? hits.findIndex(isSame) : -1;
    if (this.current < 0 && hits.length && !wanted) {
      this.current = this._firstInView();
      this._reveal();
    }
    this._draw();
    this.markSoon();
  }

  /** Return the first hit at or below the top of the viewport, or else the last one above it. */
  _firstInView() {
    const { list } = this.page;
    const top = list.keys[list.heights.find(list.scroller.scrollTop)] ?? 0;
    const index = this.hits.findIndex((hit) => hit.entry >= top && list.index.has(hit.entry));
    return index < 0 ? this.hits.length - 1 : index;
  }

  /** Move to the next or previous hit. */
  step(by) {
    if (this.input().value !== this.query) {
      this._search(this.input().value);
      return;
    }
    if (this.hits.length === 0) {
      return;
    }
    const from = this.current < 0 && by < 0 ? 0 : this.current;
    this.current = (from + by + this.hits.length) % this.hits.length;
    this._draw();
    this._reveal();
  }

  // --- showing a hit ---------------------------------------------------------------------------

  /** Load the entry of the current hit, open what hides it, and scroll to it. */
  async _reveal() {
    this.shown += 1;
    const turn = this.shown;
    const isOld = () => !this.isOpen || turn !== this.shown;
    const hit = this.hits[this.current];
    const { page } = this;
    const { store, list } = page;
    if (store.first > hit.entry) {
      this.isLoading = true;
      this._draw();
      await page.loadUntil(hit.entry);
      this.isLoading = false;
      if (isOld()) {
        return;
      }
      this._draw();
    }
    const shownAgent = store.agent ?? store.lead();
    if (hit.agent && hit.agent !== shownAgent) {
      page.showAgent(hit.agent === store.lead() ? null : hit.agent);
    }
    this._unfold(hit);
    list.scrollToKey(hit.entry);
    const row = await this._waitForRow(hit, isOld);
    if (row === null || isOld()) {
      return;
    }
    let range = this._rangeOf(row, hit);
    if (!range) {
      await this._loadWhole(hit);
      await nextFrame();
      await nextFrame();
      if (isOld()) {
        return;
      }
      range = this._rangeOf(row, hit);
    }
    this._scrollTo(row, range);
    this.mark();
  }

  _unfold(hit) {
    const choices = this.page.rows.choices(hit.entry);
    if (hit.field === 'thinking') {
      choices.thinking = true;
    } else if (hit.field === 'attached') {
      choices.attached = true;
    } else if (hit.field !== 'text') {
      choices.open = true;
      choices.raw = false;
      choices.found = true; // the card then shows arguments and result as they are
    }
    this.page.list.touch(hit.entry);
  }

  /** Return the row of a hit when it has been drawn; null if it is not drawn. */
  async _waitForRow(hit, isOld) {
    const { list } = this.page;
    for (let frame = 0; frame < FRAMES && !isOld(); frame++) {
      await nextFrame();
      const row = list.mounted.get(hit.entry);
      if (row && !list.dirty.has(hit.entry)) {
        return row;
      }
      if (!row) {
        list.scrollToKey(hit.entry); // measured rows above have moved it
      }
    }
    return null;
  }

  _rangeOf(row, hit) {
    const ranges = findRanges(row, hit.field, this.pattern);
    // Marks of Markdown are not in the document, so that there may be fewer ranges than hits.
    return ranges[Math.min(hit.index, ranges.length - 1)];
  }

  /** Load the part of a long text that the server has cut. */
  async _loadWhole(hit) {
    const { page } = this;
    const entry = page.store.entries.get(hit.entry);
    if (!entry) {
      return;
    }
    if (hit.field === 'text' && entry.cut?.text) {
      await page.rows.loadAnswer(entry);
    } else if (hit.field === 'result') {
      await page.rows.loadResult(entry, hit.position + hit.excerpt.length);
    }
  }

  _scrollTo(row, range) {
    const { scroller } = this.page;
    // Texts of cards scroll on their own.
    const inner = range?.startContainer.parentElement.closest('.card-text');
    if (inner && inner.scrollHeight > inner.clientHeight) {
      const offset = range.getBoundingClientRect().top - inner.getBoundingClientRect().top;
      inner.scrollTop += offset - inner.clientHeight / 2;
    }
    const place = (range ?? row).getBoundingClientRect();
    const view = scroller.getBoundingClientRect();
    const isVisible = place.top >= view.top + 60 && place.bottom <= view.bottom - 60;
    if (!isVisible) {
      scroller.scrollTop += place.top - view.top - view.height / 3;
    }
  }

  /** Mark the rows again, but not more often than the eye needs. */
  markSoon() {
    if (this.marking === undefined && this.pattern !== null) {
      this.marking = setTimeout(() => {
        this.marking = undefined;
        this.mark();
      }, MARK_AGAIN);
    }
  }

  mark() {
    if (this.isOpen) {
      markRows(this.page.list.mounted, this.pattern, this.hits[this.current] ?? null);
    }
  }

  // --- drawing ---------------------------------------------------------------------------------

  _key(event) {
    if (event.isComposing || event.keyCode === 229) {
      return;
    }
    if (event.key === 'Enter') {
      event.preventDefault();
      this.step(event.shiftKey ? -1 : 1);
    } else if (event.key === 'Escape') {
      event.preventDefault();
      this.close();
    }
  }

  _count() {
    if (this.pattern === null) {
      return '';
    }
    if (this.hits.length === 0) {
      return this.isSearching ? t('find_searching') : t('nothing_found');
    }
    const n = this.isComplete && !this.isSearching ? this.hits.length : `${this.hits.length}+`;
    return this.current < 0 ? t('find_n', { n }) : t('find_k_of_n', { k: this.current + 1, n });
  }

  draw() {
    if (this.isOpen) {
      this._draw();
    }
  }

  _draw() {
    const hit = this.hits[this.current];
    const isBusy = this.isLoading || (this.isSearching && this.hits.length === 0);
    const off = this.hits.length === 0;
    render(html`<div class="find-bar" role="search" aria-label=${t('find')} @keydown=${(event) => this._key(event)}>
      <input type="search" class="find-input" maxlength=${MAX_LENGTH} autocomplete="off" spellcheck="false" aria-label=${t('find')} placeholder=${t('find')} @input=${(event) => this._typed(event.target.value)}>
      <span class="find-count" role="status">${isBusy ? html`<span class="spinner"></span> ` : nothing}${this._count()}</span>
      <button type="button" class="icon-button find-previous" ?disabled=${off} aria-label=${t('find_previous')} title=${t('find_previous')} @click=${() => this.step(-1)}>${icon('arrow_up')}</button>
      <button type="button" class="icon-button find-next" ?disabled=${off} aria-label=${t('find_next')} title=${t('find_next')} @click=${() => this.step(1)}>${icon('arrow_down')}</button>
      <button type="button" class="icon-button find-close" aria-label=${t('close')} title=${t('close')} @click=${() => this.close()}>${icon('close')}</button>
      ${hit ? html`<p class="find-excerpt quiet"><span>${this._place(hit)}</span> ${showHidden(hit.excerpt)}</p>` : nothing}
    </div>`, this.element);
  }

  /** Return the part of an entry in which a hit is; for a text, whose it is. */
  _part(hit) {
    const { kind } = this.page.store.entries.get(hit.entry) ?? {};
    const isText = hit.field === 'text' && (kind === 'prompt' || kind === 'answer');
    return t(isText ? `find_in_${kind}` : `find_in_${hit.field}`);
  }

  /** Return where a hit is, such as the agent and the tool. */
  _place(hit) {
    const { store } = this.page;
    return [store.nameOf(hit.agent), hit.tool, this._part(hit)].filter(Boolean).join(' · ');
  }
}

/** Return hits, which come with the newest entry first, in the order of the conversation. */
function inOrder(hits) {
  const groups = new Map();
  for (const hit of hits) {
    groups.set(hit.entry, [...(groups.get(hit.entry) ?? []), hit]);
  }
  return [...groups.values()].reverse().flat();
}
