// The panel at the right: todo list, agents, background commands, changed files, timeline and usage.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { describeBudget, nameBudget } from './budgets.js';
import { argumentsOf, subjectOf } from './card_state.js';
import { drawProgress } from './cards.js';
import { drawBackground } from './commands.js';
import { drawLineCounts } from './diff_view.js';
import { baseName, formatCost, formatDuration, formatTokens } from './format.js';
import { icon } from './icons.js';
import { drawInline } from './markdown.js';
import { t } from './strings.js';
import { drawTimeline } from './timeline.js';

const TODO_ICONS = { completed: 'check', in_progress: '', failed: 'alert', blocked: 'alert', cancelled: 'close', skipped: 'minus', pending: '' };

const MAX_FILES = 100; // files that are listed

export class SidePanel {
  constructor(page) {
    this.page = page;
    this.openTodos = new Set(); // ids
    this.files = null;
  }

  draw() {
    const { store } = this.page;
    return html`
      <div class="panel-head only-drawer"><h2>${t('details')}</h2><button type="button" class="icon-button" aria-label=${t('close')} @click=${() => this.page.actions.closePanel()}>${icon('close')}</button></div>
      ${this._todos(store)}
      ${this._agents(store)}
      ${drawBackground(this.page)}
      ${this._files()}
      <section class="panel-section"><h3>${t('timeline')}</h3>${drawTimeline(this.page.spans, store, (id, agent) => this.page.actions.showEntry(id, agent))}</section>
      ${this._usage(store)}`;
  }

  _todos(store) {
    const todos = store.todos();
    if (!todos.items?.length) {
      return html`<section class="panel-section"><h3>${t('todo')}</h3><p class="quiet">${t('no_todos')}</p></section>`;
    }
    const done = todos.completed ?? 0;
    const total = todos.total ?? todos.items.length;
    const allOpen = todos.items.every((item) => this.openTodos.has(item.id));
    const calls = this.openTodos.size ? store.callsOfTodos() : new Map();
    return html`<section class="panel-section todo-panel">
      <h3>${t('todo')} <span class="quiet">${t('done_of', { k: done, n: total })}</span></h3>
      <progress max=${total || 1} .value=${done} aria-label=${t('progress')}></progress>
      ${drawTodoEnd(total - done, store)}
      <ol class="todos">${todos.items.map((item) => this._todo(item, calls.get(item.id) ?? []))}</ol>
      <button type="button" class="text-button" @click=${() => this._openTodos(allOpen ? [] : todos.items)}>${allOpen ? t('fold_all') : t('unfold_all')}</button>
    </section>`;
  }

  _todo(item, calls) {
    const open = this.openTodos.has(item.id);
    const toggle = () => {
      open ? this.openTodos.delete(item.id) : this.openTodos.add(item.id);
      this.page.again();
    };
    return html`<li class="todo ${item.status}">
      <button type="button" aria-expanded=${String(open)} @click=${toggle}>
        <span class="todo-mark" aria-hidden="true">${TODO_ICONS[item.status] ? icon(TODO_ICONS[item.status]) : nothing}</span>
        <span class="todo-text">${drawInline(item.content)}<span class="visually-hidden">, ${t(`todo_${item.status}`)}</span></span></button>
      ${open ? html`<div class="quiet todo-more"><p>${t(`todo_${item.status}`)}</p>${this._todoCalls(calls)}</div>` : nothing}
    </li>`;
  }

  _todoCalls(calls) {
    if (calls.length === 0) {
      return html`<p>${t('todo_no_calls')}</p>`;
    }
    return html`<ul class="todo-calls" aria-label=${t('calls')}>${calls.map((card) => html`<li>
      <button type="button" @click=${() => this.page.actions.showEntry(card.id, card.agent)}><span class="tool">${card.call.name}</span>
        <span class="subject">${subjectOf(argumentsOf(card))}</span><span>${formatDuration(card.seconds)}</span></button></li>`)}</ul>`;
  }

  _openTodos(items) {
    this.openTodos = new Set(items.map((item) => item.id));
    this.page.again();
  }

  _agents(store) {
    const agents = store.agents();
    if (agents.length === 0) {
      return nothing;
    }
    return html`<section class="panel-section"><h3>${t('agents')} <span class="quiet">${agents.length}</span></h3>
      <ul class="agents">${agents.slice(-30).reverse().map((agent) => html`<li class="agent ${agent.status}">
        <button type="button" @click=${() => this.page.actions.openAgent(agent)}>
          <span class="state-icon">${icon('agent')}</span>
          <span class="agent-title">${agent.title || agent.agent}</span>
          <span class="tag ${agent.status}">${t(`agent_${agent.status}`)}</span>
        </button>
        ${!agent.ended ? drawProgress(agent, store.actor(agent.actor).turn) : nothing}
      </li>`)}</ul></section>`;
  }

  _files() {
    const files = this.page.files ?? [];
    if (files.length === 0 && !this.page.redoable) {
      return nothing;
    }
    return html`<section class="panel-section"><h3>${t('changed_files')} <span class="quiet">${files.length}</span></h3>
      <ul class="files">${files.slice(0, MAX_FILES).map((file) => this._file(file))}</ul>
      ${files.length > MAX_FILES ? html`<p class="quiet">${t('n_more_files', { n: files.length - MAX_FILES })}</p>` : nothing}
      <div class="panel-actions">
        <button type="button" class="text-button" ?disabled=${!this.page.can('undo')} @click=${() => this.page.actions.undo()}>${icon('undo')} ${t('undo')}</button>
        <button type="button" class="text-button" ?disabled=${!this.page.redoable || !this.page.can('redo')} @click=${() => this.page.actions.redo()}>${t('redo')}</button>
      </div></section>`;
  }

  _file(file) {
    const { path } = file;
    const name = baseName(path);
    const folder = path.slice(0, path.lastIndexOf(name));
    const hasLines = file.added > 0 || file.removed > 0;
    return html`<li><button type="button" title=${[path, file.note].filter(Boolean).join('\n')} @click=${() => this.page.actions.showDiff(path)}>${icon('file')}<span class="file-name">${name}</span><span class="quiet file-folder">${folder}</span>
      ${file.what === 'changed' ? nothing : html`<span class="tag ${file.what}">${t(`file_${file.what}`)}</span>`}
      ${hasLines ? drawLineCounts(file) : nothing}</button></li>`;
  }

  _usage(store) {
    const usage = store.usage();
    const rows = [
      [t('input_tokens'), formatTokens(usage.input)],
      [t('cached_tokens'), `${formatTokens(usage.cached)}${usage.input ? ` (${Math.round((usage.cached / usage.input) * 100)} %)` : ''}`],
      [t('output_tokens'), formatTokens(usage.output)],
      [t('cost'), formatCost(usage.cost)],
      [t('runs'), String(usage.runs)],
      ...store.budgets().map((budget) => [nameBudget(budget), describeBudget(budget), budget.nearly_spent ? 'warning-text' : '']),
    ];
    return html`<section class="panel-section"><h3>${t('usage')}</h3>
      <dl class="facts-list">${rows.map(([name, value, kind = '']) => html`<div><dt>${name}</dt><dd class=${kind}>${value}</dd></div>`)}</dl></section>`;
  }
}

/** Draw whether all steps are done, or how many an ended run has left. */
function drawTodoEnd(left, store) {
  if (left === 0) {
    return html`<p class="todo-end done">${icon('check')} ${t('todo_all_done')}</p>`;
  }
  return store.isShownAgentRunning()
    ? nothing
    : html`<p class="todo-end">${t('todo_left', { n: left })}</p>`;
}
