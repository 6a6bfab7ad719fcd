// Draws tool calls in every state.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import {
  argumentsOf, cardState, countLines, diffOf, fileOf, readableArguments, resultText, subjectOf,
  summaryOf,
} from './card_state.js';
import { copyFrom } from './copying.js';
import { diffChoice, drawDiff } from './diff_view.js';
import { formatCost, formatDuration, formatTokens } from './format.js';
import { icon } from './icons.js';
import { drawImages } from './images.js';
import { t, translate } from './strings.js';
import { showHidden } from './visible.js';

const MAX_SHOWN = 12_000; // characters of a text in a card
const TAIL_SHOWN = 4_000;
const MAX_OPEN_DIFF = 60; // changed lines; longer diffs are folded at first
const CUT = '\n\n…\n\n'; // between head and tail of a text that the server has cut
const RESULT_PAGE = 200_000; // characters of a long result that are loaded at once

const TOOL_ICONS = {
  bash: 'terminal', read_file: 'file', write_file: 'file', edit_file: 'file', list_directory: 'file',
  search_files: 'search', glob: 'search', grep: 'search', web_search: 'search', task: 'agent',
  ask_user: 'question',
};

/** Return the likely height of a card in pixels. */
export function estimateCard(card) {
  const diff = diffOf(card);
  if (diff) {
    const lines = Math.min(diff.split('\n').length, MAX_OPEN_DIFF);
    return 52 + lines * 20;
  }
  return cardState(card) === 'failed' ? 110 : 48;
}

/** Draw a call whose arguments are still arriving. */
export function drawStreamingCall(tool, text) {
  return html`<div class="card streaming" data-state="streaming">
    <div class="card-head">
      <span class="state-icon"><span class="spinner"></span></span>
      <span class="tool">${tool || t('tool')}</span>
      <span class="subject">${subjectOf(text)}</span>
      <span class="state-text">${t('state_streaming')}</span>
    </div>
    <pre class="card-text live" tabindex="0">${text.slice(-TAIL_SHOWN)}</pre>
  </div>`;
}

const STATE_ICONS = {
  waiting: 'shield', pending: 'clock', running: '', completed: 'check', failed: 'close',
  rejected: 'minus', stopped: 'stop',
};

function stateIcon(state) {
  return STATE_ICONS[state]
    ? icon(STATE_ICONS[state])
    : html`<span class="spinner"></span>`;
}

function isOpen(card, state, choices) {
  if (choices.open !== undefined) {
    return choices.open;
  }
  if (state === 'running') {
    return Boolean(card.output);
  }
  const diff = diffOf(card);
  if (diff && state === 'completed') {
    const { added, removed } = countLines(diff);
    return added + removed <= MAX_OPEN_DIFF;
  }
  return state === 'failed' || state === 'waiting';
}

/**
 * Draw a tool call.
 *
 * @param {object} card The entry.
 * @param {object} context choices of the user for this row, again() to draw it again, width of the
 *   conversation, store and actions.
 */
export function drawCard(card, context) {
  const { choices, again, store } = context;
  const state = store.stateOf(card);
  const agent = store.agentOfCard?.(card);
  const open = isOpen(card, state, choices);
  const toggle = () => {
    choices.open = !open;
    again();
  };
  const name = card.call?.name ?? '';
  const { added, removed } = countLines(diffOf(card));
  return html`<div class="card ${state} ${agent ? `sub-agent agent-${agent.status}` : ''}" data-state=${state} data-call=${card.call?.id ?? ''}>
    <div class="card-head">
      <button type="button" class="fold" aria-expanded=${String(open)} @click=${toggle}>
        <span class="state-icon">${agent ? icon('agent') : stateIcon(state)}</span>
        <span class="tool">${agent ? agent.title || agent.agent : name}</span>
        <span class="subject">${agent ? agentActivity(agent) : subjectOf(argumentsOf(card))}</span>
        ${decidedByOther(card, store) ? html`<span class="tag decider-tag">${t('by_user', { who: card.decided_name })}</span>` : nothing}
        ${card.repeats ? html`<span class="tag">${t('retried')}</span>` : nothing}
        ${added || removed ? html`<span class="line-counts"><b class="added">+${added}</b> <b class="removed">−${removed}</b></span>` : nothing}
        <span class="state-text">${agent ? agentState(agent) : stateText(card, state)}</span>
        <span class="fold-icon">${icon('chevron')}</span>
      </button>
    </div>
    ${agent && !agentEnded(agent) ? drawProgress(agent, store.actor(agent.actor).turn) : nothing}
    ${!open && (state === 'failed' || state === 'rejected') ? html`<p class="card-reason">${summaryOf(card)}</p>` : nothing}
    ${open ? drawBody(card, state, context, agent) : nothing}
  </div>`;
}

function stateText(card, state) {
  const duration = formatDuration(card.seconds);
  const exit = card.result?.data?.exit_code;
  switch (state) {
    case 'completed':
      return Number.isInteger(exit) && exit !== 0 ? t('exit_code', { n: exit }) : duration;
    case 'failed':
      return card.result?.code || t('state_failed');
    default:
      return t(`state_${state}`);
  }
}

const agentEnded = (agent) => agent.ended;

/** Draw the status of a sub-agent: its call may have ended long before it. */
function agentState(agent) {
  return html`${agentEnded(agent) ? formatDuration(agent.seconds) : nothing} <span class="tag ${agent.status}">${t(`agent_${agent.status}`)}</span>`;
}

function agentActivity(agent) {
  if (agentEnded(agent)) {
    return agent.agent;
  }
  if (agent.status === 'queued') {
    return agent.place ? t('agent_queued_at', { n: agent.place }) : t('agent_queued');
  }
  if (agent.status === 'waiting_for_approval') {
    return t('waiting_for_you');
  }
  return translate(agent.activity, agent.activity_parts) || t('thinking');
}

/** Draw the progress and the facts of a sub-agent. */
export function drawProgress(agent, turn = 0) {
  const facts = [
    turn && (agent.turns ? t('turn_of', { k: turn, n: agent.turns }) : t('turn_n', { n: turn })),
    t('n_calls', { n: agent.calls ?? 0 }),
    formatDuration(agent.seconds || (agent.since ? Date.now() / 1000 - agent.since : 0)),
    agent.usage?.cost ? formatCost(agent.usage.cost) : '',
  ].filter(Boolean);
  return html`<div class="agent-progress">
    <progress max="1" .value=${agent.progress ?? 0} aria-label=${t('progress')}></progress>
    <span class="quiet">${facts.join(' · ')}</span>
  </div>`;
}

function drawBody(card, state, context, agent) {
  const { choices, again, actions, can } = context;
  const diff = diffOf(card);
  const text = resultText(card);
  const raw = choices.raw ?? false;
  const images = card.images ?? [];
  const cutDiff = card.cut?.['data.diff'];
  return html`<div class="card-body">
    ${agent ? drawAgentBody(agent, context) : nothing}
    ${raw ? drawText(card.call?.arguments ?? '', t('raw_arguments')) : drawReadable(card, state, diff, agent, choices)}
    ${card.rewritten && !raw ? html`<p class="quiet">${t('rewritten_by', { who: (card.rewritten_by ?? []).join(', ') })}</p>` : nothing}
    ${drawDecider(card, state, context.store)}
    ${diff && !raw ? html`<div class="diff-frame">
      <div class="diff-title"><span class="path">${showHidden(fileOf(card))}</span>${diffChoice(context.width, again)}</div>
      ${drawDiff({ diff: choices.wholeDiff ?? diff.split(CUT)[0] }, { width: context.width, limit: choices.limit ?? 200, more: () => { choices.limit = (choices.limit ?? 200) + 400; again(); }, again })}
      ${cutDiff && !choices.wholeDiff ? html`<button type="button" class="more" @click=${() => loadDiff(card, context)}>${t('whole_diff', { n: formatTokens(cutDiff) })}</button>` : nothing}
    </div>` : nothing}
    ${state === 'running' && card.output ? html`<pre class="card-text live" tabindex="0" aria-label=${t('live_output')}>${card.output.slice(-TAIL_SHOWN)}</pre>` : nothing}
    ${images.length ? drawImages(images, context.session) : nothing}
    ${text && (choices.found || !(diff && state === 'completed')) ? drawResult(card, text, context) : nothing}
    <div class="card-actions">
      ${state === 'waiting' ? drawDecision(card, context) : nothing}
      <button type="button" class="text-button copy-text" aria-label=${t('copy_arguments')} @click=${(event) => copyFrom(event.currentTarget, argumentsOf(card))}><span>${t('copy_arguments')}</span></button>
      <button type="button" class="text-button" aria-pressed=${String(raw)} @click=${() => { choices.raw = !raw; again(); }}>${t('raw_arguments')}</button>
      ${text ? html`<button type="button" class="text-button copy-text" aria-label=${t('copy_result')} @click=${(event) => copyFrom(event.currentTarget, choices.whole ?? text)}><span>${t('copy_result')}</span></button>` : nothing}
      ${state === 'failed' && !card.repeated_by ? html`<button type="button" class="button small" ?disabled=${choices.retrying || !can('retry')} @click=${() => retryCall(card, context)}>${icon('retry')} ${t('retry')}</button>` : nothing}
      ${state === 'completed' && card.risk !== 'read' && diff ? html`<button type="button" class="text-button" ?disabled=${!can('undo')} @click=${() => actions.undoCall(card)}>${t('undo_call')}</button>` : nothing}
    </div>
  </div>`;
}

async function loadDiff(card, { choices, again, actions }) {
  const found = await actions.loadResult(card, 0, 1);
  if (typeof found?.data?.diff === 'string') {
    choices.wholeDiff = found.data.diff;
    again();
  }
}

async function retryCall(card, { choices, again, actions }) {
  choices.retrying = true;
  again();
  await actions.repeatCall(card);
  choices.retrying = false;
  again();
}

function drawReadable(card, state, diff, agent, choices) {
  const readable = readableArguments(argumentsOf(card));
  if (choices.found) {
    return drawText(readable, t('arguments'), { field: 'arguments', isWhole: true });
  }
  // The bar shows what a waiting call will do.
  if (agent || diff || state === 'waiting') {
    return nothing;
  }
  // A short single argument is already in the title.
  if (readable.length < 90 && !readable.includes('\n')) {
    return nothing;
  }
  return drawText(readable, t('arguments'), { field: 'arguments' });
}

function drawText(text, label, { field = '', isWhole = false } = {}) {
  const shown = text.length > MAX_SHOWN && !isWhole
    ? `${text.slice(0, MAX_SHOWN / 2)}\n\n… ${t('left_out', { n: formatTokens(text.length - MAX_SHOWN) })} …\n\n${text.slice(-MAX_SHOWN / 2)}`
    : text;
  return html`<pre class="card-text" tabindex="0" data-field=${field} aria-label=${label}>${showHidden(shown)}</pre>`;
}

/** Load the next part of a long result; return whether there may be more. */
export async function loadResultPage(card, { choices, again, actions }) {
  const offset = choices.loaded ?? 0;
  choices.loading = true;
  again();
  const page = await actions.loadResult(card, offset, RESULT_PAGE);
  choices.loading = false;
  if (page !== null) {
    choices.whole = (choices.whole ?? '') + page.text;
    // The server counts in code points, and a page is as long as was asked for, or the last one.
    choices.loaded = Math.min(offset + RESULT_PAGE, page.total);
    choices.total = page.total;
  }
  again();
  return page !== null && choices.loaded < choices.total;
}

function drawResult(card, text, { choices, again, actions }) {
  const whole = card.cut?.result ?? card.cut?.text ?? 0;
  const shown = choices.whole ?? text;
  const load = () => loadResultPage(card, { choices, again, actions });
  const left = (choices.total ?? 0) - (choices.loaded ?? 0);
  return html`
    ${choices.whole ? html`<pre class="card-text whole" tabindex="0" data-field="result" aria-label=${t('result')}>${shown}</pre>` : drawText(shown, t('result'), { field: 'result', isWhole: choices.found })}
    ${(whole > text.length || text.length > MAX_SHOWN) && !choices.whole
      ? html`<button type="button" class="text-button" ?disabled=${choices.loading} @click=${load}>${t('whole_result', { n: formatTokens(whole || text.length) })}</button>`
      : nothing}
    ${choices.whole && left > 0
      ? html`<button type="button" class="text-button" ?disabled=${choices.loading} @click=${load}>${t('more_result', { n: formatTokens(left) })}</button>`
      : nothing}`;
}

/** Return whether another user than that of this page has answered for a call. */
function decidedByOther(card, store) {
  return card.decided_by === 'user' && Boolean(card.decided_name) && card.decided_name !== store.me;
}

/** Draw who approved or refused a call, if somebody was asked. */
function drawDecider(card, state, store) {
  const by = card.decided_by;
  if (!by) {
    return nothing;
  }
  if (by === 'user' && card.decided_name) {
    const [byOther, byUser] = state === 'rejected'
      ? ['rejected_by', 'rejected_by_you']
      : ['accepted_by', 'accepted_by_you'];
    const key = decidedByOther(card, store) ? byOther : byUser;
    return html`<p class="quiet decider">${t(key, { who: card.decided_name })}</p>`;
  }
  const text = by === 'user' && state !== 'rejected' ? 'decided_accepted' : `decided_${by}`;
  return html`<p class="quiet decider">${t(text)}</p>`;
}

function drawDecision(card, { store, actions, can }) {
  const approval = store.approvalOf?.(card);
  if (!approval) {
    return nothing;
  }
  return html`<div class="card-decision">
    <button type="button" class="button primary small" ?disabled=${!can('decide')} @click=${() => actions.decideFromCard(approval, true)}>${t('accept')}</button>
    <button type="button" class="button small" ?disabled=${!can('decide')} @click=${() => actions.decideFromCard(approval, false)}>${t('reject')}</button>
  </div>`;
}

function drawAgentBody(agent, { actions, can }) {
  const answer = agent.answer || '';
  return html`
    ${answer ? html`<pre class="card-text agent-answer" tabindex="0">${answer}</pre>` : html`<p class="quiet">${t('agent_silent')}</p>`}
    <div class="card-actions">
      <button type="button" class="button small" @click=${() => actions.openAgent(agent)}>${t('open_agent')}</button>
      ${agentEnded(agent) ? nothing : html`<button type="button" class="text-button" ?disabled=${!can('stop')} @click=${() => actions.stop(agent.actor)}>${t('stop_agent')}</button>`}
    </div>`;
}
