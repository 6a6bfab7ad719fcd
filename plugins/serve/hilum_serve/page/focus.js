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
