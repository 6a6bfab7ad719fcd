// One session: its stream, its conversation, its decisions and its input.

import { html, nothing, render } from './vendor/lit-html/lit-html.js';
import { addressOf } from './addresses.js';
import { SessionApi, server } from './api.js';
import { Composer } from './composer.js';
import { Connection } from './connection.js';
import { backgroundDialog, readCommand } from './commands.js';
import { copyText } from './copying.js';
import { DecisionBar, describeWaiting } from './decisions.js';
import { openDialog, pickDialog } from './dialogs.js';
import { EntryRows, estimateHeight, isShown } from './entries.js';
import { FindBar } from './find_bar.js';
import { grantsDialog } from './grants_dialog.js';
import { keepFocus } from './focus.js';
import { diffDialog, rewindDialog, undoDialog } from './going_back.js';
import { icon } from './icons.js';
import { formatTokens, listNames } from './format.js';
import { notify } from './notifications.js';
import { writeDraft } from './preferences.js';
import { SessionFacts } from './session_facts.js';
import { SidePanel } from './side_panel.js';
import { drawStatus } from './status_bar.js';
import { t, translate } from './strings.js';
import { VirtualList } from './virtual_list.js';

const OLDER = 200;
const OLDER_AT_ONCE = 500; // entries of a request while many are loaded
const ANSWER_EVENTS = 100; // events after the start of a request that are read at once for its answer
const ANSWER_PAGES = 10;
const TOKEN_ENDED = 4401; // codes with which the server ends a stream
const FORBIDDEN = 4403;
const UNSHARED = 4410;
const MAX_OFFLINE = 4; // failed attempts after which a shared session has ended with its terminal
const TIMELINE_PAUSE = 2_000; // milliseconds between two readings of the timeline

export class SessionPage {
  constructor(app, session, agent = null) {
    this.app = app;
    this.session = session;
    this.store = new SessionFacts();
    this.store.agent = agent;
    this.store.me = app.me?.name ?? '';
    this.api = new SessionApi(session, () => this.store.seq);
    this.connection = null;
    this.following = true;
    this.unread = 0;
    this.loadingOlder = null; // the request for older entries, while it runs
    this.commands = [];
    this.ended = ''; // why there is no stream anymore: closed, gone, forbidden or unshared
    this.offline = 0; // failed attempts to reach the server, since it was reached
    this.endedWhy = '';
    this.files = [];
    this.filesSeq = -1;
    this.redoable = false; // whether the last undo can be undone
    this.readingFiles = false;
    this.spans = []; // the timeline of the last run
    this.spansSeq = -1;
    this.spansAt = -TIMELINE_PAUSE; // when the timeline was read, in milliseconds of performance.now()
    this.spansTimer = 0;
    this.readingSpans = false;
    this.wasRunning = null;
    this.scheduled = false;
    this.actions = this._makeActions();
    this.panel = new SidePanel(this);
    this.decisions = new DecisionBar(this);
    this.element = document.createElement('div');
    this.element.className = 'session-page';
    this.scroller = document.createElement('div');
    this.scroller.className = 'scroller';
    this.scroller.tabIndex = 0;
    this.scroller.setAttribute('aria-label', t('conversation'));
    this.scroller.setAttribute('role', 'region');
    this.empty = document.createElement('div');
    this.empty.className = 'empty';
    this.jump = document.createElement('div');
    this.jump.className = 'jump-place';
    this.dock = document.createElement('div');
    this.dock.className = 'dock';
    this.bar = document.createElement('div');
    this.bar.className = 'decision-place';
    const input = document.createElement('div');
    input.className = 'composer';
    this.status = document.createElement('div');
    this.status.className = 'status';
    this.dock.append(this.jump, this.bar, input, this.status);
    this.find = new FindBar(this);
    this.element.append(this.find.element, this.empty, this.scroller, this.dock);
    this.rows = new EntryRows(this);
    this.list = new VirtualList(this.scroller, {
      create: (key) => this.rows.create(key),
      update: (key, element) => this.rows.update(key, element),
      remove: (key, element) => this.rows.remove(key, element),
      estimate: (key) => estimateHeight(this.store.entries.get(key)),
    });
    this.list.onTop = () => this._loadOlder();
    this.list.onFollow = (follows) => {
      this.following = follows;
      this.unread = follows ? 0 : this.unread;
      this.again();
    };
    this.composer = new Composer(input, this);
    this.clock = setInterval(() => this._tick(), 1_000);
  }

  /** Begin, when the element is in the document. */
  shown() {
    this.composer.open(this.session);
    this._connect();
    this._draw();
    if (!matchMedia('(pointer: coarse)').matches) {
      this.composer.focus();
    }
    this._loadCommands();
  }

  _connect() {
    this.connection = new Connection(this.session, {
      after: () => (this.store.loaded ? this.store.seq : 0),
      messages: (list) => this._receive(list),
      state: (state) => {
        this.offline = state === 'open' ? 0 : this.offline;
        this.again(true); // cards can be decided only while connected
      },
      refused: () => this._checkAccess(),
      ended: (code, error) => this._streamEnded(code, error),
    });
  }

  close() {
    const texts = this.decisions.writtenTexts();
    if (texts.length) {
      writeDraft(this.session, [...texts, this.composer.input.value].join('\n').trim());
    }
    clearInterval(this.clock);
    this.find.close();
    clearTimeout(this.spansTimer);
    this.connection?.close();
    this.list.clear();
    this.rows.clear();
    this.list.sizes.disconnect();
    this.list.viewport.disconnect();
  }

  title() {
    return this.store.state.title
      || this.app.sessions.find((session) => session.id === this.session)?.title
      || '';
  }

  width() {
    return this.list.content.clientWidth - 32;
  }

  touch(key) {
    this.list.touch(key);
  }

  say(text, hint) {
    this.app.say(text, hint);
  }

  /** Return whether the user can do something now; nobody decides without a connection. */
  can(action) {
    const isCurrent = action !== 'decide' || Boolean(this.connection?.isCurrent());
    return isCurrent && this.app.can(action);
  }

  // --- the stream ------------------------------------------------------------------------------

  _receive(elements) {
    const { store } = this;
    const before = store.keys.length;
    const changes = store.apply(elements);
    if (changes.replaced) {
      const texts = this.decisions.writtenTexts();
      this.decisions.reset();
      if (texts.length) {
        this._returnText(texts.join('\n')); // the ids may belong to other items now
        this.say(t('text_kept'));
      }
      this.rows.clear();
    }
    if (changes.gap) {
      store.clear();
      this.connection.reconnect();
      return;
    }
    if (changes.reset) {
      this.rows.markdown.clear();
    }
    if (changes.keys || changes.touched.size) {
      this._updateRows(changes);
    }
    this.find.note(changes.touched);
    if (!this.following && store.keys.length > before && before > 0) {
      this.unread += store.keys.length - before;
    }
    if (changes.state || changes.keys) {
      this.again();
      this._notify();
    }
    if (changes.state || changes.keys) {
      this._touchAgentCards(); // and ends of runs: only the last one can be continued
    }
    if (changes.state) {
      this.app.noteSession(this.session, this.store);
      this._readFacts();
    }
  }

  _updateRows(changes) {
    const shown = this.store.keys.filter((key) => isShown(this.store.entries.get(key), this.store));
    const isSame = !changes.reset && shown.length === this.list.keys.length
      && shown.at(-1) === this.list.keys.at(-1) && shown[0] === this.list.keys[0]
      && !this._visibilityChanged(changes.touched);
    if (!isSame) {
      this.list.setKeys(shown);
    }
    for (const key of changes.touched) {
      this.list.touch(key);
    }
  }

  _visibilityChanged(touched) {
    for (const key of touched) {
      if (isShown(this.store.entries.get(key), this.store) !== this.list.index.has(key)) {
        return true;
      }
    }
    return false;
  }

  _touchAgentCards() {
    for (const key of this.list.mounted.keys()) {
      const entry = this.store.entries.get(key);
      const isCard = entry?.kind === 'card';
      if (entry?.kind === 'outcome' || (isCard && (!entry.result || this.store.agentOfCard(entry)))) {
        this.list.touch(key);
      }
    }
  }

  /** Find out whether the server still knows this browser: a failed handshake does not tell. */
  async _checkAccess() {
    try {
      await server.me(); // unlike a request for the session, it does not open the session
      this.offline = 0;
    } catch {
      // Signed out, which the request has noted, or offline: the connection keeps trying.
      this.offline += 1;
    }
    // A terminal that was killed says nothing. Its server never returns: the next one is at another
    // address, with another token.
    if (this.app.me?.shared && this.offline >= MAX_OFFLINE && !this.ended) {
      this.connection.close();
      this._end('unshared');
    }
  }

  /** Show why the server does not continue the stream. */
  async _streamEnded(code, error) {
    if (code === TOKEN_ENDED) {
      await this._checkAccess();
      if (!this.connection.closed) {
        // Another tab has signed in again, or the server does not answer at the moment.
        this.connection.reconnectLater();
      }
      return;
    }
    if (code === UNSHARED) {
      this._end('unshared');
    } else if (code === FORBIDDEN) {
      this._end('forbidden', error?.message ?? '');
    } else {
      this._end(error?.status === 404 ? 'gone' : 'closed');
    }
  }

  _end(how, why = '') {
    this.ended = how;
    this.endedWhy = why;
    this._draw();
  }

  /** Open the session again, which somebody has closed. */
  async _openAgain() {
    try {
      await this.api.open();
    } catch (error) {
      if (error.status === 404 || error.status === 410) {
        this._end('gone');
      } else {
        this.app.report(error); // the button stays, to try again
      }
      return;
    }
    this.ended = '';
    this.connection.reconnect();
    this._draw();
  }

  /** Look once more whether the terminal shares the session. */
  _tryAgain() {
    this.connection.close();
    this.offline = MAX_OFFLINE - 1;
    this.ended = '';
    this._connect();
    this._draw();
  }

  async _describeApprovals() {
    const found = await this.app.attempt(() => this.api.approvals());
    return found?.approvals ?? null;
  }

  async _loadOlder() {
    if (this.ended || this.loadingOlder || !this.store.hasOlder || !this.store.loaded) {
      return;
    }
    await this._readOlder(OLDER);
    this._updateRows({ touched: new Set(), reset: true });
    this.again();
  }

  /** Load entries until one of them is there. */
  async loadUntil(id) {
    const { store } = this;
    while (!this.ended && store.loaded && store.first > id) {
      const before = store.first;
      await (this.loadingOlder ?? this._readOlder(OLDER_AT_ONCE));
      if (store.first === before) {
        break; // the server did not answer, which has been reported
      }
    }
    this._updateRows({ touched: new Set(), reset: true });
    this.again();
  }

  /** Read older entries into the store; the list shows them with its next update. */
  async _readOlder(limit) {
    this.loadingOlder = this.app.attempt(() => this.api.entries(this.store.first, limit));
    const found = await this.loadingOlder;
    if (found !== null) {
      this.store.addOlder(found.entries);
    }
    this.loadingOlder = null;
  }

  /** Return the whole text of a long answer, which its event has; null if it is not found. */
  async _loadAnswer(entry) {
    // The entry has the number of the event with which its request began.
    let after = entry.seq - 1;
    for (let page = 0; page < ANSWER_PAGES; page++) {
      const { events, last } = await this.api.events(after, ANSWER_EVENTS);
      const found = events.find(
        (event) => event.type === 'model_answered' && event.agent === entry.agent,
      );
      if (found) {
        return found.message.parts.filter((part) => part.type === 'text').map((part) => part.text).join('');
      }
      after = events.at(-1)?.seq ?? last;
      if (after >= last) {
        break;
      }
    }
    this.say(t('answer_not_found'));
    return null;
  }

  /** Read what the stream does not contain, when it may have changed. */
  async _readFacts() {
    this._readFiles();
    const running = this.store.isRunning();
    if (running !== this.wasRunning) {
      this.wasRunning = running;
      const usage = running ? null : await this.api.usage().catch(() => null);
      if (usage?.window) {
        const { window: size, total: used } = usage.window;
        this.store.window = { size, used };
        this.again();
      }
    }
  }

  /** Read the changed files if they are shown: the server compares all of them for each request. */
  async _readFiles() {
    const { files_seq: filesSeq = 0 } = this.store.state;
    if (filesSeq === this.filesSeq || this.readingFiles || this.ended || !this.app.isPanelShown()) {
      return;
    }
    this.readingFiles = true;
    this.filesSeq = filesSeq;
    const found = filesSeq ? await this.api.files().catch(() => null) : null;
    this.readingFiles = false;
    this.files = found?.files ?? [];
    this.redoable = found?.redoable ?? false;
    this.again(); // also reads what has changed meanwhile
  }

  /** Read the timeline of the last run if it is shown and something has happened. */
  async _readTimeline() {
    const { seq } = this.store;
    const isWanted = this.store.loaded && !this.ended && this.app.isPanelShown();
    if (!isWanted || seq === this.spansSeq || this.readingSpans || this.spansTimer) {
      return;
    }
    const wait = this.spansAt + TIMELINE_PAUSE - performance.now();
    if (wait > 0) {
      this.spansTimer = setTimeout(() => {
        this.spansTimer = 0;
        this.again();
      }, wait);
      return;
    }
    this.readingSpans = true;
    this.spansAt = performance.now();
    const found = await this.api.timeline(this.store.lastRun()).catch(() => null);
    this.readingSpans = false;
    this.spansSeq = seq;
    this.spans = found?.spans ?? this.spans;
    this.again(); // also reads what has happened meanwhile
  }

  /** Show an entry, which may be older than what is loaded, or in another agent's conversation. */
  async _showEntry(id, agent) {
    const shown = agent === this.store.lead() ? null : agent;
    if (shown !== this.store.agent) {
      location.hash = addressOf(this.session, shown ?? '');
      this.showAgent(shown);
    }
    this.following = false;
    this.list.follows = false;
    await this.loadUntil(id);
    if (id < this.store.first) {
      return; // the server did not answer, which has been reported
    }
    this.app.closeDrawers();
    this.list.scrollToKey(id);
  }

  async _loadCommands() {
    try {
      const found = await this.api.commands();
      this.commands = found.commands;
    } catch {
      this.commands = []; // the page's own commands still work
    }
  }

  _notify() {
    if (!this.app.can('decide')) {
      return; // others decide
    }
    for (const item of this.store.waiting()) {
      notify(item.id, t('waiting_for_you'), describeWaiting(item), () => this.focusDecision());
    }
  }

  focusDecision() {
    this.bar.querySelector('button.accept, .option, button')?.focus();
  }

  _tick() {
    const waits = this.store.waiting().some((item) => item.deadline);
    if (waits || this.store.isRunning()) {
      this.again();
      if (this.store.isRunning()) {
        this._touchAgentCards();
      }
    }
  }

  // --- drawing ---------------------------------------------------------------------------------

  again(all = false) {
    if (all) {
      this.list.touchAll();
    }
    if (this.scheduled) {
      return;
    }
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this._draw();
    });
  }

  _draw() {
    const connection = this.connection?.state ?? 'connecting';
    this._readFiles();
    this._readTimeline();
    const isEmpty = this.list.keys.length === 0;
    this.scroller.setAttribute('aria-label', t('conversation'));
    this.dock.hidden = Boolean(this.ended); // any change would open the session again
    this.empty.hidden = !isEmpty && !this.ended;
    // What has been loaded can still be read.
    this.element.classList.toggle('has-ended', Boolean(this.ended) && !isEmpty);
    if (isEmpty || this.ended) {
      render(this._drawEmpty(), this.empty);
    }
    keepFocus(this.bar, () => render(this._drawLeft() ?? this.decisions.draw(), this.bar), this.scroller);
    render(this.following || isEmpty ? nothing : html`<button type="button" class="jump" @click=${() => this.list.scrollToEnd()}>${icon('arrow_down')} ${this.unread ? t('n_new', { n: this.unread }) : t('to_end')}</button>`, this.jump);
    render(drawStatus({ store: this.store, connection, actions: this.actions, can: (action) => this.can(action) }), this.status);
    this.composer.draw();
    this.find.draw();
    this.app.again();
  }

  /** Offer to continue what an earlier process left; null if nothing is left. */
  _drawLeft() {
    const left = this.store.state.left ?? 0;
    if (!left || this.store.isRunning() || this.decisions.items().length) {
      return null;
    }
    return html`<section class="decision left" aria-label=${t('continue_run')}><div class="decision-head">
      <span class="decision-icon">${icon('retry')}</span><div class="decision-title"><h2>${t('left_runs', { n: left })}</h2></div>
      <button type="button" class="button primary small" ?disabled=${!this.can('retry')} @click=${() => this.actions.resume()}>${t('continue_run')}</button></div></section>`;
  }

  _drawEmpty() {
    if (this.ended === 'unshared') {
      return html`<h2>${t('session_unshared')}</h2><p class="quiet">${t('session_unshared_text')}</p>
        <ul class="tips"><li>${t('session_unshared_again')} <code>/share</code></li><li>${t('session_unshared_serve')} <code>hilum serve</code></li></ul>
        <button type="button" class="button" @click=${() => this._tryAgain()}>${t('try_again')}</button>`;
    }
    if (this.ended) {
      return html`<h2>${t(`session_${this.ended}`)}</h2><p class="quiet">${this.endedWhy || t(`session_${this.ended}_text`)}</p>
        ${this.ended === 'closed' ? html`<button type="button" class="button primary" @click=${() => this._openAgain()}>${t('open_again')}</button>` : nothing}
        <a class="button" href="#/">${t('to_sessions')}</a>`;
    }
    // The newest entries may all belong to other agents; older ones are being loaded then.
    if (!this.store.loaded || this.store.hasOlder) {
      return html`<span class="spinner big"></span><p class="quiet" role="status">${t('loading')}</p>`;
    }
    if (!this.store.hasAgent()) {
      return html`<h2>${t('agent_unknown')}</h2><a class="button" href=${addressOf(this.session)}>${t('back')}</a>`;
    }
    if (this.store.agent !== null) {
      return html`<p class="quiet">${t('agent_silent')}</p>`;
    }
    const tips = ['tip_ask', 'tip_files', 'tip_slash'];
    return html`<h2>${t('empty_title')}</h2><p class="quiet">${t('empty_text')}</p>
      <ul class="tips">${tips.map((tip) => html`<li>${t(tip)}</li>`)}</ul>`;
  }

  /** Show the conversation of an agent, or with null that of the main agent. */
  showAgent(actor) {
    if (actor === this.store.agent) {
      return;
    }
    this.store.agent = actor;
    this.following = true;
    this.list.follows = true;
    this._updateRows({ touched: new Set(), reset: true });
    this.again();
  }

  // --- what the user can do --------------------------------------------------------------------

  _makeActions() {
    const { app } = this;
    const attempt = (operation) => app.attempt(operation);
    const run = (operation) => attempt(async () => (await operation()) ?? true);
    return {
      submit: (text, images) => this._submit(text, images),
      stop: (agent) => run(() => this.api.stop(agent ? { agent } : {})),
      retry: () => run(() => this.api.retry()),
      resume: () => run(() => this.api.resume()),
      stopShellLine: (line) => run(() => this.api.stopShellLine(line)),
      stopBackground: (command) => run(() => this.api.stopBackground(command)),
      showBackground: (command) => backgroundDialog(command, () => this.api.backgroundOutput(command.id)),
      repeatCall: (card) => run(() => this.api.repeat(card.call.id, card.id)),
      describeApprovals: () => this._describeApprovals(),
      withdraw: async (id, text) => {
        if (await run(() => this.api.withdraw(id, this.store.agent ?? 'main'))) {
          this._returnText(text);
        }
      },
      useText: (text) => this._returnText(text),
      takeBack: async (runId, text) => {
        if (await run(() => this.api.stop({ run: runId }))) {
          this._returnText(text);
        }
      },
      shown: (item) => this.api.shown(item.id).catch(() => {}), // it may be answered already
      decideFromCard: (item, accepted) => this.decisions.decideFromCard(item, accepted),
      decideWith: (item, body) => run(() => this.api.decide(item.id, body)),
      decideAll: (body) => run(() => this.api.decideAll(body)),
      answer: (item, answers) => run(() => this.api.answer(item.id, { answers })),
      decidePlan: (item, body) => run(() => this.api.decidePlan(item.id, body)),
      set: (body) => run(() => this.api.set(body)),
      compact: (focus) => run(() => this.api.compact(focus ? { focus } : {})),
      loadResult: async (card, offset, limit) => {
        return attempt(() => this.api.result(card.call.id, card.id, offset, limit));
      },
      loadAnswer: (entry) => attempt(() => this._loadAnswer(entry)),
      completeFiles: async (text, signal) => {
        try {
          const found = await this.api.complete(text, signal);
          return found.completions.map((each) => each.text);
        } catch {
          return null; // completion is a convenience
        }
      },
      slashCommands: (start) => this._slashCommands(start),
      openAgent: (agent) => {
        app.closeDrawers(); // on narrow screens, the panel covers the conversation
        location.hash = addressOf(this.session, agent.actor);
      },
      showEntry: (id, agent) => this._showEntry(id, agent),
      showDiff: async (path) => {
        const found = await attempt(() => this.api.diff(path));
        if (found) {
          await diffDialog(path, found.diffs);
        }
      },
      undo: (what = {}) => this._undo(what),
      undoCall: (card) => this._undo({ scope: 'call', name: card.call.id }),
      redo: () => this._redo(),
      rewind: (entry) => this._rewind(entry),
      grants: () => grantsDialog({
        read: async () => (await attempt(() => this.api.grants())) ?? null,
        revoke: app.may('approve') ? (scope) => run(() => this.api.removeGrant(scope)) : null,
      }),
      reconnect: () => this.connection?.reconnect(),
      chooseModel: () => this._choose('model', t('choose_model'), async () => {
        const found = await this.api.models();
        return found.models.map((each) => ({ ...each, about: describeModel(each) }));
      }),
      chooseMode: () => this._choose('mode', t('choose_mode'), async () => {
        return (await this.api.modes()).modes;
      }),
      choosePolicy: () => this._choose('approve', t('choose_policy'), async () => ['ask_first', 'auto', 'readonly'].map((name) => ({ name, label: t(`policy_${name}`), about: t(`policy_${name}_about`) }))),
      readSettings: async () => {
        const found = await attempt(() => this.api.settings());
        return found?.settings ?? [];
      },
      writeSetting: (name, value) => run(() => this.api.setSettings({ [name]: value })),
      closePanel: () => app.closeDrawers(),
    };
  }

  _returnText(text) {
    const current = this.composer.input.value;
    this.composer.setText(current ? `${text}\n${current}` : text);
  }

  async _choose(field, title, read) {
    const found = await this.app.attempt(read);
    if (found === null) {
      return;
    }
    const actor = this.store.actor();
    const current = this.store.state[field] || actor[field];
    const items = found.map((each) => {
      const { name } = each;
      return { value: name, disabled: each.usable === false && name !== current, label: each.label ?? name, about: each.about ?? translate(each.description ?? '', each.description_parts), current: each.current ?? name === current };
    });
    const value = await pickDialog(title, items);
    if (value) {
      await this.actions.set({ [field]: value });
    }
  }

  async _undo(body) {
    // What happens while the preview is read must not be undone in its place.
    const seen = this.api.seen();
    const preview = await this.app.attempt(() => this.api.previewUndo(body));
    if (preview === null) {
      return;
    }
    if (await undoDialog(preview, t('undo_title'), t('undo'))) {
      const done = await this.app.attempt(() => this.api.undo(body, seen));
      if (done !== null) {
        this.say(describeFiles('undone_files', 'undone', done.diffs));
      }
    }
  }

  async _redo() {
    const seen = this.api.seen();
    const preview = await this.app.attempt(() => this.api.previewRedo());
    if (preview !== null && await undoDialog(preview, t('redo_title'), t('redo'))) {
      const done = await this.app.attempt(() => this.api.redo(seen));
      if (done !== null) {
        this.say(describeFiles('redone_files', 'redone', done.diffs));
      }
    }
  }

  async _rewind(entry) {
    const found = await this.app.attempt(() => this.api.rewindPoints());
    const point = found?.points.find((each) => each.run === entry.run);
    if (!point) {
      if (found !== null) {
        this.say(t('no_rewind'));
      }
      return;
    }
    await this._rewindTo(point);
  }

  /** Go back to one of the points that the server lists. */
  async _rewindTo(point) {
    const { to } = point;
    let preview = null;
    let seen = this.api.seen();
    const choice = await rewindDialog(point.text, async () => {
      seen = this.api.seen();
      preview = await this.app.attempt(() => this.api.previewRewind({ to }));
      return preview;
    });
    if (!choice) {
      return;
    }
    const done = await this.app.attempt(() => this.api.rewind({ to, ...choice }, seen));
    if (done === null) {
      return;
    }
    if (done.session && done.session !== this.session) {
      writeDraft(done.session, done.text);
      location.hash = addressOf(done.session);
      this.app.loadSessions('');
    } else if (choice.conversation && done.text) {
      this._returnText(done.text);
    }
    this.say(describeFiles('rewound_files', 'rewound', choice.files ? preview?.diffs : []));
  }

  /** Send what was typed; return whether it was taken. */
  async _submit(text, images) {
    const shellCommand = readCommand(text);
    if (shellCommand && images.length === 0) {
      const started = await this.app.attempt(() => this.api.runShellLine(shellCommand));
      return started !== null;
    }
    const command = /^\/([\w:.-]+)(?:\s+([\s\S]*))?$/.exec(text);
    if (command && images.length === 0) {
      const own = OWN_COMMANDS.find((each) => each.names.includes(command[1]));
      if (own) {
        own.run(this, (command[2] ?? '').trim());
        return true;
      }
    }
    this.list.scrollToEnd();
    const steers = this.store.isShownAgentRunning() && images.length === 0 && !command;
    const agent = this.store.agent ?? undefined;
    const sent = await this.app.attempt(async () => {
      if (steers) {
        return (await this.api.steer({ text, ...(agent ? { agent } : {}) })) ?? true;
      }
      return (await this.api.prompt({ text, ...(images.length ? { images } : {}), ...(agent ? { agent } : {}) })) ?? true;
    });
    if (sent?.reply) {
      await openDialog(text.slice(0, 60), () => html`<pre class="card-text" tabindex="0">${sent.reply}</pre>`);
    }
    return sent !== null;
  }

  _slashCommands(start) {
    const own = OWN_COMMANDS.map((each) => ({ name: each.names[0], about: t(each.about) }));
    const names = new Set(OWN_COMMANDS.flatMap((each) => each.names));
    const others = this.commands
      .filter((each) => each.mark === '/' && !names.has(each.name))
      .map((each) => ({ name: each.name, about: [each.arguments, each.summary].filter(Boolean).join(' · ') }));
    return [...own, ...others]
      .filter((each) => each.name.startsWith(start))
      .map((each) => ({ label: `/${each.name}`, about: each.about, insert: `/${each.name} ` }));
  }
}

// Commands that the page carries out itself. Others go to the server as they were typed.
const OWN_COMMANDS = [
  { names: ['approve'], about: 'choose_policy', run: (page, value) => (value ? page.actions.set({ approve: value }) : page.actions.choosePolicy()) },
  { names: ['clear', 'new'], about: 'new_session', run: (page) => page.app.newSession() },
  { names: ['approvals'], about: 'grants', run: (page) => page.actions.grants() },
  { names: ['close'], about: 'close_session', run: (page) => page.app.sessionAction('close', { id: page.session, title: page.title() }) },
  { names: ['compact'], about: 'compact', run: (page, focus) => page.actions.compact(focus) },
  { names: ['continue', 'retry'], about: 'continue_run', run: (page) => page.actions.retry() },
  { names: ['copy'], about: 'copy_answer', run: (page) => copyLastAnswer(page) },
  { names: ['export'], about: 'export', run: (page) => page.app.sessionAction('export', { id: page.session, title: page.title() }) },
  { names: ['find', 'search'], about: 'find', run: (page, value) => page.find.open(value) },
  { names: ['fork'], about: 'fork', run: (page) => page.app.sessionAction('fork', { id: page.session }) },
  { names: ['help', 'keys'], about: 'keys', run: (page) => page.app.openHelp() },
  { names: ['mode'], about: 'choose_mode', run: (page, value) => (value ? page.actions.set({ mode: value }) : page.actions.chooseMode()) },
  { names: ['model'], about: 'choose_model', run: (page, value) => (value ? page.actions.set({ model: value }) : page.actions.chooseModel()) },
  { names: ['redo'], about: 'redo', run: (page) => page.actions.redo() },
  { names: ['rename'], about: 'rename', run: (page, value) => (value ? page.actions.set({ title: value }) : page.app.sessionAction('rename', { id: page.session, title: page.title() })) },
  { names: ['rewind'], about: 'rewind_title', run: (page) => chooseRewind(page) },
  { names: ['settings'], about: 'settings', run: (page) => page.app.openSettings() },
  { names: ['stop'], about: 'stop', run: (page) => page.actions.stop() },
  { names: ['undo'], about: 'undo', run: (page) => page.actions.undo() },
];

/** Return a text with the names of the files that were changed, or another text without files. */
function describeFiles(text, without, diffs = []) {
  const paths = diffs.map((file) => file.path);
  // Folders are named only if nothing within them is.
  const names = paths.filter((path) => !paths.some((other) => path.endsWith('/') && other !== path && other.startsWith(path)));
  return names.length ? t(text, { files: listNames(names) }) : t(without);
}

function describeModel(model) {
  const facts = [];
  if (model.usable === false) {
    facts.push(model.problem ? t('model_unusable_why', { why: model.problem }) : t('model_unusable'));
  }
  if (model.window) {
    facts.push(t('model_window', { n: formatTokens(model.window) }));
  }
  if (model.input !== null && model.output !== null) {
    facts.push(t('model_price', { input: model.input, output: model.output }));
  }
  return facts.join(' · ');
}

async function copyLastAnswer(page) {
  const answers = page.store.keys
    .map((key) => page.store.entries.get(key))
    .filter((entry) => entry.kind === 'answer' && entry.text && isShown(entry, page.store));
  const last = answers.at(-1);
  if (last) {
    page.say((await copyText(last.text)) ? t('copied') : t('copy_failed'));
  }
}

/** Let the user choose among all prompts, also those that the page has not loaded. */
async function chooseRewind(page) {
  const found = await page.app.attempt(() => page.api.rewindPoints());
  if (found === null) {
    return;
  }
  const points = [...found.points].reverse();
  const index = await pickDialog(t('rewind_title'), points.map((point, value) => ({
    value, label: point.text.slice(0, 120), about: describePoint(point),
  })));
  if (index !== undefined) {
    await page._rewindTo(points[index]);
  }
}

function describePoint(point) {
  const count = point.files?.length ?? 0;
  return count ? `${t('n_files', { n: count })} · +${point.added} −${point.removed}` : '';
}
