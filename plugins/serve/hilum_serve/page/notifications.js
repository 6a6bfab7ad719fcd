// Tells the user that something waits: in the title, and as a notification if allowed.

import { preference, setPreference } from './preferences.js';
import { t } from './strings.js';

const told = new Set();

/** Show the number of waiting items in the title of the page. */
export function showInTitle(title, count) {
  const name = title ? `${title} · hilum` : 'hilum';
  document.title = count ? `(${count}) ${name}` : name;
}

/** Note that the user knows of an item. */
export function noteTold(id) {
  told.add(id);
}

/** Notify about an item once, if the user does not look at the page. */
export function notify(id, title, body, onClick) {
  if (told.has(id) || !preference('notifications') || !document.hidden) {
    return;
  }
  told.add(id);
  if (globalThis.Notification?.permission !== 'granted') {
    return;
  }
  let note;
  try {
    note = new Notification(title, { body, tag: `hilum-${id}` });
  } catch {
    return; // Chrome on Android allows only service workers to notify
  }
  note.onclick = () => {
    window.focus();
    note.close();
    onClick();
  };
}

/** Ask the browser for the permission; return a message if it was not given. */
export async function switchNotifications(on) {
  if (!on) {
    setPreference('notifications', false);
    return '';
  }
  if (!globalThis.Notification) {
    return t('notifications_missing');
  }
  const permission = await Notification.requestPermission();
  setPreference('notifications', permission === 'granted');
  return permission === 'granted' ? '' : t('notifications_denied');
}
