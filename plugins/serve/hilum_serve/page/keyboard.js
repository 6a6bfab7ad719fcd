// Single keys outside of inputs, and Escape everywhere.

import { t } from './strings.js';
import { hasJustTyped, isField, isTypedOn } from './typing.js';

const STOP_WITHIN = 1_500; // milliseconds between two presses of Escape that stop the run
let escaped = -Infinity; // when Escape was pressed first, in milliseconds of performance.now()

/** Handle a key of the whole page. */
export function handleKey(event, app) {
  if (event.isComposing || event.keyCode === 229 || event.defaultPrevented) {
    return;
  }
  if (document.querySelector('dialog[open]')) {
    return; // the browser handles dialogs
  }
  const { page } = app;
  const { target } = event;
  if (page && isFindKey(event)) {
    // Pressed again in its field, the key is the browser's own.
    if (!page.ended && !target.classList?.contains('find-input')) {
      event.preventDefault();
      page.find.open();
    }
    return;
  }
  const inInput = isField(target);
  if (event.key === 'Escape') {
    if (!event.repeat) {
      escape(app, inInput, target);
    }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  // An empty input leaves `?` to the sheet of keys.
  if (inInput) {
    return;
  }
  if ((event.key.length === 1 || event.key === 'Enter') && isTypedOn()) {
    event.preventDefault(); // the space would scroll
    app.say(t('keys_off'), t('keys_off_hint'));
    return;
  }
  const handler = KEYS[event.key];
  // A key that is held down decides nothing: its first press may have been for the item before.
  if (!event.repeat && !hasJustTyped() && page?.decisions.key(event.key)) {
    event.preventDefault();
  } else if (handler) {
    event.preventDefault();
    handler(app, page);
  }
}

function isFindKey(event) {
  const isPrimary = /Mac|iP(hone|ad)/.test(navigator.platform) ? event.metaKey : event.ctrlKey;
  return isPrimary && !event.altKey && !event.shiftKey && event.key.toLowerCase() === 'f';
}

function escape(app, inInput, target) {
  const { page } = app;
  const first = escaped;
  escaped = -Infinity;
  if (inInput) {
    const isInBar = target.closest('.decision') !== null;
    target.blur();
    if (isInBar) {
      page?.decisions.leaveField();
    }
    page?.scroller.focus({ preventScroll: true });
  } else if (app.drawer) {
    app.closeDrawers();
  } else if (page?.find.isOpen) {
    page.find.close();
  } else if (page?.decisions.leaveField()) {
    page.scroller.focus({ preventScroll: true });
  } else if (page?.store.isShownAgentRunning() && page.can('stop')) {
    const now = performance.now();
    if (now - first <= STOP_WITHIN) {
      page.actions.stop(page.store.agent);
    } else {
      escaped = now;
      app.say(t('esc_again'), '', 'info', STOP_WITHIN);
    }
  } else if (page?.store.agent) {
    page.showAgent(null);
  }
}

/** Move the focus to the next or previous row; without a focused row, to the last one. */
function moveRow(page, step) {
  if (!page) {
    return;
  }
  const { list } = page;
  const current = document.activeElement?.closest?.('.row');
  const index = current ? list.index.get(current.rowKey) + step : list.keys.length - 1;
  focusRow(page, index);
}

function focusRow(page, index) {
  const { list } = page;
  const key = list.keys[Math.max(0, Math.min(list.keys.length - 1, index))];
  const focus = () => {
    const element = list.mounted.get(key);
    if (element) {
      element.tabIndex = -1;
      element.focus({ preventScroll: true });
      element.scrollIntoView({ block: 'nearest' });
    }
  };
  if (key === undefined) {
    return;
  }
  if (list.mounted.has(key)) {
    focus();
  } else {
    list.scrollToKey(key);
    requestAnimationFrame(() => requestAnimationFrame(focus));
  }
}

const KEYS = {
  '?': (app) => app.openHelp(),
  i: (_app, page) => page?.composer.focus(),
  '/': (_app, page) => page?.composer.setText('/'),
  s: (app) => {
    app.drawer = matchMedia('(max-width: 820px)').matches ? 'left' : '';
    app.again();
    requestAnimationFrame(() => document.getElementById('session-search')?.focus());
  },
  n: (app) => app.newSession(),
  p: (app, page) => page && app.togglePanel(),
  m: (_app, page) => page?.can('model') && page.actions.chooseModel(),
  j: (_app, page) => moveRow(page, 1),
  k: (_app, page) => moveRow(page, -1),
  o: () => document.activeElement?.closest?.('.row')?.querySelector('.fold')?.click(),
  g: (_app, page) => page && focusRow(page, 0),
  G: (_app, page) => {
    page?.list.scrollToEnd();
    if (page) {
      focusRow(page, page.list.keys.length - 1);
    }
  },
  '[': (_app, page) => page?.decisions.move(-1),
  ']': (_app, page) => page?.decisions.move(1),
};
