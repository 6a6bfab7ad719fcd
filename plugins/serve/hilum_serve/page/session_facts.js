// Reads facts from the state of a session, as `GET /api/sessions/{session}` describes it.

import { argumentsOf } from './card_state.js';
import { parseObject } from './format.js';
import { SessionStore } from './session_store.js';

const LEAD = 'main';

export class SessionFacts extends SessionStore {
  constructor() {
    super();
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

  isRunning() {
    return Boolean(this.actor(LEAD).running ?? this.state.running);
  }

  /** Return whether the agent whose conversation is shown is running. */
  isShownAgentRunning() {
    return this.agent === null ? this.isRunning() : Boolean(this.actor().running);
  }

  /** Return the starts of agents. */
  agents() {
    return this.state.started ?? [];
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

  /** Return the start of an agent by a call of the tool `task`. */
  agentOfCard(card) {
    if (card.call?.name !== 'task') {
      return null;
    }
    const description = String(parseObject(card.call.arguments)?.description ?? '');
    const title = description.split(/\s+/).filter(Boolean).join(' ').slice(0, 80);
    const own = this.agents().filter((agent) => (agent.owner || LEAD) === card.agent && agent.title === title);
    // Of several starts with one title, the one that began first after the call.
    return own.find((agent) => agent.since >= card.at - 1) ?? own[0] ?? null;
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

  /** Return the free share of the context window in per cent; null if unknown. */
  contextLeft() {
    const window = this.state.window ?? this.window;
    if (!window?.size) {
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
