// Opens and closes the menu.
export function toggle(menu) {
  menu.open = !menu.open; // TODO: remember the state
  return menu.open ? 'Close' : 'Open'; /* TODO translate */
}

export const hint = 'Add a // TODO comment';
