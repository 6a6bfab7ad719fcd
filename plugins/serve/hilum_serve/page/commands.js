// Draws commands: those that users run after `!`, and those of agents in the background.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { formatDuration, oneLine } from './format.js';
import { icon } from './icons.js';
import { t } from './strings.js';

const OUTPUT_SHOWN = 2_000; // characters at the end of an output

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
    return t('command_not_started');
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

/** Draw the commands in the background, for the panel. */
export function drawBackground(page) {
  const commands = page.store.state.background ?? [];
  if (commands.length === 0) {
    return nothing;
  }
  return html`<section class="panel-section"><h3>${t('background')} <span class="quiet">${commands.length}</span></h3>
    <ul class="background-commands">${commands.map((command) => html`<li>
      <code class="queue-text" title=${command.command}>${oneLine(command.command, 160)}</code>
      <span class="quiet">${formatDuration(Math.max(Date.now() / 1000 - command.began, 0))}</span>
      <button type="button" class="text-button" aria-label=${t('stop_command', { command: oneLine(command.command, 60) })} ?disabled=${!page.can('stop')} @click=${() => page.actions.stopBackground(command.id)}>${t('stop')}</button></li>`)}</ul></section>`;
}
