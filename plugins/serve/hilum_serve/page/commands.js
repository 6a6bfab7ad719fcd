// Draws commands: those that users run after `!`, and those of agents in the background.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { openDialog } from './dialogs.js';
import { formatDuration, oneLine } from './format.js';
import { icon } from './icons.js';
import { t } from './strings.js';
import { showHidden } from './visible.js';

const OUTPUT_SHOWN = 2_000; // characters at the end of an output
const READ_AGAIN = 1_000; // milliseconds between two readings of an output that is shown

/** Return the command in a text that begins with `!`; an empty text if it is a prompt. */
export function readCommand(text) {
  const typed = text.trim();
  return typed.startsWith('!') ? typed.slice(1).trim() : '';
}

/** Draw what marks a text as a command. */
export function drawCommandMark() {
  return html`<span class="tag command-mark" role="status">${icon('terminal')} ${t('command_mark')}</span>`;
}

function outcomeOf(line) {
  if (line.running) {
    return t('state_running');
  }
  if (line.error) {
    return t(line.lost ? 'command_lost' : 'command_not_started');
  }
  return line.stopped ? t('state_stopped') : t('exit_code', { n: line.status ?? 0 });
}

/** Draw the users' commands that run or that the agent will read with the next prompt. */
export function drawShellLines(page) {
  const lines = page.store.state.shell ?? [];
  if (lines.length === 0) {
    return nothing;
  }
  return html`<ul class="shell-lines" aria-label=${t('your_commands')}>${lines.map((line) => html`<li>
    <div class="shell-head"><code class="queue-text">! ${oneLine(line.command, 160)}</code>
      <span class="tag ${line.running ? 'running' : ''}">${outcomeOf(line)}</span>
      ${line.running ? html`<button type="button" class="icon-button" aria-label=${t('stop')} title=${t('stop')} ?disabled=${!page.can('shell')} @click=${() => page.actions.stopShellLine(line.id)}>${icon('stop')}</button>` : nothing}</div>
    ${line.output ? html`<pre class="card-text" tabindex="0" aria-label=${t('live_output')}>${line.output.slice(-OUTPUT_SHOWN)}</pre>` : nothing}
    ${line.error || line.note ? html`<p class="quiet">${line.error || line.note}</p>` : nothing}
  </li>`)}</ul>
  ${lines.every((line) => line.running) ? nothing : html`<p class="quiet">${t('command_is_read')}</p>`}`;
}

/**
 * Show a command in the background and its output, until it has ended or the user leaves.
 *
 * @param {object} command The command; it is cut if it is long.
 * @param {function} read Reads the whole command and the end of its output.
 */
export async function backgroundDialog(command, read) {
  let found = { command: command.command, output: '' };
  let hasEnded = false;
  let timer = 0;
  const opened = openDialog(t('background'), () => html`
    <pre class="card-text" tabindex="0" aria-label=${t('arguments')}>${showHidden(found.command)}</pre>
    <p class="quiet" role="status">${hasEnded ? t('command_has_ended') : t('state_running')}</p>
    <pre class="card-text live" tabindex="0" aria-label=${t('live_output')}>${showHidden(found.output || t('no_output'))}</pre>`, {
    wide: true,
    onOpen: async (again) => {
      const refresh = async () => {
        try {
          found = await read();
        } catch {
          hasEnded = true; // what was read last stays
        }
        again();
        if (!hasEnded) {
          timer = setTimeout(refresh, READ_AGAIN);
        }
      };
      await refresh();
    },
  });
  await opened;
  hasEnded = true;
  clearTimeout(timer);
}

/** Draw the commands in the background, for the panel. */
export function drawBackground(page) {
  const commands = page.store.state.background ?? [];
  if (commands.length === 0) {
    return nothing;
  }
  return html`<section class="panel-section"><h3>${t('background')} <span class="quiet">${commands.length}</span></h3>
    <ul class="background-commands">${commands.map((command) => html`<li>
      <button type="button" class="text-button background-command" title=${command.command} aria-label=${t('show_output', { command: oneLine(command.command, 60) })} @click=${() => page.actions.showBackground(command)}><code class="queue-text">${oneLine(command.command, 160)}</code></button>
      <span class="quiet">${formatDuration(Math.max(Date.now() / 1000 - command.began, 0))}</span>
      <button type="button" class="text-button" aria-label=${t('stop_command', { command: oneLine(command.command, 60) })} ?disabled=${!page.can('stop')} @click=${() => page.actions.stopBackground(command.id)}>${t('stop')}</button></li>`)}</ul></section>`;
}
