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

/** Return the lowest id of entries; 0 without entries. */
function lowestId(entries) {
  return entries.reduce((lowest, entry) => Math.min(lowest, entry.id), entries[0]?.id ?? 0);
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
    this.first = null; // the lowest id of the part without holes, up to the newest entry
    this.catchingUp = false; // whether the server still sends what the page missed
    this.dropped = '';
  }

  get hasOlder() {
    return this.first !== null && this.first > 0;
  }

  /**
   * Apply the elements of a message.
   *
   * @returns {{touched: Set<number>, keys: boolean, state: boolean, gap: boolean, replaced: boolean,
   *   reset: boolean}} What changed. After a gap, the page must connect again from the start; if the
   *   history was replaced, what it remembers about entries and approvals is wrong, too.
   */
  apply(elements) {
    const changes = {
      touched: new Set(), keys: false, state: false, gap: false, replaced: false, reset: false,
      bye: '',
    };
    for (const element of elements) {
      this._applyOne(element, changes);
    }
    if (changes.keys) {
      this._sortKeys();
    }
    return changes;
  }

  /**
   * List the entries that the page shows.
   *
   * An older entry that changes arrives before the ones around it have been loaded. It is kept, and
   * shown together with them.
   */
  _sortKeys() {
    const first = this.first ?? 0;
    this.keys = [...this.entries.keys()].filter((id) => id >= first).sort((a, b) => a - b);
  }

  /** Count what an element proves to have arrived: everything up to its number. */
  _countSeen(element) {
    if (typeof element.seq !== 'number' || element.type === 'text') {
      return;
    }
    // The entries of a catch-up may come in several messages. Its last element is a state or a
    // snapshot; if the connection is lost before it, the page must ask for all of them again.
    const ends = element.type === 'state' || element.type === 'snapshot';
    if (this.catchingUp && !ends) {
      return;
    }
    this.catchingUp = false;
    this.seq = Math.max(this.seq, element.seq);
  }

  _applyOne(element, changes) {
    this._countSeen(element);
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
        this.catchingUp = true;
        this.dropped = element.dropped ?? '';
        // A server that has been restored from a copy knows fewer events than the page.
        changes.replaced ||= typeof element.last === 'number' && element.last < this.seq;
        changes.gap ||= changes.replaced;
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
    this.first = lowestId(element.entries ?? []);
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
    for (const entry of entries) {
      // What the stream has brought is at least as new.
      if (typeof entry.id === 'number' && !this.entries.has(entry.id)) {
        this.entries.set(entry.id, entry);
      }
    }
    const first = lowestId(entries);
    this.first = first < this.first ? first : 0;
    this._sortKeys();
  }
}
