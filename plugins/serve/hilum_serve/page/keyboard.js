// Single keys outside of inputs, and Escape everywhere.

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
  const inInput = target.matches?.('input, textarea, select, [contenteditable]');
  if (event.key === 'Escape') {
    escape(app, inInput, target);
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  // An empty input leaves `?` to the sheet of keys.
  if (inInput) {
    return;
  }
  const handler = KEYS[event.key];
  // A key that is held down decides nothing: its first press may have been for the item before.
  if (!event.repeat && page?.decisions.key(event.key)) {
    event.preventDefault();
  } else if (handler) {
    event.preventDefault();
    handler(app, page);
  }
}

function escape(app, inInput, target) {
  const { page } = app;
  if (app.drawer) {
    app.closeDrawers();
  } else if (page?.decisions.mode) {
    page.decisions._setMode('');
  } else if (page?.store.isShownAgentRunning() && (!inInput || target.value === '')) {
    page.actions.stop(page.store.agent);
  } else if (inInput) {
    target.blur();
    page?.scroller.focus({ preventScroll: true });
  } else if (page?.store.agent) {
    page.showAgent(null);
  }
}

function moveRow(page, step) {
  if (!page) {
    return;
  }
  const { list } = page;
  const current = document.activeElement?.closest?.('.row');
  let index = current ? list.index.get(current.rowKey) + step : list.keys.length - 1;
  index = Math.max(0, Math.min(list.keys.length - 1, index));
  const key = list.keys[index];
  const focus = () => {
    const element = list.mounted.get(key);
    if (element) {
      element.tabIndex = -1;
      element.focus({ preventScroll: true });
      element.scrollIntoView({ block: 'nearest' });
    }
  };
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
  m: (_app, page) => page?.actions.chooseModel(),
  j: (_app, page) => moveRow(page, 1),
  k: (_app, page) => moveRow(page, -1),
  o: () => document.activeElement?.closest?.('.row')?.querySelector('.fold')?.click(),
  g: (_app, page) => page && page.list.keys.length && page.list.scrollToKey(page.list.keys[0]),
  G: (_app, page) => page?.list.scrollToEnd(),
  '[': (_app, page) => page?.decisions.move(-1),
  ']': (_app, page) => page?.decisions.move(1),
};
