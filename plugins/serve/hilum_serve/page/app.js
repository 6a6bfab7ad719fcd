// The page: connects the server, the session and the parts that are drawn.

import { html, nothing, render } from './vendor/lit-html/lit-html.js';
import { addressOf, readAddress } from './addresses.js';
import { ApiError, SessionApi, server, setSignedOutHandler } from './api.js';
import { confirmDialog, pickDialog, textDialog } from './dialogs.js';
import { repairFocus, restoreFocus } from './focus.js';
import { baseName } from './format.js';
import { openHelp } from './help.js';
import { icon } from './icons.js';
import { handleKey } from './keyboard.js';
import { noteTold, notify, showInTitle } from './notifications.js';
import {
  onPreference, preference, readCreated, rememberPlace, rememberedPlace, setPreference, writeCreated,
} from './preferences.js';
import { allows, includesRight } from './rights.js';
import { SessionPage } from './session_page.js';
import { openSettings } from './settings_dialog.js';
import { Sidebar } from './sidebar.js';
import { languageChanged, t } from './strings.js';
import { drawTitle } from './titles.js';

const LISTED = 60;
const REFRESH = 10_000; // milliseconds between looks at the list of sessions
const TOAST = 6_000; // milliseconds
const NARROW = '(max-width: 1180px)'; // where the panel is a drawer, as in style.css

class App {
  constructor(root) {
    this.root = root;
    this.me = null;
    this.started = new Promise((resolve) => { this._noteStarted = resolve; }); // once the rights are known
    this.sessions = [];
    this.sessionsLoaded = false;
    this.hasMoreSessions = false;
    this.listedQuery = ''; // the search whose sessions are listed
    this.waiting = new Map(); // number of waiting items, by session, whatever is searched for
    this.current = '';
    this.page = null;
    this.signedOut = false;
    this.drawer = '';
    this.toasts = [];
    this.scheduled = false;
    this.sidebar = new Sidebar(this);
    setSignedOutHandler(() => this._signedOut());
    onPreference((name) => this._preferenceChanged(name));
    addEventListener('hashchange', () => this._route());
    addEventListener('keydown', (event) => handleKey(event, this));
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) {
        this.loadSessions(this.sidebar.query);
        this.page?.again();
      }
    });
    addEventListener('resize', () => this.again());
    this._applyTheme();
    languageChanged();
    root.replaceChildren(); // what index.html shows until the modules have arrived
  }

  async start() {
    this._draw();
    try {
      this.me = await server.me();
    } catch (error) {
      if (!this.signedOut) {
        this.report(error);
        setTimeout(() => this.start(), 3_000);
      }
      return;
    }
    const place = rememberedPlace();
    if (location.hash.length < 3 && place) {
      location.replace(place); // the address with a token leads to the start
    }
    rememberPlace('');
    this._route();
    this._noteStarted();
    await this.loadSessions('');
    setInterval(() => {
      // A hidden page notifies about what waits in other sessions, if the user wants that.
      const isWatched = !document.hidden || preference('notifications');
      if (isWatched && !this.signedOut && this.page?.ended !== 'unshared') {
        this.loadSessions(this.sidebar.query);
      }
    }, REFRESH);
  }

  // --- drawing ---------------------------------------------------------------------------------

  again() {
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
    if (this.signedOut) {
      render(this._drawSignedOut(), this.root);
      repairFocus();
      return;
    }
    const panelOpen = preference('panel');
    render(html`
      <a class="skip" href="#content" @click=${(event) => { event.preventDefault(); this.page ? this.page.composer.focus() : document.getElementById('content').focus(); }}>${t('skip')}</a>
      <div class="app ${this.drawer ? `drawer-${this.drawer}` : ''} ${panelOpen && this.page ? 'with-panel' : ''}">
        <aside class="sidebar" aria-label=${t('sessions')}>${this.sidebar.draw()}</aside>
        <button type="button" class="backdrop" tabindex="-1" aria-label=${t('close')} @click=${() => this.closeDrawers()}></button>
        <main id="content" tabindex="-1">
          ${this._drawHeader()}
          ${this.page ? this.page.element : this._drawHome()}
        </main>
        ${this.page ? html`<aside class="panel" aria-label=${t('details')}>${this.page.panel.draw()}</aside>` : nothing}
      </div>
      <div class="toasts" role="status" aria-live="polite">${this.toasts.map((toast) => html`<div class="toast ${toast.kind}">
        <span><strong>${toast.text}</strong>${toast.hint ? html`<br>${toast.hint}` : nothing}</span>
        <button type="button" class="icon-button" aria-label=${t('close')} @click=${() => this._removeToast(toast)}>${icon('close')}</button></div>`)}</div>`, this.root);
    const waiting = this.page?.store.waiting().length ?? 0;
    showInTitle(this._documentTitle(), this.can('decide') ? waiting + this._countElsewhere() : 0);
    repairFocus();
  }

  _documentTitle() {
    if (!this.page) {
      return '';
    }
    const agent = this.page.store.nameOf(this.page.store.agent);
    return [agent, this.page.title()].filter(Boolean).join(' · ');
  }

  /** Return how much waits in sessions that are not shown. */
  _countElsewhere() {
    let count = 0;
    for (const [session, waiting] of this.waiting) {
      count += session === this.current ? 0 : waiting;
    }
    return count;
  }

  _drawHeader() {
    const title = this.page ? this.page.title() || t('untitled') : 'hilum';
    return html`<header class="top">
      <button type="button" class="icon-button only-drawer-left open-left" aria-label=${t('sessions')} @click=${() => this.openDrawer('left')}>${icon('menu')}</button>
      ${this.page ? html`
        ${this.page.store.agent ? html`<button type="button" class="text-button back" @click=${() => { location.hash = addressOf(this.current); }}><span class="turned">${icon('chevron')}</span>${t('back')}</button>` : nothing}
        <h1 dir="auto" title=${title}>${this.page.store.agent ? html`<span class="title-base">${this.page.store.nameOf(this.page.store.agent)}</span>` : drawTitle(title)}</h1>
        <span class="quiet workspace" title=${this.page.store.state.workspace ?? ''}>${baseName(this.page.store.state.workspace ?? '')}</span>
        <span class="spacer"></span>
        <button type="button" class="icon-button" aria-label=${t('actions')} title=${t('actions')} @click=${() => this._sessionMenu()}>${icon('dots')}</button>
        <button type="button" class="icon-button open-right" aria-label=${t('details')} aria-pressed=${String(preference('panel'))} title=${`${t('details')} (p)`} @click=${() => this.togglePanel()}>${icon('panel')}</button>` : html`<h1>hilum</h1>`}
    </header>`;
  }

  _drawHome() {
    return html`<div class="home"><img src="page/icon.svg" alt="" width="56" height="56"><h2>${t('home_title')}</h2><p class="quiet">${t('home_text')}</p>
      <button type="button" class="button primary" ?disabled=${!this.can('new_session')} @click=${() => this.newSession()}>${icon('plus')} ${t('new_session')}</button></div>`;
  }

  _drawSignedOut() {
    return html`<main class="signed-out"><img src="page/icon.svg" alt="" width="56" height="56"><h1>${t('signed_out')}</h1>
      <p>${t('signed_out_text')}</p>
      <ol><li>${t('signed_out_1')}</li><li>${t('signed_out_2')}</li><li>${t('signed_out_3')} <code>hilum serve token add NAME</code></li></ol>
      <button type="button" class="button primary" @click=${() => location.reload()}>${t('try_again')}</button></main>`;
  }

  /** Return whether the user has a right. */
  may(right) {
    return includesRight(this.me?.rights, right);
  }

  /** Return whether the user has the right to do something. */
  can(action) {
    if (action === 'new_session' && this.me?.shared) {
      return false; // a terminal shares the one session that it has open
    }
    return allows(this.me?.rights, action);
  }

  // --- messages --------------------------------------------------------------------------------

  say(text, hint = '', kind = 'info', duration = TOAST) {
    const toast = { text, hint, kind };
    const others = this.toasts.filter((other) => other.text !== text || other.hint !== hint);
    this.toasts = [...others.slice(-2), toast];
    this.again();
    setTimeout(() => this._removeToast(toast), duration);
  }

  report(error) {
    if (error?.name === 'AbortError' || this.signedOut) {
      return;
    }
    if (error instanceof ApiError && error.code === 'E_OFFLINE') {
      this.say(t('offline'), t('offline_hint'), 'error');
    } else if (error instanceof ApiError && error.code === 'E_STALE') {
      this.say(t('stale'), t('stale_hint'), 'error');
    } else if (error instanceof ApiError) {
      this.say(`${error.code}: ${error.message}`, error.hint, 'error');
    } else {
      this.say(t('page_error'), String(error?.message ?? error), 'error');
      throw error;
    }
  }

  /** Run an operation; report its error, and return null then. */
  async attempt(operation) {
    try {
      return await operation();
    } catch (error) {
      this.report(error);
      return null;
    }
  }

  _removeToast(toast) {
    this.toasts = this.toasts.filter((other) => other !== toast);
    this.again();
  }

  _signedOut() {
    if (this.signedOut) {
      return;
    }
    this.signedOut = true;
    rememberPlace(location.hash);
    this.page?.close();
    this.page = null;
    document.querySelectorAll('dialog').forEach((dialog) => dialog.close());
    showInTitle('', 0);
    this._draw();
  }

  // --- sessions --------------------------------------------------------------------------------

  async loadSessions(query) {
    const found = await this.attempt(() => server.sessions({ query, limit: LISTED }));
    if (found === null || query !== this.sidebar.query) {
      return;
    }
    const list = found.sessions;
    const isPage = list.length >= LISTED;
    // A refresh reads the newest sessions; older ones that the user has loaded stay.
    const oldest = list.at(-1)?.updated;
    const older = isPage && query === this.listedQuery
      ? this.sessions.filter((session) => session.updated < oldest)
      : [];
    if (older.length === 0) {
      this.hasMoreSessions = isPage;
    }
    this.sessions = [...list, ...older];
    this.listedQuery = query;
    this.sessionsLoaded = true;
    this.again();
    if (query === '') {
      this._noteWaiting(list);
    } else {
      const all = await server.sessions({ limit: LISTED }).catch(() => null);
      this._noteWaiting(all?.sessions ?? []);
    }
  }

  /** Notify about what waits in sessions that are not shown. */
  _noteWaiting(sessions) {
    this.waiting = new Map(sessions.map((session) => [session.id, session.waiting]));
    for (const session of sessions.filter((each) => each.waiting > 0)) {
      const id = `${session.id}:${session.asked}`;
      if (!this.can('decide')) {
        break; // others decide
      }
      if (session.id === this.current) {
        noteTold(id); // the session's own page notifies
      } else {
        notify(id, t('waiting_for_you'), session.title || t('untitled'), () => {
          location.hash = addressOf(session.id);
        });
      }
    }
    this.again();
  }

  /** Show in the list what the stream of the open session says. */
  noteSession(session, store) {
    const listed = this.sessions.find((each) => each.id === session);
    if (listed) {
      listed.title = store.state.title || listed.title;
      listed.running = store.isRunning();
      listed.waiting = store.waiting().length;
    }
    this.waiting.set(session, store.waiting().length);
  }

  async loadMoreSessions() {
    const last = this.sessions.at(-1);
    const query = { query: this.sidebar.query, limit: LISTED, before: last?.updated };
    const found = await this.attempt(() => server.sessions(query));
    if (found === null) {
      return;
    }
    const list = found.sessions;
    const known = new Set(this.sessions.map((session) => session.id));
    this.sessions = [...this.sessions, ...list.filter((session) => !known.has(session.id))];
    this.hasMoreSessions = list.length >= LISTED;
    this.again();
  }

  async newSession() {
    await this.started; // a key can be faster than the first answer of the server
    if (!this.can('new_session')) {
      this.say(this.me?.shared ? t('one_session') : t('no_right'));
      return;
    }
    const found = await this.attempt(() => server.workspaces());
    if (found === null) {
      return;
    }
    const list = found.workspaces;
    let path = list[0]?.path;
    if (list.length > 1) {
      const current = this.page?.store.state.workspace;
      path = await pickDialog(t('choose_workspace'), list.map((each) => ({
        value: each.path, label: each.name ?? baseName(each.path), about: each.path, current: each.path === current,
      })));
    }
    if (!path) {
      return;
    }
    const unused = await this._findUnused(path);
    if (unused) {
      location.hash = addressOf(unused);
      this.page?.composer.focus();
      return;
    }
    const created = await this.attempt(() => server.createSession({ workspace: path }));
    if (created) {
      writeCreated([...readCreated(), created.id]);
      location.hash = addressOf(created.id);
      this.loadSessions(this.sidebar.query);
    }
  }

  /** Return a session in a folder that this browser has made and never used; empty without one. */
  async _findUnused(workspace) {
    const made = new Set(readCreated());
    const untitled = this.sessions.filter(
      (each) => made.has(each.id) && !each.title && each.workspace === workspace,
    );
    for (const session of untitled) {
      const state = await new SessionApi(session.id, () => session.last).state().catch(() => null);
      const isUnused = state !== null && !state.title && !state.runs && !state.running
        && !state.queued?.length && !state.shell?.length;
      if (isUnused) {
        return session.id;
      }
    }
    return '';
  }

  async sessionAction(name, session) {
    const page = session.id === this.current ? this.page : null;
    const api = page ? page.api : new SessionApi(session.id, () => session.last);
    const title = session.title || t('untitled');
    if (!page && name !== 'export') {
      // A decision needs the last sequence number, which the list may not have.
      const state = await this.attempt(() => api.state());
      if (state === null) {
        return;
      }
      api.seen = () => state.last;
    }
    if (name === 'rename') {
      const typed = await textDialog(t('rename'), session.title ?? '', t('rename'));
      if (typed) {
        await this.attempt(() => api.set({ title: typed }));
      }
    } else if (name === 'fork') {
      const forked = await this.attempt(() => api.fork());
      if (forked) {
        location.hash = addressOf(forked.id);
      }
    } else if (name === 'export') {
      const format = await pickDialog(t('export'), [
        { value: 'markdown', label: 'Markdown', about: t('export_markdown') },
        { value: 'html', label: 'HTML', about: t('export_html') },
        { value: 'json', label: 'JSON', about: t('export_json') },
      ]);
      if (format) {
        await this._download(api, format, title);
      }
    } else if (name === 'close') {
      if (await confirmDialog(t('close_title'), t('close_text', { title }), t('close_session'))) {
        await this.attempt(() => api.close());
      }
    } else if (await confirmDialog(t('delete_title'), t('delete_text', { title }), t('delete'), { danger: true })) {
      const removed = await this.attempt(() => api.remove());
      if (removed) {
        this.sessions = this.sessions.filter((each) => each.id !== session.id);
      }
      if (removed && page) {
        location.hash = '#/';
      }
    }
    this.loadSessions(this.sidebar.query);
  }

  async _download(api, format, title) {
    const response = await this.attempt(() => api.exportAs(format));
    if (response === null) {
      return;
    }
    const address = URL.createObjectURL(await response.blob());
    const link = document.createElement('a');
    link.href = address;
    const ending = { markdown: 'md', html: 'html', json: 'json' }[format];
    link.download = `${title.replace(/[^\p{L}\p{N} ._-]/gu, '_').slice(0, 80)}.${ending}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  async _sessionMenu() {
    const session = { id: this.current, title: this.page.title() };
    const actions = [
      ['rename', 'rename'], ['fork', 'fork'], ['export', 'export'], ['undo', 'undo'],
      ['compact', 'compact'], ['grants', 'grants'], ['close', 'close_session'], ['remove', 'delete'],
    ];
    const name = await pickDialog(t('actions'), actions.map(([value, text]) => ({
      value, label: t(text), disabled: !this.can(value),
    })));
    if (name === 'undo' || name === 'compact' || name === 'grants') {
      await this.page?.actions[name]();
    } else if (name) {
      await this.sessionAction(name, session);
    }
  }

  // --- places ----------------------------------------------------------------------------------

  _route() {
    const { session, agent } = readAddress(location.hash);
    this.drawer = '';
    if (session === this.current && (this.page || !session)) {
      this.page?.showAgent(agent || null);
      this.again();
      return;
    }
    const hadPage = this.page !== null;
    this.page?.close();
    this.current = session;
    this.page = session ? new SessionPage(this, session, agent || null) : null;
    this._draw();
    this.page?.shown();
    if (hadPage) {
      restoreFocus();
    }
  }

  openDrawer(side) {
    this.drawer = side;
    this.again();
    if (side === 'left') {
      requestAnimationFrame(() => document.getElementById('session-search')?.focus());
    }
  }

  closeDrawers() {
    const { drawer } = this;
    if (!drawer) {
      return;
    }
    this.drawer = '';
    this._draw();
    if (document.activeElement.closest('.sidebar, .panel')) {
      document.querySelector(drawer === 'left' ? '.open-left' : '.open-right')?.focus();
    }
  }

  togglePanel() {
    if (matchMedia(NARROW).matches) {
      this.drawer = this.drawer === 'right' ? '' : 'right';
      this._draw();
      document.querySelector(this.drawer ? '.panel-head .icon-button' : '.open-right').focus();
      this.page?.again();
    } else {
      setPreference('panel', !preference('panel'));
    }
  }

  /** Return whether the panel at the right is visible. */
  isPanelShown() {
    return matchMedia(NARROW).matches ? this.drawer === 'right' : preference('panel');
  }

  openSettings() {
    const { page } = this;
    const session = page && {
      may: (right) => this.may(right),
      read: () => page.actions.readSettings(),
      write: (name, value) => page.actions.writeSetting(name, value),
    };
    return openSettings(session, () => this.signOut());
  }

  openHelp() {
    return openHelp();
  }

  async signOut() {
    await this.attempt(() => server.logout());
    this._signedOut();
    rememberPlace(''); // another user may sign in next
  }

  _applyTheme() {
    const theme = preference('theme');
    if (theme === 'light' || theme === 'dark') {
      document.documentElement.dataset.theme = theme;
    } else {
      delete document.documentElement.dataset.theme;
    }
  }

  _preferenceChanged(name) {
    if (name === 'theme') {
      this._applyTheme();
    }
    if (name === 'language') {
      languageChanged();
    }
    this.page?.again(true);
    this.again();
  }
}

const app = new App(document.getElementById('app'));
addEventListener('unhandledrejection', (event) => app.say(t('page_error'), String(event.reason?.message ?? event.reason), 'error'));
app.start();
