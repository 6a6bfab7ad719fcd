// A list that keeps only the rows near the viewport in the document.
//
// Heights are estimated until a row has been measured. Whenever rows change their heights or older
// rows are added, the row at the top edge stays where it is; at the end, the list follows new text.

import { Fenwick } from './fenwick.js';

const OVERSCAN = 400; // pixels above and below the viewport
const TAIL = 48; // pixels; closer to the end than this, the list follows
const GAP = 0;

export class VirtualList {
  /**
   * @param {HTMLElement} scroller The element that scrolls.
   * @param {object} rows How rows are drawn:
   *   create(key) returns an element, update(key, element) draws it again,
   *   remove(key, element) is called when it leaves, estimate(key) returns a height in pixels.
   */
  constructor(scroller, rows) {
    this.scroller = scroller;
    this.rows = rows;
    this.keys = [];
    this.index = new Map();
    this.known = new Map(); // measured heights, by key
    this.mounted = new Map(); // elements, by key
    this.dirty = new Set();
    this.heights = new Fenwick([]);
    this.follows = true;
    this.scheduled = false;
    this.onTop = null;
    this.onFollow = null;
    this.onPaint = null; // called when rows were drawn
    this.content = document.createElement('div');
    this.content.className = 'feed';
    this.content.setAttribute('role', 'feed');
    scroller.append(this.content);
    this.sizes = new ResizeObserver((entries) => this._measure(entries));
    this.viewport = new ResizeObserver(() => this.schedule());
    this.viewport.observe(scroller);
    this.lastTop = 0;
    scroller.addEventListener('scroll', () => this._scrolled(), { passive: true });
  }

  /** Replace the keys. The row at the top edge stays where it is. */
  setKeys(keys) {
    const anchor = this._anchor();
    this.keys = keys;
    this.index = new Map(keys.map((key, index) => [key, index]));
    this.heights = new Fenwick(keys.map((key) => this._height(key)));
    this._restore(anchor);
    this.schedule();
  }

  /** Draw a row again before the next frame. */
  touch(key) {
    this.dirty.add(key);
    this.schedule();
  }

  /** Draw all mounted rows again, for example in another language. */
  touchAll() {
    for (const key of this.mounted.keys()) {
      this.dirty.add(key);
    }
    this.schedule();
  }

  clear() {
    for (const [key, element] of this.mounted) {
      this.sizes.unobserve(element);
      this.rows.remove(key, element);
      element.remove();
    }
    this.mounted.clear();
    this.known.clear();
    this.dirty.clear();
    this.follows = true;
    this.setKeys([]);
  }

  scrollToEnd() {
    this.follows = true;
    this.schedule();
    this.onFollow?.(true);
  }

  scrollToKey(key) {
    const index = this.index.get(key);
    if (index === undefined) {
      return;
    }
    this.follows = false;
    this.scroller.scrollTop = this.heights.offset(index) - 16;
    this.schedule();
    this.onFollow?.(false);
  }

  schedule() {
    if (this.scheduled) {
      return;
    }
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this._paint();
    });
  }

  _height(key) {
    return this.known.get(key) ?? this.rows.estimate(key) + GAP;
  }

  _scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const atEnd = scrollHeight - scrollTop - clientHeight < TAIL;
    // Only the user's own scrolling upwards stops following: the list also scrolls by itself.
    if (atEnd !== this.follows && (atEnd || scrollTop < this.lastTop - 1)) {
      this.follows = atEnd;
      this.onFollow?.(atEnd);
    }
    this.lastTop = scrollTop;
    this.schedule();
  }

  /** Return the first visible row and how much of it is above the top edge. */
  _anchor() {
    if (this.keys.length === 0) {
      return null;
    }
    const top = this.scroller.scrollTop;
    const index = this.heights.find(top);
    return { key: this.keys[index], inside: top - this.heights.offset(index) };
  }

  _restore(anchor) {
    this.content.style.height = `${this.heights.total}px`;
    if (this.follows) {
      this.scroller.scrollTop = this.scroller.scrollHeight;
    } else if (anchor !== null) {
      const index = this.index.get(anchor.key);
      if (index !== undefined) {
        const top = this.heights.offset(index) + anchor.inside;
        if (Math.abs(top - this.scroller.scrollTop) > 0.5) {
          this.scroller.scrollTop = top;
        }
      }
    }
    this.lastTop = this.scroller.scrollTop;
  }

  _measure(entries) {
    const anchor = this._anchor();
    let changed = false;
    for (const entry of entries) {
      const key = entry.target.rowKey;
      const index = this.index.get(key);
      const height = entry.borderBoxSize[0].blockSize + GAP;
      if (index === undefined || this.mounted.get(key) !== entry.target) {
        continue;
      }
      if (Math.abs(this.heights.heights[index] - height) > 0.5) {
        this.heights.set(index, height);
        changed = true;
      }
      this.known.set(key, height);
    }
    if (!changed) {
      return;
    }
    this._restore(anchor);
    this._position();
    this.schedule();
  }

  _position() {
    const total = this.keys.length;
    for (const [key, element] of this.mounted) {
      const index = this.index.get(key);
      if (index === undefined) {
        continue;
      }
      const top = this.heights.offset(index);
      if (element.rowTop !== top) {
        element.rowTop = top;
        element.style.transform = `translateY(${top}px)`;
      }
      if (element.rowIndex !== index || element.rowTotal !== total) {
        element.rowIndex = index;
        element.rowTotal = total;
        element.setAttribute('aria-posinset', String(index + 1));
        element.setAttribute('aria-setsize', String(total));
      }
    }
  }

  _paint() {
    const top = this.scroller.scrollTop;
    const bottom = top + this.scroller.clientHeight;
    const first = this.heights.find(top - OVERSCAN);
    const last = this.heights.find(bottom + OVERSCAN);
    const wanted = new Set(this.keys.slice(first, last + 1));
    const focused = document.activeElement;
    for (const [key, element] of this.mounted) {
      const holdsFocus = element.contains(focused) && this.index.has(key);
      if (!wanted.has(key) && !holdsFocus) {
        this.sizes.unobserve(element);
        this.rows.remove(key, element);
        element.remove();
        this.mounted.delete(key);
        this.dirty.delete(key);
      }
    }
    // Rows stay in order in the document, for the keyboard and for screen readers.
    let before = null;
    for (const key of wanted) {
      let element = this.mounted.get(key);
      if (element === undefined) {
        element = this.rows.create(key);
        element.rowKey = key;
        element.classList.add('row');
        this.mounted.set(key, element);
        const next = before === null ? this.content.firstChild : before.nextSibling;
        this.content.insertBefore(element, next);
        this.sizes.observe(element);
      } else if (this.dirty.has(key)) {
        this.rows.update(key, element);
      }
      before = element;
    }
    this.dirty.clear();
    this._position();
    this.onPaint?.();
    if (this.follows) {
      const end = this.scroller.scrollHeight - this.scroller.clientHeight;
      if (Math.abs(this.scroller.scrollTop - end) > 0.5) {
        this.scroller.scrollTop = end;
        this.lastTop = this.scroller.scrollTop;
      }
    }
    if (top < 600) {
      this.onTop?.();
    }
  }
}
