// Numbers, times and one-line descriptions.

import { language, t } from './strings.js';
import { showHidden } from './visible.js';

/** Return a number of tokens, such as `12.3k`. */
export function formatTokens(count) {
  if (count >= 1_000_000) {
    return `${(count / 1_000_000).toFixed(1)}M`;
  }
  if (count >= 10_000) {
    return `${Math.round(count / 1_000)}k`;
  }
  return count >= 1_000 ? `${(count / 1_000).toFixed(1)}k` : String(count);
}

/** Return a size, such as `12 KB`. */
export function formatBytes(count) {
  if (count < 1_000) {
    return `${count} B`;
  }
  return count < 1_000_000 ? `${Math.round(count / 1_000)} KB` : `${(count / 1_000_000).toFixed(1)} MB`;
}

/** Return an amount in dollars. */
export function formatCost(cost) {
  if (cost === null || cost === undefined) {
    return '–'; // the price of the model is not known
  }
  if (cost === 0) {
    return '$0';
  }
  return `$${cost < 0.01 ? cost.toFixed(4) : cost.toFixed(2)}`;
}

/** Return a duration, such as `1.2 s` or `3 min 5 s`. */
export function formatDuration(seconds) {
  if (!seconds) {
    return '';
  }
  if (seconds < 1) {
    return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  }
  if (seconds < 60) {
    return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    return `${minutes} min ${Math.round(seconds % 60)} s`;
  }
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Return how long ago a Unix time was. */
export function formatAgo(at) {
  const seconds = Date.now() / 1000 - at;
  if (!at || seconds < 60) {
    return t('just_now');
  }
  const formatter = new Intl.RelativeTimeFormat(language(), { style: 'narrow' });
  if (seconds < 3600) {
    return formatter.format(-Math.floor(seconds / 60), 'minute');
  }
  if (seconds < 86_400) {
    return formatter.format(-Math.floor(seconds / 3600), 'hour');
  }
  if (seconds < 86_400 * 14) {
    return formatter.format(-Math.floor(seconds / 86_400), 'day');
  }
  return new Date(at * 1000).toLocaleDateString(language());
}

/** Return a Unix time as the time of day. */
export function formatTime(at) {
  return new Date(at * 1000).toLocaleTimeString(language(), { hour: '2-digit', minute: '2-digit' });
}

/** Return the last part of a path. */
export function baseName(path) {
  return String(path).replace(/\/+$/, '').split('/').pop() || String(path);
}

/** Return text on one line, cut to a length. */
export function oneLine(text, limit = 200) {
  const flat = showHidden(String(text ?? '').slice(0, limit * 20)).replace(/\s+/g, ' ').trim();
  return flat.length > limit ? `${flat.slice(0, limit - 1)}…` : flat;
}

/** Return the first of some names, and the number of the others. */
export function listNames(names, limit = 3) {
  const shown = names.slice(0, limit).map(showHidden).join(', ');
  const more = names.length - limit;
  return more > 0 ? t('names_and_more', { names: shown, n: more }) : shown;
}

/** Return parsed JSON, or null for invalid JSON and anything but an object. */
export function parseObject(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
