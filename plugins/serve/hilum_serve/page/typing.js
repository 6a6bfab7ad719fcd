// Whether the user is still typing in a field that the page has taken away.
//
// Single keys are commands outside of fields. When a field disappears or loses the focus through
// something that the user did not do, what is typed on would become commands.

const PAUSE = 1_000; // milliseconds without a key after typing, before a key decides something
const LEAVING = ['Escape', 'Tab', 'F6'];

let typing = false; // whether the last key went into a field, or was meant for one
let typedAt = -Infinity; // when, in milliseconds of performance.now()

/** Return whether an element takes typed text. */
export function isField(element) {
  return Boolean(element?.matches?.('input, textarea, select, [contenteditable]'));
}

function noteKey(event) {
  if (LEAVING.includes(event.key)) {
    noteLeaving();
    return;
  }
  const isComposing = event.isComposing || event.keyCode === 229;
  const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
  if (!isComposing && (hasModifier || event.key.length > 1)) {
    if (event.key === 'Enter' && !event.shiftKey && isField(event.target)) {
      typing = false; // the text is complete, but its end may be typed too fast to see what follows
    }
    return;
  }
  if (typing || isField(event.target)) {
    typing = true;
    typedAt = performance.now();
  }
}

function noteLeaving() {
  typing = false;
  typedAt = -Infinity;
}

/** Return whether a key outside of fields belongs to a text that the user is typing. */
export function isTypedOn() {
  return typing;
}

/** Return whether the user typed just now, so that no key may decide anything. */
export function hasJustTyped() {
  return performance.now() - typedAt < PAUSE;
}

// Before all other listeners: fields handle some keys themselves.
addEventListener('keydown', noteKey, true);
addEventListener('pointerdown', noteLeaving, true);
