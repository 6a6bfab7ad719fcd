// What the page knows about one session, built from the elements of the stream.

const MAX_OUTPUT = 8_000; // characters of the output of a running call

/** Return the whole length of a streamed field: long texts arrive cut. */
function lengthOf(entry, field, call) {
  const whole = entry.lengths?.[call ? `${field}:${call}` : field];
  return whole ?? readField(entry, field, call).length;
}

function readField(entry, field, call) {
  return String((call ? entry[field]?.[call] : entry[field]) ?? '');
}

export class SessionStore {
  constructor() {
    this.clear();
  }

  clear() {
    this.state = {};
    this.seq = 0;
    this.entries = new Map();
    this.keys = []; // ids, ascending
    this.loaded = false;
    this.first = null; // the lowest id that the page has
    this.dropped = '';
  }

  get hasOlder() {
    return this.first !== null && this.first > 0;
  }

  /**
   * Apply the elements of a message.
   *
   * @returns {{touched: Set<number>, keys: boolean, state: boolean, gap: boolean, reset: boolean}}
   *   What changed. After a gap, the page must connect again from the start.
   */
  apply(elements) {
    const changes = {
      touched: new Set(), keys: false, state: false, gap: false, reset: false, bye: '',
    };
    for (const element of elements) {
      this._applyOne(element, changes);
    }
    if (changes.keys) {
      this.keys = [...this.entries.keys()].sort((a, b) => a - b);
      this.first = this.keys[0] ?? null;
    }
    return changes;
  }

  _applyOne(element, changes) {
    if (typeof element.seq === 'number' && element.type !== 'text') {
      this.seq = Math.max(this.seq, element.seq);
    }
    switch (element.type) {
      case 'snapshot':
        this._snapshot(element, changes);
        break;
      case 'entry':
        this._put(element.entry, changes);
        break;
      case 'text':
        this._text(element, changes);
        break;
      case 'state':
        this._state(element, changes);
        break;
      case 'hello':
        this.dropped = element.dropped ?? '';
        // A server that has been restored from a copy knows fewer events than the page.
        changes.gap ||= typeof element.last === 'number' && element.last < this.seq;
        break;
      case 'bye':
        changes.bye = element.why ?? 'closed';
        break;
      default: // beats, and elements of newer servers
    }
  }

  _snapshot(element, changes) {
    this.seq = element.seq ?? this.seq;
    this.entries.clear();
    for (const entry of element.entries ?? []) {
      this._put(entry, changes);
    }
    this.state = element.state ?? {};
    this.loaded = true;
    changes.state = true;
    changes.keys = true;
    changes.reset = true;
  }

  _state(element, changes) {
    const { type, seq, ...parts } = element;
    Object.assign(this.state, parts.state ?? parts);
    this.loaded = true;
    changes.state = true;
  }

  _put(entry, changes) {
    if (!entry || typeof entry.id !== 'number') {
      return;
    }
    if (!this.entries.has(entry.id)) {
      changes.keys = true;
    }
    this.entries.set(entry.id, entry);
    changes.touched.add(entry.id);
  }

  _text(element, changes) {
    const entry = this.entries.get(element.entry);
    if (!entry) {
      return; // older than what the page has
    }
    const { field, call } = element;
    const have = lengthOf(entry, field, call);
    const at = element.at ?? have;
    if (at > have) {
      changes.gap = true;
      return;
    }
    const add = String(element.add ?? '').slice(have - at);
    if (!add) {
      return;
    }
    let text = readField(entry, field, call) + add;
    if (field === 'output') {
      text = text.slice(-MAX_OUTPUT);
    }
    if (call) {
      entry[field] = { ...entry[field], [call]: text };
      if (element.tool) {
        entry.tools = { ...entry.tools, [call]: element.tool };
      }
    } else {
      entry[field] = text;
    }
    entry.lengths = { ...entry.lengths, [call ? `${field}:${call}` : field]: have + add.length };
    changes.touched.add(entry.id);
  }

  /** Add a page of older entries. */
  addOlder(entries) {
    let added = false;
    for (const entry of entries) {
      if (typeof entry.id === 'number' && !this.entries.has(entry.id)) {
        this.entries.set(entry.id, entry);
        added = true;
      }
    }
    this.keys = [...this.entries.keys()].sort((a, b) => a - b);
    this.first = added ? this.keys[0] : 0;
    return added;
  }
}
