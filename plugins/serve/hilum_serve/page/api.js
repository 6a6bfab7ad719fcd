// The server's operations. Every request of the page is made here.

import { translate } from './strings.js';

export class ApiError extends Error {
  constructor(status, code, message, hint) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

let clockDifference = 0; // milliseconds by which the server's clock is ahead of this browser's

/** Return the server's Unix time in milliseconds: deadlines are in its time. */
export function serverTime() {
  return Date.now() + clockDifference;
}

function compareClocks(response) {
  const sent = Date.parse(response.headers.get('Date') ?? '');
  if (Number.isNaN(sent)) {
    return;
  }
  // The header has whole seconds. What is within a second is no difference between clocks.
  const difference = sent + 500 - Date.now();
  clockDifference = Math.abs(difference) > 1_500 ? difference : 0;
}

const RETRY_AFTER = [500, 1_500, 4_000]; // milliseconds before a lost change is sent again
const REMEMBERED = 60_000; // milliseconds in which the same change of the user is taken for a repetition
const unanswered = new Map(); // {id, at} of changes without a response, by what they ask

let onSignedOut = () => {};
/** Call a function when the server no longer knows this browser. */
export function setSignedOutHandler(handler) {
  onSignedOut = handler;
}

const pause = (time) => new Promise((resolve) => {
  setTimeout(resolve, time);
});

/** Return a random id; crypto.randomUUID does not exist on pages without encryption. */
function makeId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/**
 * Fetch a change; send it again if its response is lost.
 *
 * Every copy has the same id, so that the server carries the change out once. If the user repeats a
 * change that stayed without a response, it has the same id, too.
 */
async function fetchChange(address, options) {
  const key = `${options.method} ${address} ${options.body}`;
  const earlier = unanswered.get(key);
  const isRecent = earlier !== undefined && Date.now() - earlier.at < REMEMBERED;
  const request = isRecent ? earlier.id : makeId();
  options.headers['Hilum-Request'] = request;
  unanswered.delete(key);
  for (let attempt = 0; ; attempt++) {
    try {
      const response = await fetch(address, options);
      // The body is read here: the connection may also be lost within it.
      const content = await response.blob();
      return content.size === 0 ? response : new Response(content, response);
    } catch (error) {
      if (error.name === 'AbortError' || attempt === RETRY_AFTER.length) {
        unanswered.set(key, { id: request, at: Date.now() });
        throw error;
      }
      await pause(RETRY_AFTER[attempt]);
    }
  }
}

async function request(method, path, { body, seen, query, raw, signal } = {}) {
  const address = new URL(path.startsWith('../') ? path.slice(3) : `api${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== '') {
      address.searchParams.set(name, String(value));
    }
  }
  const headers = { Accept: 'application/json' };
  const options = { method, headers, credentials: 'same-origin', cache: 'no-store', signal };
  if (method !== 'GET') {
    headers['Content-Type'] = 'application/json';
    options.body = JSON.stringify(body ?? {});
    if (seen !== undefined) {
      headers['Hilum-Seen'] = String(seen);
    }
  }
  let response;
  try {
    response = method === 'GET' ? await fetch(address, options) : await fetchChange(address, options);
  } catch (error) {
    if (error.name === 'AbortError') {
      throw error;
    }
    throw new ApiError(0, 'E_OFFLINE', '', '');
  }
  compareClocks(response);
  if (response.status === 401) {
    onSignedOut();
  }
  if (!response.ok) {
    throw await readError(response);
  }
  if (raw) {
    return response;
  }
  const text = await response.text();
  return text ? JSON.parse(text) : {};
}

async function readError(response) {
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // A proxy may answer with its own page.
  }
  const message = typeof problem.message === 'string' ? problem.message : response.statusText;
  return new ApiError(
    response.status,
    String(problem.code ?? `HTTP ${response.status}`),
    translate(message, problem.message_parts),
    translate(String(problem.hint ?? ''), problem.hint_parts),
  );
}

const id = encodeURIComponent;

export const server = {
  me: () => request('GET', '/me'),
  logout: () => request('POST', '../logout'),
  workspaces: () => request('GET', '/workspaces'),
  sessions: (query) => request('GET', '/sessions', { query }),
  createSession: (body) => request('POST', '/sessions', { body, seen: 0 }),
};

/** The operations on one session. `seen` returns the last sequence number that the page showed. */
export class SessionApi {
  constructor(session, seen) {
    this.session = session;
    this.base = `/sessions/${id(session)}`;
    this.seen = seen;
  }

  get(path, query, options = {}) {
    return request('GET', this.base + path, { query, ...options });
  }

  /** Carry out a change; `seen` is what the user knew when deciding on it. */
  change(method, path, body, { query, seen = this.seen() } = {}) {
    return request(method, this.base + path, { body, query, seen });
  }

  state() { return this.get(''); }
  set(body) { return this.change('PATCH', '', body); }
  remove() { return this.change('DELETE', ''); }
  close() { return this.change('POST', '/close'); }
  open() { return this.change('POST', '/open'); }
  fork(body = {}) { return this.change('POST', '/fork', body); }
  exportAs(format) { return this.get('/export', { format }, { raw: true }); }
  prompt(body) { return this.change('POST', '/prompts', body); }
  steer(body) { return this.change('POST', '/steering', body); }
  withdraw(steering, agent) {
    return this.change('DELETE', `/steering/${id(steering)}?agent=${id(agent)}`);
  }
  stop(body = {}) { return this.change('POST', '/stop', body); }
  runShellLine(command) { return this.change('POST', '/shell', { command }); }
  stopShellLine(line) { return this.change('POST', `/shell/${id(line)}/stop`); }
  backgroundOutput(command) { return this.get(`/background/${id(command)}/output`); }
  stopBackground(command) { return this.change('POST', `/background/${id(command)}/stop`); }
  resume() { return this.change('POST', '/resume'); }
  retry() { return this.change('POST', '/retry'); }
  // Models may use the id of a call again, so the entry tells which of them is meant.
  repeat(call, entry) {
    return this.change('POST', `/calls/${id(call)}/repeat`, undefined, { query: { entry } });
  }
  compact(body = {}) { return this.change('POST', '/compact', body); }
  decide(approval, body) { return this.change('POST', `/approvals/${id(approval)}`, body); }
  decideAll(body) { return this.change('POST', '/approvals', body); }
  shown(approval) { return this.change('POST', `/approvals/${id(approval)}/shown`); }
  answer(question, body) { return this.change('POST', `/questions/${id(question)}`, body); }
  decidePlan(plan, body) { return this.change('POST', `/plans/${id(plan)}`, body); }
  grants() { return this.get('/grants'); }
  removeGrant(scope) { return this.change('DELETE', `/grants?scope=${id(scope)}&stored=true`); }
  approvals() { return this.get('/approvals'); }
  files() { return this.get('/files'); }
  timeline(run) { return this.get('/timeline', { run }); }
  diff(path) { return this.get('/files/diff', { path }); }
  previewUndo(body) { return this.change('POST', '/undo/preview', body); }
  undo(body, seen) { return this.change('POST', '/undo', body, { seen }); }
  previewRedo() { return this.change('POST', '/redo/preview'); }
  rewindPoints() { return this.get('/rewind'); }
  redo(seen) { return this.change('POST', '/redo', undefined, { seen }); }
  previewRewind(body) { return this.change('POST', '/rewind/preview', body); }
  rewind(body, seen) { return this.change('POST', '/rewind', body, { seen }); }
  usage() { return this.get('/usage'); }
  commands() { return this.get('/commands'); }
  modes() { return this.get('/modes'); }
  models() { return this.get('/models'); }
  settings() { return this.get('/settings'); }
  setSettings(body) { return this.change('PATCH', '/settings', body); }
  complete(text, signal) { return this.get('/complete', { text }, { signal }); }
  entries(before, limit = 200) { return this.get('/entries', { before, limit }); }
  search(q, { before, after, limit }, signal) {
    return this.get('/search', { q, before, after, limit }, { signal });
  }
  events(after, limit) { return this.get('/events', { after, limit }); }
  result(call, entry, offset, limit) {
    return this.get(`/calls/${id(call)}/result`, { entry, offset, limit });
  }
}
