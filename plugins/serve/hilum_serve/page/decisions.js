// The bar above the composer: approvals, questions and plans that wait for the user.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { serverTime } from './api.js';
import { readableArguments, subjectOf } from './card_state.js';
import { drawDiff, diffChoice } from './diff_view.js';
import { formatTokens, parseObject } from './format.js';
import { icon } from './icons.js';
import { StreamingMarkdown, drawInline } from './markdown.js';
import { t, translate } from './strings.js';
import { isField } from './typing.js';
import { showHidden } from './visible.js';

const LAST_MINUTE = 60; // seconds
const MAX_SHOWN = 20_000; // characters of a description
const SETTLE = 600; // milliseconds in which an item that moved under the pointer cannot be decided

/** Return a description without the lines that the bar shows itself. */
function shorten(text) {
  const lines = text.split('\n');
  if (lines[0].startsWith('──')) {
    lines.shift();
  }
  if (/^\s*Needs approval: /.test(lines[0] ?? '')) {
    lines.shift();
  }
  const isIndented = lines.every((line) => line === '' || line.startsWith('   '));
  return (isIndented ? lines.map((line) => line.slice(3)) : lines).join('\n');
}

export class DecisionBar {
  /** @param {object} page session, actions, again() and width(). */
  constructor(page) {
    this.page = page;
    this.reset();
  }

  reset() {
    this.current = ''; // id of the item that the bar shows
    this.drawn = null; // the item itself, which may have gone since it was drawn
    this.settled = 0; // when the item can be decided, in milliseconds of performance.now()
    this.asking = false; // whether the facts are being read
    this.mode = ''; // '', 'reject' or 'edit'
    this.remember = 'once';
    this.text = '';
    this.fields = null;
    this.chosen = new Set();
    this.hasEdited = false; // whether a field of the arguments was changed
    this.busy = false;
    this.sending = ''; // id of the item whose answer is being sent
    this.sent = new Set(); // ids of items that were answered here
    this.written = new Map(); // {item, mode, text, fields, chosen} of items that the user writes about, by id
    this.facts = new Map(); // what the server says about approvals, by id
    this.shown = new Set();
    this.limit = 120;
  }

  /** Move to another waiting item. */
  move(step) {
    const items = this.items();
    if (items.length === 0) {
      return;
    }
    this._select(items[(this._position(items) + step + items.length) % items.length]);
    this.page.again();
  }

  _position(items) {
    return Math.max(0, items.findIndex((item) => item.id === this.current));
  }

  /** Return what waits, and what was answered elsewhere while the user wrote about it. */
  items() {
    const waiting = this.page.store.waiting();
    const ids = new Set(waiting.map((item) => item.id));
    const written = [...this.written.values()].map((each) => each.item);
    return [...waiting, ...written.filter((item) => !ids.has(item.id))];
  }

  /** Return whether an item no longer waits, though the user writes about it. */
  _isAnswered(item) {
    return item.id !== this.sending && !this.page.store.waiting().some((other) => other.id === item.id);
  }

  /** Remember what the user writes about the shown item, so that it is never lost. */
  _noteWritten() {
    const { drawn: item } = this;
    if (item === null || item.id !== this.current) {
      return;
    }
    if (this._isWriting() && !this.sent.has(item.id)) {
      const { mode, text, fields, chosen } = this;
      this.written.set(item.id, { item, mode, text, fields, chosen });
    } else {
      this.written.delete(item.id);
    }
  }

  _isWriting() {
    const focused = document.activeElement;
    const isInField = this.page.bar.contains(focused) && isField(focused) && !focused.matches('select');
    return isInField || this.text.trim() !== '' || this.hasEdited;
  }

  /** Return what the user has written and not sent, about all items. */
  writtenTexts() {
    this._noteWritten();
    return [...this.written.values()].map(textOf).filter(Boolean);
  }

  /** Show an item that the user chose. */
  _select(item) {
    this._noteWritten();
    if (item.id !== this.current) {
      this._begin(item);
    }
    this.settled = 0;
  }

  /** The item that the bar shows. */
  item() {
    const items = this.items();
    return items[this._position(items)] ?? null;
  }

  draw() {
    this._noteWritten();
    const items = this.items();
    if (items.length === 0) {
      this.current = '';
      return nothing;
    }
    const item = items[this._position(items)];
    if (item.id !== this.current) {
      const replaces = this.current !== '';
      this._begin(item);
      if (replaces) {
        // A click that was meant for the item before must not decide this one.
        this.settled = performance.now() + SETTLE;
        setTimeout(() => this.page.again(), SETTLE + 20);
      }
    }
    this.drawn = item;
    this._describe(item);
    return html`<section class="decision" aria-label=${t(this.page.app.can('decide') ? 'waiting_for_you' : 'agent_waiting_for_approval')} data-kind=${item.kind} data-id=${item.id}>
      ${this._drawItem(item, items)}
    </section>`;
  }

  /** Draw which of several waiting items this is. */
  _count(items) {
    if (items.length < 2) {
      return nothing;
    }
    return html`<div class="decision-count">
      <button type="button" class="icon-button" aria-label=${t('previous')} @click=${() => this.move(-1)}><span class="turned">${icon('chevron')}</span></button>
      <span>${t('k_of_n', { k: this._position(items) + 1, n: items.length })}</span>
      <button type="button" class="icon-button" aria-label=${t('next')} @click=${() => this.move(1)}>${icon('chevron')}</button>
    </div>`;
  }

  /** Decide with the buttons of a card: what is dangerous is shown in the bar first. */
  decideFromCard(item, accepted) {
    const isSeen = this.current === item.id && this._isReady(item);
    if (isSeen && accepted && this.mode === '' && !this.facts.get(item.id).dangers.length) {
      this._decide(item, true);
      return;
    }
    this._select(item);
    this.page.again();
    if (!accepted) {
      this._setMode('reject');
    } else {
      this.page.focusDecision();
    }
  }

  _begin(item) {
    this.current = item.id;
    this.mode = '';
    this.remember = 'once';
    this.text = '';
    this.fields = null;
    this.chosen = new Set();
    this.hasEdited = false;
    this.limit = 120;
    this.whole = false;
    const written = this.written.get(item.id);
    if (written !== undefined) {
      this.mode = written.mode;
      this.text = written.text;
      this.fields = written.fields;
      this.chosen = written.chosen;
      this.hasEdited = written.fields !== null;
    }
  }

  /** Read everything about an approval, and then tell the server that the user sees it. */
  async _describe(item) {
    if (item.kind !== 'approval' || this._isAnswered(item)) {
      return;
    }
    if (!this.facts.has(item.id)) {
      await this._readFacts();
    }
    if (!this.shown.has(item.id) && !document.hidden && this._isRead(item) && this.page.can('decide')) {
      this.shown.add(item.id);
      this.page.actions.shown(item); // starts the time limit
    }
  }

  /** Read the facts about all approvals that have none, with one request. */
  async _readFacts() {
    if (this.asking) {
      return; // the bar is drawn again afterwards, and asks for what came meanwhile
    }
    const missing = this.page.store.waiting()
      .filter((item) => item.kind === 'approval' && !this.facts.has(item.id));
    if (missing.length === 0) {
      return;
    }
    this.asking = true;
    const found = await this.page.actions.describeApprovals();
    this.asking = false;
    for (const item of missing) {
      const facts = found?.find((each) => each.item.id === item.id);
      // Without its facts, a call cannot be accepted: its dangers are unknown.
      this.facts.set(item.id, facts ?? { failed: true });
    }
    this.page.again();
  }

  /** Return whether a call is so dangerous that it is never accepted together with others. */
  _isGrave(item) {
    return (this.facts.get(item.id)?.dangers ?? []).some((danger) => danger.grave);
  }

  _isRead(item) {
    const facts = this.facts.get(item.id);
    return facts !== undefined && !facts.failed;
  }

  /** Return whether the user has had the chance to see what an approval is about. */
  _isReady(item) {
    return this._isRead(item) && !this.busy && performance.now() >= this.settled;
  }

  _drawItem(item, items) {
    if (item.kind === 'question') {
      return this._drawQuestion(item, items);
    }
    if (item.kind === 'plan') {
      return this._drawPlan(item, items);
    }
    return this._drawApproval(item, items);
  }

  _countdown(item) {
    const left = item.deadline ? Math.ceil(item.deadline - serverTime() / 1000) : Infinity;
    if (left > LAST_MINUTE) {
      return nothing;
    }
    return html`<span class="countdown" role="timer">${icon('clock')} ${t('seconds_left', { n: Math.max(0, left) })}</span>`;
  }

  _drawApproval(item, items) {
    const { store } = this.page;
    const facts = this.facts.get(item.id) ?? { loading: true };
    const answered = this._isAnswered(item);
    const may = this.page.can('decide') && !answered;
    const settling = performance.now() < this.settled;
    const ready = may && this._isReady(item);
    const grave = this._isGrave(item);
    const same = this._sameAnswer(item, items);
    const together = same.filter((other) => !this._isGrave(other));
    const alone = same.length - together.length;
    const who = store.nameOf(item.agent);
    const editing = this.mode === 'edit';
    return html`
      <div class="decision-head">
        <span class="decision-icon">${icon('shield')}</span>
        <div class="decision-title">
          <h2>${who ? t('agent_wants', { who, tool: item.call.name }) : t('hilum_wants', { tool: item.call.name })} <span class="risk ${item.risk}">${t(`risk_${item.risk || 'read'}`)}</span></h2>
          ${item.reason ? html`<p class="quiet reason-text">${drawInline(translate(item.reason, item.reason_parts))}</p>` : nothing}
        </div>
        ${this._countdown(item)}${this._count(items)}
      </div>
      ${this._drawAnswered(answered)}
      ${(facts.dangers ?? []).map((danger) => html`<p class="danger-line ${danger.grave ? 'grave' : ''}">${icon('alert')} <span>${showHidden(translate(danger.text, danger.parts))}</span></p>`)}
      <div class="decision-body">${editing ? this._drawFields(item) : this._drawCall(item, facts)}</div>
      ${this.mode === 'reject' ? html`<label class="field"><span>${t('reject_reason')}</span>
        <textarea class="reason" rows="2" .value=${this.text} placeholder=${t('reject_hint')} @input=${(event) => { this.text = event.target.value; }} @keydown=${(event) => this._reasonKey(event, item)}></textarea></label>` : nothing}
      ${editing || this.mode === 'reject' ? nothing : this._drawScope(item, facts, grave)}
      ${answered ? this._drawLeaving(item) : html`<div class="decision-actions">
        ${this.mode === 'reject' ? html`
          <button type="button" class="button danger" ?disabled=${this.busy || settling || !may} @click=${() => this._decide(item, false)}>${t('reject')}</button>
          <button type="button" class="button" @click=${() => this._setMode('')}>${t('cancel')}</button>` : html`
          <button type="button" class="button primary accept" ?disabled=${!ready} @click=${() => this._decide(item, true)}>${editing ? t('accept_edited') : t('accept')} <kbd>a</kbd></button>
          <button type="button" class="button reject" ?disabled=${this.busy || settling || !may} @click=${() => this._setMode('reject')}>${t('reject')} <kbd>x</kbd></button>
          ${editing ? html`<button type="button" class="button" @click=${() => this._setMode('')}>${t('cancel')}</button>` : html`<button type="button" class="button edit" ?disabled=${!ready} @click=${() => this._setMode('edit')}>${t('edit')} <kbd>e</kbd></button>`}
          ${together.length > 1 && !editing ? html`<button type="button" class="button accept-all" ?disabled=${!ready || this.remember === 'always'} @click=${() => this._decideAll(together)}>${t('accept_all', { n: together.length })}</button>` : nothing}`}
        <span class="spacer"></span>
        <label class="policy"><span>${t('policy')}</span>
          <select ?disabled=${!may} @change=${(event) => this.page.actions.set({ approve: event.target.value })}>
            ${['ask_first', 'auto', 'readonly'].map((name) => html`<option value=${name} ?selected=${name === store.state.approve}>${t(`policy_${name}`)}</option>`)}
          </select></label>
      </div>`}
      ${same.length > 1 && alone && !editing ? html`<p class="quiet scope-note alone-note">${t('accept_alone', { n: alone })}</p>` : nothing}`;
  }

  /** Say that an item was answered elsewhere while the user wrote about it. */
  _drawAnswered(answered) {
    return answered ? html`<p class="danger-line answered-line" role="status">${icon('alert')} <span>${t('answered_meanwhile')}</span></p>` : nothing;
  }

  /** Offer what the user can do with a text about an item that was answered elsewhere. */
  _drawLeaving(item) {
    return html`<div class="decision-actions">
      <button type="button" class="button primary use-text" @click=${() => this._leave(item, true)}>${t('use_as_message')}</button>
      <button type="button" class="button discard-text" @click=${() => this._leave(item, false)}>${t('discard_text')}</button></div>`;
  }

  _leave(item, isUsed) {
    this._noteWritten();
    const text = textOf(this.written.get(item.id));
    this.written.delete(item.id);
    this.sent.add(item.id); // the focus may still be in its field
    if (isUsed && text) {
      this.page._returnText(text);
    } else {
      this.page.scroller.focus({ preventScroll: true });
    }
    this.page.again();
  }

  /** Cancel the field that is open; return whether there was one. What was answered elsewhere stays. */
  leaveField() {
    if (this.mode === '' || this._isAnswered(this.item() ?? {})) {
      return false;
    }
    this._setMode('');
    return true;
  }

  _drawScope(item, facts, grave) {
    if (grave) {
      this.remember = 'once';
      return html`<p class="quiet scope-note">${t('scope_grave')}</p>`;
    }
    const choose = (scope) => () => {
      this.remember = scope;
      this.page.again();
    };
    const covers = translate(facts.covers, facts.covers_parts) || item.scope || t('all_calls_of', { tool: item.call.name });
    const file = facts.file ?? '';
    const canStore = Boolean(facts.rule && file);
    return html`<div class="decision-scope" role="group" aria-label=${t('scope')}>
      <span class="segments">
        ${['once', 'session', 'always'].map((scope) => html`<button type="button" aria-pressed=${String(this.remember === scope)} ?disabled=${!this.page.app.can('decide') || (scope === 'always' && !canStore)} title=${scope === 'always' && canStore ? t('scope_stored', { file }) : nothing} @click=${choose(scope)}>${t(`scope_${scope}`)}</button>`)}
      </span>
      ${this.remember === 'once' ? nothing : html`<span class="rule">${t('scope_covers')} <code>${showHidden(this.remember === 'always' ? facts.rule || covers : covers)}</code></span>`}
      ${this.remember === 'always' ? html`<span class="quiet rule-file">${t('scope_stored_in')} <code>${showHidden(file)}</code></span>` : nothing}
    </div>`;
  }

  /** Return the approvals of calls of the same answer of the model. */
  _sameAnswer(item, items) {
    const answer = this.facts.get(item.id)?.answer;
    if (!answer) {
      return [];
    }
    const others = items.filter((other) => other.kind === 'approval' && other.agent === item.agent);
    if (others.some((other) => !this.facts.has(other.id))) {
      this._readFacts();
    }
    return others.filter((other) => this.facts.get(other.id)?.answer === answer);
  }

  /** Show what will happen: the change to a file, the command, or the arguments. */
  _drawCall(item, facts) {
    if (facts.loading) {
      return html`<p class="quiet">${t('loading')}</p>`;
    }
    if (facts.failed) {
      const readAgain = () => {
        this.facts.delete(item.id);
        this.page.again();
      };
      return html`<p class="danger-line">${icon('alert')} <span>${t('facts_failed')}</span>
        <button type="button" class="button small" @click=${readAgain}>${t('try_again')}</button></p>`;
    }
    const described = shorten(facts.text) || readableArguments((facts.item ?? item).call.arguments);
    const text = showHidden(described);
    const hunk = text.search(/^@@ /m);
    if (hunk >= 0) {
      const width = this.page.width();
      const again = () => this.page.again();
      const before = text.slice(0, hunk).split('\n').filter((line) => !/^(---|\+\+\+) /.test(line)).join('\n').trim();
      const values = parseObject(item.call.arguments);
      return html`${before ? html`<p class="plain-text">${before}</p>` : nothing}<div class="diff-frame">
        <div class="diff-title"><span class="path">${showHidden(values?.path ?? values?.file_path)}</span>${diffChoice(width, again)}</div>
        ${drawDiff({ diff: text.slice(hunk) }, { width, limit: this.limit, more: () => { this.limit += 400; again(); }, again })}
      </div>`;
    }
    const shown = text.length > MAX_SHOWN && !this.whole
      ? `${text.slice(0, MAX_SHOWN / 2)}\n… ${t('left_out', { n: formatTokens(text.length - MAX_SHOWN) })} …\n${text.slice(-MAX_SHOWN / 2)}`
      : text;
    return html`<pre class="card-text command" tabindex="0" aria-label=${t('arguments')}>${shown}</pre>
      ${text.length > MAX_SHOWN && !this.whole ? html`<button type="button" class="text-button" @click=${() => { this.whole = true; this.page.again(); }}>${t('whole_result', { n: formatTokens(text.length) })}</button>` : nothing}`;
  }

  _drawFields(item) {
    if (this.fields === null) {
      const text = (this.facts.get(item.id)?.item ?? item).call.arguments;
      const values = parseObject(text);
      this.fields = new Map(values ? Object.entries(values) : [['', text]]);
    }
    return html`<div class="fields">${[...this.fields].map(([name, value]) => {
      const isText = typeof value === 'string';
      const shown = isText ? value : JSON.stringify(value, null, 2);
      const rows = Math.min(14, Math.max(1, shown.split('\n').length));
      const note = (event) => {
        this.hasEdited = true;
        if (isText) {
          this.fields?.set(name, event.target.value);
        }
      };
      const change = (event) => {
        if (this.fields === null) {
          return; // editing was cancelled, and the field reports its text while it is removed
        }
        const typed = event.target.value;
        event.target.setCustomValidity('');
        if (isText) {
          this.fields.set(name, typed);
          return;
        }
        try {
          this.fields.set(name, JSON.parse(typed));
        } catch {
          event.target.setCustomValidity(t('not_json'));
        }
      };
      return html`<label class="field"><span>${name || t('arguments')}</span><textarea spellcheck="false" rows=${rows} .value=${shown} @input=${note} @change=${change}></textarea></label>`;
    })}</div>`;
  }

  _setMode(mode) {
    this.mode = mode;
    this.fields = null;
    this.hasEdited = false;
    this.page.again();
    if (mode) {
      requestAnimationFrame(() => document.querySelector('.decision textarea')?.focus());
    }
  }

  _reasonKey(event, item) {
    if (event.isComposing || event.keyCode === 229) {
      return;
    }
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      if (this.page.can('decide') && !this._isAnswered(item)) {
        this._decide(item, false);
      }
    }
  }

  async _decide(item, accepted) {
    const edited = accepted && this.mode === 'edit';
    const body = { accepted, remember: accepted && !edited ? this.remember : 'once' };
    if (!accepted && this.text.trim()) {
      body.reason = this.text.trim();
    }
    if (edited && this.fields) {
      const invalid = document.querySelector('.decision textarea:invalid');
      if (invalid) {
        invalid.reportValidity();
        return;
      }
      body.arguments = this.fields.has('')
        ? this.fields.get('')
        : JSON.stringify(Object.fromEntries(this.fields));
    }
    await this._send(item, () => this.page.actions.decideWith(item, body));
  }

  async _decideAll(items) {
    const [first] = items;
    const body = { ids: items.map((item) => item.id), accepted: true, remember: this.remember };
    await this._send(first, async () => {
      const done = await this.page.actions.decideAll(body);
      for (const refused of (done?.answers ?? []).filter((each) => each.code)) {
        this.page.app.say(`${refused.code}: ${refused.message}`, '', 'error');
      }
      return null; // which of them were answered, the stream says
    });
  }

  async _send(item, action) {
    if (!this.page.can('decide')) {
      this.page.again(); // the button was drawn before the page went to sleep
      return;
    }
    this.busy = true;
    this.sending = item.id;
    this.page.again();
    try {
      const done = await action();
      if (done !== null) {
        this.sent.add(item.id);
        this.written.delete(item.id);
      }
    } finally {
      this.busy = false;
      this.sending = '';
      this.page.again();
    }
  }

  /** Decide with one key; return whether the key meant something. */
  key(name) {
    const item = this.item();
    // The item that was drawn may have gone since; its successor is decided only when it is shown.
    const isShown = item?.id === this.current && !this._isAnswered(item) && performance.now() >= this.settled;
    if (!isShown || this.busy || this.page.ended || !this.page.can('decide')) {
      return false;
    }
    if (item.kind === 'approval' && name === 'a' && this.mode === '' && this._isReady(item)) {
      this._decide(item, true);
    } else if (item.kind === 'approval' && name === 'x') {
      this._setMode('reject');
    } else if (item.kind === 'approval' && name === 'e' && this._isReady(item)) {
      this._setMode('edit');
    } else if (item.kind === 'plan' && name === 'a' && this.mode === '') {
      this._plan(item, true);
    } else if (item.kind === 'plan' && name === 'x') {
      this._setMode('reject');
    } else if (item.kind === 'question' && /^[1-9]$/.test(name) && item.options?.[name - 1] !== undefined) {
      this._choose(item, item.options[name - 1]);
    } else {
      return false;
    }
    return true;
  }

  _choose(item, option) {
    if (item.multiple) {
      this.chosen.has(option) ? this.chosen.delete(option) : this.chosen.add(option);
      this.page.again();
      return;
    }
    this._send(item, () => this.page.actions.answer(item, [option]));
  }

  _drawQuestion(item, items) {
    const who = this.page.store.nameOf(item.agent);
    const own = this.text.trim();
    const answered = this._isAnswered(item);
    const off = this.busy || answered || performance.now() < this.settled || !this.page.can('decide');
    const submit = () => this._send(
      item,
      () => this.page.actions.answer(item, own ? [...this.chosen, own] : [...this.chosen]),
    );
    const decide = () => this._send(item, () => this.page.actions.answer(item, []));
    return html`
      <div class="decision-head"><span class="decision-icon">${icon('question')}</span>
        <div class="decision-title"><h2>${who ? t('agent_asks', { who }) : t('hilum_asks')}</h2><p class="plain-text question-text">${drawInline(item.question)}</p></div>${this._countdown(item)}${this._count(items)}</div>
      ${this._drawAnswered(answered)}
      <div class="options decision-body" role="group" aria-label=${item.question}>
        ${(item.options ?? []).map((option, index) => html`<button type="button" class="option" aria-pressed=${String(this.chosen.has(option))} ?disabled=${off} @click=${() => this._choose(item, option)}><kbd>${index + 1}</kbd><span>${drawInline(option)}</span></button>`)}
      </div>
      <div class="free-answer">
        <input type="text" aria-label=${t('own_answer')} placeholder=${t('own_answer')} .value=${this.text} @input=${(event) => { this.text = event.target.value; this.page.again(); }} @keydown=${(event) => { if (event.key === 'Enter' && !event.isComposing && event.keyCode !== 229) { event.preventDefault(); if (!off && (own || this.chosen.size)) { submit(); } } }}>
        <button type="button" class="button primary" ?disabled=${off || (!own && !this.chosen.size)} @click=${submit}>${t('answer')}</button>
        <button type="button" class="button" ?disabled=${off} @click=${decide}>${t('agent_decides')}</button>
      </div>
      ${answered ? this._drawLeaving(item) : nothing}`;
  }

  _drawPlan(item, items) {
    if (this.planId !== item.id) {
      this.planId = item.id;
      this.planText = new StreamingMarkdown();
    }
    this.planText.set(item.text ?? '', true);
    const answered = this._isAnswered(item);
    const off = this.busy || answered || performance.now() < this.settled || !this.page.can('decide');
    return html`
      <div class="decision-head"><span class="decision-icon">${icon('spark')}</span><div class="decision-title"><h2>${t('plan_question')}</h2></div>${this._count(items)}</div>
      ${this._drawAnswered(answered)}
      ${this.mode === 'edit'
        ? html`<label class="field"><span>${t('your_plan')}</span><textarea rows="12" .value=${this.text || item.text} @input=${(event) => { this.text = event.target.value; }}></textarea></label>`
        : html`<div class="plan-text decision-body" tabindex="0">${this.planText.element}</div>`}
      ${this.mode === 'reject' ? html`<label class="field"><span>${t('plan_changes')}</span><textarea rows="2" .value=${this.text} @input=${(event) => { this.text = event.target.value; }}></textarea></label>` : nothing}
      ${answered ? this._drawLeaving(item) : html`<div class="decision-actions">
        ${this.mode === 'reject' ? html`<button type="button" class="button danger" ?disabled=${off} @click=${() => this._plan(item, false)}>${t('plan_reject')}</button>
          <button type="button" class="button" @click=${() => this._setMode('')}>${t('cancel')}</button>` : html`
          <button type="button" class="button primary accept" ?disabled=${off} @click=${() => this._plan(item, true)}>${t('plan_accept')} <kbd>a</kbd></button>
          <button type="button" class="button reject" ?disabled=${off} @click=${() => this._setMode('reject')}>${t('plan_reject')} <kbd>x</kbd></button>
          ${this.mode === 'edit' ? nothing : html`<button type="button" class="button" ?disabled=${off} @click=${() => this._setMode('edit')}>${t('edit')}</button>`}`}
      </div>`}`;
  }

  _plan(item, accepted) {
    const text = this.text.trim();
    const body = { accepted };
    if (!accepted && text) {
      body.reason = text;
    }
    if (accepted && this.mode === 'edit' && text && text !== item.text) {
      body.text = text;
    }
    this._send(item, () => this.page.actions.decidePlan(item, body));
  }
}

/** Return what the user has written about an item, as one text. */
function textOf(written) {
  if (written === undefined) {
    return '';
  }
  if (written.mode === 'edit' && written.fields !== null) {
    return [...written.fields.values()]
      .map((value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2)))
      .join('\n');
  }
  return written.text.trim();
}

/** Return a short description for notifications. */
export function describeWaiting(item) {
  if (item.kind === 'approval') {
    return `${item.call.name}: ${subjectOf(item.call.arguments)}`;
  }
  return item.kind === 'question' ? item.question : t('plan_question');
}
