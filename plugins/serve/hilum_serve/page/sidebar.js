// The list of sessions, with search and actions.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { repeat } from './vendor/lit-html/directives/repeat.js';
import { addressOf } from './addresses.js';
import { baseName, formatAgo } from './format.js';
import { icon } from './icons.js';
import { t } from './strings.js';
import { drawTitle } from './titles.js';

const SEARCH_AFTER = 150; // milliseconds

export class Sidebar {
  /** @param {object} app sessions, current session id, actions and again(). */
  constructor(app) {
    this.app = app;
    this.query = '';
    this.timer = 0;
    this.menu = '';
  }

  draw() {
    const { app } = this;
    const groups = groupByWorkspace(app.sessions);
    return html`
      <div class="side-head">
        <a class="brand" href="#/" aria-label="hilum"><img src="page/icon.svg" alt="" width="22" height="22"><span>hilum</span></a>
        <button type="button" class="icon-button only-narrow" aria-label=${t('close')} @click=${() => app.closeDrawers()}>${icon('close')}</button>
      </div>
      <button type="button" class="button primary new-session" ?disabled=${!app.can('new_session')} @click=${() => app.newSession()}>${icon('plus')} ${t('new_session')}</button>
      <div class="search-box">${icon('search')}<input type="search" id="session-search" aria-label=${t('search_sessions')} placeholder=${t('search_sessions')} .value=${this.query} @input=${(event) => this._search(event.target.value)} @keydown=${(event) => this._down(event)}></div>
      <nav class="sessions" aria-label=${t('sessions')} @keydown=${(event) => this._move(event)}>
        ${groups.map(([workspace, sessions]) => html`
          <h3 title=${workspace}>${baseName(workspace)}</h3>
          <ul>${repeat(sessions, (session) => session.id, (session) => this._row(session))}</ul>`)}
        ${app.sessions.length === 0 && app.sessionsLoaded ? html`<p class="quiet pad">${this.query ? t('nothing_found') : t('no_sessions')}</p>` : nothing}
        ${app.hasMoreSessions ? html`<button type="button" class="text-button pad" @click=${() => app.loadMoreSessions()}>${t('older_sessions')}</button>` : nothing}
      </nav>
      <div class="side-foot">
        <button type="button" class="text-button" @click=${() => app.openSettings()}>${icon('settings')} ${t('settings')}</button>
        <button type="button" class="text-button" @click=${() => app.openHelp()}>${icon('help')} ${t('keys')}</button>
      </div>`;
  }

  _row(session) {
    const { app } = this;
    const current = session.id === app.current;
    const open = this.menu === session.id;
    const title = session.title || t('untitled');
    const waiting = session.waiting;
    return html`<li class="session ${current ? 'current' : ''}">
      <a href=${addressOf(session.id)} aria-current=${current ? 'page' : nothing}>
        <span class="session-title" dir="auto" title=${title}>${drawTitle(title)}</span>
        <span class="session-facts">${waiting ? html`<span class="dot waiting"></span>${t(app.can('decide') ? 'n_waiting' : 'n_waiting_others', { n: waiting })}` : session.running ? html`<span class="dot running"></span>${t('running')}` : formatAgo(session.updated)}</span>
      </a>
      <button type="button" class="icon-button session-more" aria-label=${t('actions_for', { title })} aria-expanded=${String(open)} @click=${() => this._toggle(session.id)}>${icon('dots')}</button>
      ${open ? html`<div class="menu session-menu" role="menu" @keydown=${(event) => this._menuKey(event)} @focusout=${(event) => this._left(event)}>
        ${[['rename', t('rename')], ['fork', t('fork')], ['export', t('export')], ['remove', t('delete')]].map(([name, label]) => html`<button type="button" role="menuitem" class=${name === 'remove' ? 'danger-text' : ''} ?disabled=${!app.can(name)} @click=${(event) => this._act(event, name, session)}>${label}</button>`)}
      </div>` : nothing}
    </li>`;
  }

  _toggle(id) {
    this.menu = this.menu === id ? '' : id;
    this.app.again();
    requestAnimationFrame(() => document.querySelector('.session-menu button:enabled')?.focus());
  }

  _act(event, name, session) {
    // The menu disappears; dialogs return the focus to the button that opened it.
    event.currentTarget.closest('.session').querySelector('.session-more').focus();
    this.menu = '';
    this.app.again();
    this.app.sessionAction(name, session);
  }

  _left(event) {
    if (this.menu && !event.currentTarget.parentElement.contains(event.relatedTarget)) {
      this.menu = '';
      this.app.again();
    }
  }

  _menuKey(event) {
    const buttons = [...event.currentTarget.querySelectorAll('button:enabled')];
    const index = buttons.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Escape') {
      event.stopPropagation();
      const more = event.currentTarget.parentElement.querySelector('.session-more');
      this.menu = '';
      this.app.again();
      more.focus();
    } else if (event.key === 'Home' || event.key === 'End') {
      event.preventDefault();
      buttons.at(event.key === 'Home' ? 0 : -1)?.focus();
    } else if (step) {
      event.preventDefault();
      event.stopPropagation();
      buttons[(index + step + buttons.length) % buttons.length].focus();
    }
  }

  _search(text) {
    this.query = text;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.app.loadSessions(text), SEARCH_AFTER);
  }

  _down(event) {
    if (event.key === 'Escape' && this.query) {
      // The browser would empty the box without telling.
      event.preventDefault();
      this._search('');
      this.app.again();
    } else if (event.key === 'Enter' && !event.isComposing && event.keyCode !== 229 && this.query.trim()) {
      event.preventDefault();
      this._openFirst();
    } else if (event.key === 'ArrowDown') {
      event.preventDefault();
      document.querySelector('.sessions a')?.focus();
    }
  }

  /** Open the first session that the search finds. */
  async _openFirst() {
    const { app, query } = this;
    clearTimeout(this.timer);
    if (app.listedQuery !== query) {
      await app.loadSessions(query);
    }
    if (this.query === query && app.listedQuery === query && app.sessions.length) {
      app.closeDrawers();
      location.hash = addressOf(groupByWorkspace(app.sessions)[0][1][0].id);
    }
  }

  _move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target.closest('.session-menu')) {
      return;
    }
    const links = [...document.querySelectorAll('.sessions a')];
    const next = links[links.indexOf(event.target.closest('li')?.querySelector('a')) + step];
    if (next) {
      event.preventDefault();
      next.focus();
    } else if (step < 0) {
      document.getElementById('session-search').focus();
    }
  }
}

function groupByWorkspace(sessions) {
  const groups = new Map();
  for (const session of sessions) {
    const workspace = session.workspace ?? '';
    if (!groups.has(workspace)) {
      groups.set(workspace, []);
    }
    groups.get(workspace).push(session);
  }
  return [...groups];
}
