// Reads facts from the state of a session, as `GET /api/sessions/{session}` describes it.

import { argumentsOf, cardState } from './card_state.js';
import { parseObject } from './format.js';
import { SessionStore } from './session_store.js';

const LEAD = 'main';

export class SessionFacts extends SessionStore {
  constructor() {
    super();
    this.me = ''; // name of the user of this page
    this.agent = null; // the agent whose conversation is shown; null for the main agent
    this.window = null; // {size, used}, read after each run
  }

  lead() {
    return LEAD;
  }

  /** Return an agent of the session; by default the one whose conversation is shown. */
  actor(name = this.agent ?? LEAD) {
    return (this.state.agents ?? []).find((agent) => agent.name === name) ?? {};
  }

  /** Return the id of the main agent's current or last run; empty if it has not run. */
  lastRun() {
    return this.actor(LEAD).run ?? '';
  }

  isRunning() {
    return Boolean(this.actor(LEAD).running ?? this.state.running);
  }

  /** Return whether the agent whose conversation is shown is running. */
  isShownAgentRunning() {
    return this.agent === null ? this.isRunning() : Boolean(this.actor().running);
  }

  /** Return whether an agent's run was cut off when an earlier process of hilum ended. */
  isCutOff(agent) {
    return Boolean(this.state.left) && !this.isRunning() && !this.actor(agent).running;
  }

  /** Return the state of a call. No event tells of the end of a call whose run was cut off. */
  stateOf(card) {
    const state = cardState(card);
    const isOpen = ['pending', 'running', 'waiting'].includes(state);
    return isOpen && this.isCutOff(card.agent) ? 'stopped' : state;
  }

  /** Return the starts of agents. */
  agents() {
    const started = this.state.started ?? [];
    return started.map((agent) => {
      const isCutOff = !agent.ended && this.isCutOff(agent.actor);
      return isCutOff ? { ...agent, ended: true, status: 'interrupted' } : agent;
    });
  }

  nameOf(actor) {
    if (!actor || actor === LEAD) {
      return '';
    }
    const agent = this.agents().find((each) => each.actor === actor);
    return agent ? agent.title || agent.agent : actor;
  }

  /** Return the approvals, questions and plans that wait, oldest first. */
  waiting() {
    return this.state.waiting ?? [];
  }

  approvalOf(card) {
    return this.waiting().find(
      (item) => item.kind === 'approval' && item.agent === card.agent && item.call?.id === card.call?.id,
    );
  }

  /** Return the agent that a call has started; null for other calls. */
  agentOfCard(card) {
    const known = card.result?.data?.agent_id;
    if (known) {
      return this.agents().find((agent) => agent.id === known) ?? null;
    }
    const started = this.agents().filter((agent) => agent.call !== '' && agent.call === card.call?.id
      && agent.owner === card.agent && agent.owner_run === card.run);
    // Some models number the calls of each answer anew, so that ids recur within a run.
    return started.find((agent) => agent.since >= card.at - 1) ?? started[0] ?? null;
  }

  /** Return whether the session has the agent whose conversation is shown. */
  hasAgent() {
    return this.agent === null || Boolean(this.actor().name)
      || this.agents().some((each) => each.actor === this.agent);
  }

  /** Return the id of the entry with which the last run ended; null if a run goes on. */
  lastOutcome() {
    for (let index = this.keys.length - 1; index >= 0; index--) {
      const entry = this.entries.get(this.keys[index]);
      if (entry.agent !== LEAD) {
        continue;
      }
      if (entry.kind === 'outcome') {
        return entry.id;
      }
      if (entry.kind === 'prompt') {
        return null;
      }
    }
    return null;
  }

  prompts() {
    return this.keys
      .map((key) => this.entries.get(key))
      .filter((entry) => entry.kind === 'prompt' && entry.agent === LEAD && entry.text && !entry.repeats)
      .map((entry) => entry.typed || entry.text);
  }

  /** Return the prompts that wait, as [run, text]. */
  queue() {
    return this._texts(this.state.queued);
  }

  /** Return the messages that the agent has not read, as [id, text]. */
  steering() {
    return this._texts(this.state.steering);
  }

  _texts(list) {
    const agent = this.agent ?? LEAD;
    return (list ?? []).filter((each) => each.agent === agent).map((each) => [each.id, each.text]);
  }

  todos() {
    const agent = this.agent ?? LEAD;
    return (this.state.todo ?? []).find((list) => list.agent === agent) ?? {};
  }

  /**
   * Return the calls that were made while a step of the todo list was in progress.
   *
   * @returns {Map<string, object[]>} The cards, by the id of the step.
   */
  callsOfTodos() {
    const agent = this.agent ?? LEAD;
    const calls = new Map();
    const active = new Set();
    for (const key of this.keys) {
      const card = this.entries.get(key);
      if (card.kind !== 'card' || card.agent !== agent) {
        continue;
      }
      if (card.call?.name === 'todo_write') {
        followTodos(active, card);
      } else {
        for (const id of active) {
          calls.set(id, [...(calls.get(id) ?? []), card]);
        }
      }
    }
    return calls;
  }

  usage() {
    const usage = this.state.usage ?? {};
    return {
      input: usage.input ?? 0,
      cached: usage.cached ?? 0,
      output: usage.output ?? 0,
      cost: usage.cost ?? null,
      runs: this.state.runs ?? 0,
    };
  }

  /** Return the budgets that have limits, each with what is spent. */
  budgets() {
    return this.state.budgets ?? [];
  }

  /** Return the budget of which the largest share is spent; null without budgets. */
  tightestBudget() {
    const share = (budget) => (budget.limit ? budget.spent / budget.limit : 1);
    return this.budgets().reduce((most, each) => (most && share(most) >= share(each) ? most : each), null);
  }

  /**
   * Return the free share of the main agent's context window in per cent; null if unknown.
   *
   * Before the first answer, only instructions and tools would fill the window, and their size is an
   * estimate: a share would look as if something had been used.
   */
  contextLeft() {
    const window = this.state.window ?? this.window;
    if (!window?.size || this.agent !== null || !this.usage().input) {
      return null;
    }
    return Math.max(0, Math.round((1 - (window.used ?? 0) / window.size) * 100));
  }
}

/** Apply a call that changed the todo list to the ids of the steps in progress. */
function followTodos(active, card) {
  const changes = parseObject(argumentsOf(card));
  if (card.state !== 'completed' || !Array.isArray(changes?.todos)) {
    return;
  }
  if (!changes.merge) {
    active.clear();
  }
  for (const { id, status } of changes.todos) {
    if (status === 'in_progress') {
      active.add(String(id));
    } else if (status) {
      active.delete(String(id));
    }
  }
}
