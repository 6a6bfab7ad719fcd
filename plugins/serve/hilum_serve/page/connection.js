// The stream of one session: a WebSocket that reconnects by itself and resumes by number.

const SILENCE = 25_000; // milliseconds without any message before the page reconnects
const BEAT = 10_000; // milliseconds between the page's own beats
const FIRST_WAIT = 300; // milliseconds before the first attempt to reconnect
const LONGEST_WAIT = 10_000;
const ENDED = [4401, 4403, 4404, 4410]; // codes of streams that the server will not continue
const REFUSED = 1006; // code of a stream that ended without one, such as a handshake that failed

export class Connection {
  /**
   * @param {string} session Id of the session.
   * @param {object} listener after() returns the number to resume from; messages(list) and
   *   state(name) are called for new elements and for connecting, open, reconnecting and ended;
   *   refused() when a stream ended without a reason, and ended(code, error) when the server will
   *   not continue it.
   */
  constructor(session, listener) {
    this.session = session;
    this.listener = listener;
    this.socket = null;
    this.closed = false;
    this.wait = FIRST_WAIT;
    this.refusal = null; // the error with which the server refused the stream
    this.timer = 0;
    this.heard = Date.now();
    this.state = 'connecting';
    this.onVisible = () => this._wake();
    document.addEventListener('visibilitychange', this.onVisible);
    window.addEventListener('online', this.onVisible);
    window.addEventListener('pageshow', this.onVisible);
    this.beat = setInterval(() => this._beat(), BEAT / 2);
    this._open();
  }

  close() {
    this.closed = true;
    clearInterval(this.beat);
    clearTimeout(this.timer);
    document.removeEventListener('visibilitychange', this.onVisible);
    window.removeEventListener('online', this.onVisible);
    window.removeEventListener('pageshow', this.onVisible);
    this._drop();
  }

  /** Connect again at once, from the last number. */
  reconnect() {
    this._drop();
    clearTimeout(this.timer);
    this._set(this.state === 'open' ? 'reconnecting' : this.state);
    this._open();
  }

  _drop() {
    const socket = this.socket;
    this.socket = null;
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
      socket.close();
    }
  }

  _set(state) {
    if (state !== this.state) {
      this.state = state;
      this.listener.state(state);
    }
  }

  _open() {
    if (this.closed) {
      return;
    }
    const address = new URL(
      `api/sessions/${encodeURIComponent(this.session)}/socket`,
      document.baseURI,
    );
    address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
    address.searchParams.set('after', String(this.listener.after()));
    address.searchParams.set('vocabulary', 'view');
    this.heard = Date.now();
    const socket = new WebSocket(address);
    this.socket = socket;
    socket.onmessage = (message) => this._receive(message.data);
    socket.onclose = (event) => this._lost(event);
    socket.onerror = () => {}; // a close event follows
  }

  _receive(data) {
    this.heard = Date.now();
    let list;
    try {
      list = JSON.parse(data);
    } catch {
      this.reconnect();
      return;
    }
    const elements = Array.isArray(list) ? list : [list];
    const error = elements.find((element) => element.type === 'error');
    if (error !== undefined) {
      this.refusal = error; // the server closes the stream now
      return;
    }
    const bye = elements.find((element) => element.type === 'bye');
    if (bye === undefined) {
      this.wait = FIRST_WAIT;
      this._set('open');
    }
    this.listener.messages(elements);
  }

  _lost(event) {
    const { refusal } = this;
    this.socket = null;
    this.refusal = null;
    if (this.closed) {
      return;
    }
    // 4401: the token has ended. 4403: no right. 4404: the session was closed, or is gone.
    // 4410: the terminal no longer shares it.
    if (ENDED.includes(event.code)) {
      this._set('ended');
      this.listener.ended(event.code, refusal);
      return;
    }
    if (event.code === REFUSED) {
      this.listener.refused();
    }
    this.reconnectLater();
  }

  /** Connect again after a time that grows with each failure. */
  reconnectLater() {
    this._set('reconnecting');
    const wait = this.wait * (0.8 + Math.random() * 0.4);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    this.timer = setTimeout(() => this._open(), wait);
  }

  _wake() {
    if (document.visibilityState !== 'visible' || this.closed || this.state === 'ended') {
      return;
    }
    const isSilent = Date.now() - this.heard > BEAT * 1.5;
    if (!this.socket || isSilent) {
      this._set('reconnecting');
      this.wait = FIRST_WAIT;
      this.reconnect();
    }
  }

  _beat() {
    if (this.socket?.readyState === WebSocket.OPEN) {
      this.socket.send('{"type":"beat"}');
    }
    if (this.socket && Date.now() - this.heard > SILENCE) {
      this._set('reconnecting');
      this.reconnect();
    }
  }
}
