// The line under the input: connection, mode, model, policy and the facts of the run.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { describeBudget, nameBudget } from './budgets.js';
import { baseName, formatCost, formatTokens } from './format.js';
import { icon } from './icons.js';
import { t } from './strings.js';

/** Draw the status bar. */
export function drawStatus({ store, connection, actions, can }) {
  const { state } = store;
  const usage = store.usage();
  const lead = store.actor();
  const context = store.contextLeft();
  const budget = store.tightestBudget();
  const sandbox = typeof state.sandbox === 'string' ? state.sandbox : state.sandbox?.kind ?? '';
  return html`
    <button type="button" class="connection ${connection}" title=${t(`connection_${connection}`)} @click=${() => actions.reconnect()}>
      <span class="dot ${connection}"></span><span class=${connection === 'open' ? 'visually-hidden' : ''} role="status">${t(`connection_${connection}`)}</span></button>
    <button type="button" class="pick" title=${t('choose_model')} ?disabled=${!can('model')} @click=${() => actions.chooseModel()}>${baseName(state.model || lead.model || t('model'))}</button>
    <button type="button" class="pick" title=${t('choose_mode')} ?disabled=${!can('mode')} @click=${() => actions.chooseMode()}>${state.mode || lead.mode || t('mode')}</button>
    <button type="button" class="pick" title=${t('choose_policy')} ?disabled=${!can('policy')} @click=${() => actions.choosePolicy()}>${icon('shield')} ${state.approve ? t(`policy_${state.approve}`) : t('policy')}</button>
    <span class="facts-line">
      ${store.isRunning() && lead.turn ? html`<span>${t('turn_n', { n: lead.turn })}</span>` : nothing}
      ${usage.input + usage.output ? html`<span title=${t('tokens')}>${formatTokens(usage.input + usage.output)}</span>` : nothing}
      ${usage.input ? html`<span>${t('cached_share', { n: Math.round((usage.cached / usage.input) * 100) })}</span>` : nothing}
      ${usage.cost ? html`<span>${formatCost(usage.cost)}</span>` : nothing}
      ${budget ? html`<span class=${budget.nearly_spent ? 'warning-text' : ''} title=${nameBudget(budget)}>${t('budget_spent', { spent: describeBudget(budget) })}</span>` : nothing}
      ${context === null ? nothing : html`<span>${t('context_left', { n: context })}</span>`}
      ${state.branch ? html`<span class="with-icon">${icon('branch')}${state.branch}</span>` : nothing}
      ${sandbox ? html`<span>${t('sandbox', { kind: sandbox })}</span>` : nothing}
    </span>`;
}
