// Reads facts from the state of a session, whose parts may be missing.

import { SessionStore } from './session_store.js';
import { parseObject } from './format.js';

const RUNNING = new Set(['running', 'waiting_for_approval', 'retrying', 'compacting', 'queued']);

export class SessionFacts extends SessionStore {
  constructor() {
    super();
    this.agent = null; // the agent whose conversation is shown; null for the main agent
  }

  lead() {
    return this.state.lead ?? 'main';
  }

  actors() {
    const actors = this.state.actors ?? {};
    return Array.isArray(actors)
      ? Object.fromEntries(actors.map((actor) => [actor.name, actor]))
      : actors;
  }

  leadActor() {
    return this.actors()[this.agent ?? this.lead()] ?? {};
  }

  isRunning() {
    const actor = this.actors()[this.lead()];
    if (actor?.state) {
      return RUNNING.has(actor.state);
    }
    return Boolean(this.state.running);
  }

  agents() {
    const agents = this.state.agents ?? [];
    return Array.isArray(agents) ? agents : Object.values(agents);
  }

  nameOf(actor) {
    if (!actor || actor === this.lead()) {
      return '';
    }
    const agent = this.agents().find((each) => each.actor === actor);
    return agent ? agent.title || agent.agent : actor;
  }

  /** Return the approvals, questions and plans that wait, oldest first. */
  waiting() {
    const items = Array.isArray(this.state.waiting) ? this.state.waiting : [];
    const plans = [];
    for (const actor of Object.values(this.actors())) {
      if (actor.proposal && !items.some((item) => item.kind === 'plan')) {
        plans.push({ kind: 'plan', id: actor.proposal.run, agent: actor.name, text: actor.proposal.text });
      }
    }
    return [...items, ...plans];
  }

  approvalOf(card) {
    return this.waiting().find(
      (item) => item.kind === 'approval' && item.agent === card.agent && item.call?.id === card.call?.id,
    );
  }

  /** Return the agent that a call of the tool `task` started. */
  agentOfCard(card) {
    if (card.call?.name !== 'task') {
      return null;
    }
    const description = String(parseObject(card.call.arguments)?.description ?? '');
    const title = description.split(/\s+/).filter(Boolean).join(' ').slice(0, 80);
    const owners = this.agents().filter((agent) => (agent.owner || this.lead()) === card.agent);
    return owners.find((agent) => agent.title === title) ?? null;
  }

  lastOutcome() {
    const lead = this.lead();
    for (let index = this.keys.length - 1; index >= 0; index--) {
      const entry = this.entries.get(this.keys[index]);
      if (entry.kind === 'outcome' && entry.agent === lead) {
        return entry.id;
      }
      if (entry.kind === 'prompt' && entry.agent === lead) {
        return null;
      }
    }
    return null;
  }

  prompts() {
    return this.keys
      .map((key) => this.entries.get(key))
      .filter((entry) => entry.kind === 'prompt' && entry.agent === this.lead() && entry.text)
      .map((entry) => entry.typed || entry.text);
  }

  queue() {
    return Object.entries(this.leadActor().queued ?? {});
  }

  steering() {
    return Object.entries(this.leadActor().steering ?? {});
  }

  todos() {
    const own = this.leadActor().todos ?? this.state.todo ?? this.state.todos ?? {};
    return Array.isArray(own) ? { items: own } : own;
  }

  usage() {
    const found = this.state.usage ?? this.state.totals ?? {};
    const usage = found.usage ?? found;
    const fresh = usage.input ?? usage.input_tokens ?? 0;
    return {
      input: fresh,
      cached: usage.cached ?? usage.cache_read ?? usage.cached_tokens ?? 0,
      output: usage.output ?? usage.output_tokens ?? 0,
      cost: usage.cost ?? 0,
      runs: found.runs ?? this.state.totals?.runs ?? 0,
    };
  }

  /** Return the free share of the context window in per cent; null if unknown. */
  contextLeft() {
    const window = this.state.window ?? this.state.context;
    const size = window?.size ?? window?.limit ?? 0;
    const used = window?.used ?? window?.tokens ?? 0;
    return size > 0 ? Math.max(0, Math.round((1 - used / size) * 100)) : null;
  }
}
