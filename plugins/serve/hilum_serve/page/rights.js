// Which right each action needs. The server checks the same; the page only shows what is possible.

const RIGHTS = ['watch', 'prompt', 'approve', 'administer'];

const NEEDED = {
  export: 'watch',
  grants: 'watch',
  close: 'prompt',
  compact: 'prompt',
  fork: 'prompt',
  mode: 'prompt',
  model: 'prompt',
  new_session: 'prompt',
  prompt: 'prompt',
  rename: 'prompt',
  retry: 'prompt',
  stop: 'prompt',
  decide: 'approve',
  policy: 'approve',
  redo: 'approve',
  rewind: 'approve',
  shell: 'approve',
  undo: 'approve',
  remove: 'administer',
};

/** Return whether a user with some rights has another right. */
export function includesRight(rights, right) {
  return RIGHTS.includes(right) && RIGHTS.indexOf(rights) >= RIGHTS.indexOf(right);
}

/** Return whether a user with some rights may do something; an unknown action is refused. */
export function allows(rights, action) {
  return includesRight(rights, NEEDED[action]);
}
