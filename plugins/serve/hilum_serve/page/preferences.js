// What this browser remembers: language, theme and notifications. Nothing secret.

const KEY = 'hilum.preferences';
const DEFAULTS = { language: '', theme: 'system', notifications: false, diff: 'auto', panel: true };
const listeners = new Set();
let values = { ...DEFAULTS, ...read(KEY) };

function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key) || '{}');
  } catch {
    return {};
  }
}

function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Without storage, choices last until the page is closed.
  }
}

/** Return a preference. */
export function preference(name) {
  return values[name];
}

/** Set a preference and tell the page. */
export function setPreference(name, value) {
  values = { ...values, [name]: value };
  write(KEY, values);
  listeners.forEach((listener) => listener(name, value));
}

/** Call a function when a preference changes. */
export function onPreference(listener) {
  listeners.add(listener);
}

/** Remember the address within the page that is opened after the next sign-in; empty for none. */
export function rememberPlace(hash) {
  write('hilum.place', hash);
}

/** Return the remembered address within the page; empty if there is none. */
export function rememberedPlace() {
  const place = read('hilum.place');
  return typeof place === 'string' && place.startsWith('#/s/') ? place : '';
}

/** Return the ids of the newest sessions that were made in this browser. */
export function readCreated() {
  const ids = read('hilum.created');
  return Array.isArray(ids) ? ids : [];
}

/** Remember the newest sessions that were made in this browser. */
export function writeCreated(ids) {
  write('hilum.created', ids.slice(-20));
}

/** Return what the user has typed in a session and not sent. */
export function readDraft(session) {
  return String(read('hilum.drafts')[session] ?? '');
}

/** Remember what the user has typed in a session; at most 20 sessions. */
export function writeDraft(session, text) {
  const drafts = read('hilum.drafts');
  delete drafts[session];
  const kept = Object.entries(drafts).slice(-19);
  if (text) {
    kept.push([session, text]);
  }
  write('hilum.drafts', Object.fromEntries(kept));
}
