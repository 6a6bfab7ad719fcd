// The state of a tool call, as the page shows it.

import { baseName, oneLine, parseObject } from './format.js';
import { translate } from './strings.js';

const REFUSALS = ['E_REJECTED', 'E_APPROVAL_TIMEOUT', 'E_DENIED', 'E_BLOCKED', 'E_ADDRESS'];
const STOPS = ['E_INTERRUPTED', 'E_STOPPED'];

/** Return streaming, waiting, pending, running, completed, failed, rejected or stopped. */
export function cardState(card) {
  const code = card.result?.code ?? '';
  if (card.state === 'interrupted' || STOPS.includes(code)) {
    return 'stopped';
  }
  if (code === 'E_REJECTED' || code === 'E_APPROVAL_TIMEOUT') {
    return 'rejected';
  }
  if (REFUSALS.includes(code) && !card.began) {
    return 'rejected';
  }
  return card.state === 'waiting_for_approval' ? 'waiting' : card.state;
}

/** Return the text of a result; why hilum refused a call, in the language of the page. */
export function resultText(card) {
  if (card.user_text) {
    return translate(card.user_text, card.parts?.result);
  }
  const refusal = translate('', card.parts?.result);
  if (refusal) {
    return `${card.result.code}: ${refusal}`;
  }
  const parts = card.result?.parts ?? [];
  return parts
    .filter((part) => part.type === 'text' || typeof part.text === 'string')
    .map((part) => part.text ?? '')
    .join('\n');
}

/** Return the arguments that the call runs with, as JSON text. */
export function argumentsOf(card) {
  return card.rewritten || card.call?.arguments || '';
}

const MAIN_ARGUMENTS = [
  'command', 'path', 'file_path', 'pattern', 'query', 'url', 'description', 'name', 'title',
  'prompt', 'question', 'text',
];

/** Return the most telling argument on one line. */
export function subjectOf(argumentsText) {
  const values = parseObject(argumentsText);
  if (values === null) {
    return oneLine(argumentsText, 160);
  }
  for (const name of MAIN_ARGUMENTS) {
    if (typeof values[name] === 'string' && values[name]) {
      return oneLine(values[name], 160);
    }
  }
  const pairs = Object.entries(values).map(
    ([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return oneLine(pairs.join(', '), 160);
}

/** Return the file that a call writes; empty if it writes none. */
export function fileOf(card) {
  const values = parseObject(argumentsOf(card));
  const path = values?.path ?? values?.file_path;
  return typeof path === 'string' ? path : '';
}

/** Return the result in a few words. */
export function summaryOf(card) {
  const text = resultText(card).trim();
  if (!text) {
    return '';
  }
  const code = card.result?.code;
  const plain = code && text.startsWith(`${code}: `) ? text.slice(code.length + 2) : text;
  return oneLine(plain.split('\n', 1)[0], 140);
}

/** Return the unified diff of a call; empty if it changed no file. */
export function diffOf(card) {
  const diff = card.result?.data?.diff;
  return typeof diff === 'string' ? diff : '';
}

const HUNK = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/;

/** Return the numbers of added and removed lines of a unified diff. */
export function countLines(diff) {
  let added = 0;
  let removed = 0;
  // Lines of the current hunk that are left. Only they are changes: a removed line `-- x` looks like
  // the header of a file.
  let oldLeft = 0;
  let newLeft = 0;
  for (const line of diff.split('\n')) {
    const header = oldLeft <= 0 && newLeft <= 0 ? HUNK.exec(line) : null;
    if (header) {
      oldLeft = Number(header[1] ?? 1);
      newLeft = Number(header[2] ?? 1);
    } else if (oldLeft <= 0 && newLeft <= 0) {
      continue;
    } else if (line.startsWith('+')) {
      added += 1;
      newLeft -= 1;
    } else if (line.startsWith('-')) {
      removed += 1;
      oldLeft -= 1;
    } else if (!line.startsWith('\\')) {
      oldLeft -= 1;
      newLeft -= 1;
    }
  }
  return { added, removed };
}

/** Return arguments as readable text: one `name: value` per line, long texts as they are. */
export function readableArguments(text) {
  const values = parseObject(text);
  if (values === null) {
    return text;
  }
  return Object.entries(values)
    .map(([name, value]) => {
      const shown = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
      return shown.includes('\n') ? `${name}:\n${shown}` : `${name}: ${shown}`;
    })
    .join('\n');
}

/** Return a short name for a file in titles. */
export { baseName };
