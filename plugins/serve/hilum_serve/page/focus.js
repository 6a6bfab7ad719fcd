// Keeps the keyboard focus in the page when the element that has it disappears.

/**
 * Draw an element; if what was focused inside has gone or was disabled, move the focus.
 *
 * @param {HTMLElement} element What is drawn.
 * @param {function} draw Draws it.
 * @param {HTMLElement} instead Where the focus goes.
 */
export function keepFocus(element, draw, instead) {
  const focused = document.activeElement;
  const wasInside = element.contains(focused);
  draw();
  const isLost = !element.contains(focused) || focused.disabled;
  const hasMoved = ![focused, document.body].includes(document.activeElement);
  if (wasInside && isLost && !hasMoved) {
    if (instead.tabIndex < 0) {
      instead.tabIndex = -1; // makes it focusable, outside of the order of Tab
    }
    instead.focus({ preventScroll: true });
  }
}

/** Focus the conversation, or else the content, if nothing is focused. */
export function restoreFocus() {
  if (document.activeElement === document.body) {
    (document.querySelector('.scroller') ?? document.getElementById('content'))?.focus({ preventScroll: true });
  }
}

let last = null; // the element that was focused last
let area = ''; // the part of the page that it was in

const AREAS = ['dialog', '.composer', '.panel', '.empty', '.find-place'];
const SUCCESSORS = {
  dialog: ['dialog[open] .dialog-body'],
  '.composer': ['.composer textarea:enabled'],
  '.panel': ['.panel'],
  '.empty': ['.composer textarea:enabled'],
};
const ANYWHERE = ['.empty .button', '.scroller', '#content', '.signed-out .button'];

const isVisible = (element) => element.getClientRects().length > 0;

addEventListener('focusin', (event) => {
  last = event.target;
  area = AREAS.find((selector) => last.closest?.(selector)) ?? '';
}, true);

/** Focus something near if what was focused has gone, is hidden or was disabled. */
export function repairFocus() {
  const focused = document.activeElement ?? document.body;
  const isLost = last !== null && (!last.isConnected || last.disabled || !isVisible(last));
  if (!isLost || (focused !== document.body && focused !== last)) {
    return;
  }
  // On a touch screen, the input would open the keyboard.
  const isTouch = matchMedia('(pointer: coarse)').matches;
  const near = (SUCCESSORS[area] ?? []).filter((selector) => !isTouch || !selector.includes('textarea'));
  const next = [...near, ...ANYWHERE]
    .map((selector) => document.querySelector(selector))
    .find((element) => element !== null && isVisible(element));
  if (next === undefined) {
    return;
  }
  if (next.tabIndex < 0) {
    next.tabIndex = -1; // makes it focusable, outside of the order of Tab
  }
  next.focus({ preventScroll: true });
}
