// The input: drafts, images, slash commands, completion of files, and the queue.

import { html, nothing, render } from './vendor/lit-html/lit-html.js';
import { drawCommandMark, drawShellLines, readCommand } from './commands.js';
import { repairFocus } from './focus.js';
import { oneLine } from './format.js';
import { icon } from './icons.js';
import { readDraft, writeDraft } from './preferences.js';
import { t } from './strings.js';

const MAX_IMAGES = 10;
const MAX_IMAGE = 8_000_000; // bytes
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const MAX_HEIGHT = 240; // pixels of the input
const COMPLETE_AFTER = 80; // milliseconds
const isTouch = () => matchMedia('(pointer: coarse)').matches;

export class Composer {
  /** @param {HTMLElement} root Where to draw. @param {object} page store, actions and session. */
  constructor(root, page) {
    this.root = root;
    this.page = page;
    this.images = [];
    this.menu = null; // {items, active, start, end}
    this.busy = false;
    this.history = [];
    this.recalled = -1;
    this.unsent = ''; // what was typed before an earlier prompt was recalled
    this.asked = null;
    this.wasCommand = false; // whether the mark of a command is shown
    root.addEventListener('dragover', (event) => event.preventDefault());
    root.addEventListener('drop', (event) => {
      event.preventDefault();
      this._addFiles(event.dataTransfer.files);
    });
  }

  get input() {
    return this.root.querySelector('textarea');
  }

  focus() {
    this.input?.focus();
  }

  /** Show another session's draft. */
  open(session) {
    this.images = [];
    this.menu = null;
    this.draw();
    this.input.value = readDraft(session);
    this.draw();
    this._fit();
  }

  setText(text) {
    this.input.value = text;
    this._changed();
    this.focus();
  }

  draw() {
    const { store } = this.page;
    const running = store.isShownAgentRunning();
    const queue = store.queue();
    const steering = store.steering();
    const may = this.page.app.may('prompt');
    const isCommand = this._isCommand();
    this.wasCommand = isCommand;
    render(html`
      ${drawShellLines(this.page)}
      ${queue.length + steering.length ? html`<ul class="queue" aria-label=${t('queue')}>
        ${steering.map(([id, text]) => html`<li><span class="tag">${t('steering')}</span><span class="queue-text">${oneLine(text, 160)}</span>
          <button type="button" class="icon-button" aria-label=${t('take_back')} title=${t('take_back')} ?disabled=${!may} @click=${() => this.page.actions.withdraw(id, text)}>${icon('close')}</button></li>`)}
        ${queue.map(([run, text]) => html`<li><span class="tag">${t('queued')}</span><span class="queue-text">${oneLine(text, 160)}</span>
          <button type="button" class="icon-button" aria-label=${t('take_back')} title=${t('take_back')} ?disabled=${!may} @click=${() => this.page.actions.takeBack(run, text)}>${icon('close')}</button></li>`)}
      </ul>` : nothing}
      ${this._drawMenu()}
      <div class="input-box ${isCommand ? 'command' : ''}">
        ${isCommand ? drawCommandMark() : nothing}
        ${this.images.length ? html`<ul class="images">${this.images.map((image) => html`<li>
          <img src=${image.url} alt=${image.name}>
          <button type="button" class="icon-button" aria-label=${t('remove_image', { name: image.name })} @click=${() => { this.images = this.images.filter((each) => each !== image); this.draw(); }}>${icon('close')}</button></li>`)}</ul>` : nothing}
        <textarea rows="1" dir="auto" enterkeyhint=${isTouch() ? 'enter' : 'send'} autocomplete="off"
          aria-label=${t('prompt')} placeholder=${!may ? t('only_watch') : running ? t('prompt_running') : t('prompt_hint')} ?disabled=${!may}
          role="combobox" aria-autocomplete="list" aria-expanded=${String(this.menu !== null)} aria-controls="composer-menu"
          aria-activedescendant=${this.menu ? `menu-${this.menu.active}` : nothing}
          @input=${() => this._changed()} @keydown=${(event) => this._key(event)} @paste=${(event) => this._paste(event)}
          @click=${() => this._complete()}></textarea>
        <div class="input-actions">
          <label class="icon-button ${may ? '' : 'off'}" title=${t('add_images')}><input type="file" ?disabled=${!may} class="visually-hidden" accept=${IMAGE_TYPES.join(',')} multiple aria-label=${t('add_images')} @change=${(event) => { this._addFiles(event.target.files); event.target.value = ''; }}>${icon('image')}</label>
          ${running ? html`<button type="button" class="send stop" aria-label=${t('stop')} title=${`${t('stop')} (Esc Esc)`} ?disabled=${!this.page.can('stop')} @click=${() => this.page.actions.stop(store.agent)}>${icon('stop')}</button>` : nothing}
          <button type="button" class="send" aria-label=${running ? t('steer') : t('send')} title=${running ? t('steer_hint') : t('send')} ?disabled=${this.busy || !may} @click=${() => this.submit()}>${icon('send')}</button>
        </div>
      </div>`, this.root);
    repairFocus();
  }

  _drawMenu() {
    if (!this.menu) {
      return nothing;
    }
    const { items, active } = this.menu;
    return html`<ul class="menu composer-menu" id="composer-menu" role="listbox" aria-label=${t('suggestions')}>
      ${items.map((item, index) => html`<li id=${`menu-${index}`} role="option" aria-selected=${String(index === active)}
        @mousedown=${(event) => { event.preventDefault(); this._take(index); }}>
        <span class="menu-name">${item.label}</span><span class="quiet menu-about">${item.about ?? ''}</span></li>`)}
    </ul>`;
  }

  /** Return whether the text is a command that the user may run. */
  _isCommand() {
    return readCommand(this.input?.value ?? '') !== '' && this.images.length === 0 && this.page.can('shell');
  }

  _changed() {
    if (this._isCommand() !== this.wasCommand) {
      this.draw();
    }
    this._fit();
    writeDraft(this.page.session, this.input.value);
    this._complete();
  }

  _fit() {
    const { input } = this;
    input.style.height = 'auto';
    input.style.height = `${Math.min(input.scrollHeight, MAX_HEIGHT)}px`;
  }

  _complete() {
    const { input } = this;
    const before = input.value.slice(0, input.selectionStart);
    const slash = /^\/([\w:.-]*)$/.exec(before);
    const file = /(?:^|\s)@([^\s@]*)$/.exec(before);
    this.asked?.abort();
    if (slash) {
      const found = this.page.actions.slashCommands(slash[1]);
      this._setMenu(found, 0, before.length);
    } else if (file) {
      const controller = new AbortController();
      this.asked = controller;
      setTimeout(async () => {
        if (controller.signal.aborted) {
          return;
        }
        const found = await this.page.actions.completeFiles(file[1], controller.signal);
        if (found && !controller.signal.aborted) {
          const items = found.map((path) => ({ label: path, insert: `@${path} ` }));
          this._setMenu(items, before.length - file[1].length - 1, before.length);
        }
      }, COMPLETE_AFTER);
    } else {
      this._setMenu([], 0, 0);
    }
  }

  _setMenu(items, start, end) {
    const had = this.menu !== null;
    this.menu = items.length ? { items: items.slice(0, 12), active: 0, start, end } : null;
    if (had || this.menu) {
      this.draw();
    }
  }

  _take(index) {
    const { items, start, end } = this.menu;
    const { input } = this;
    input.setRangeText(items[index].insert, start, end, 'end');
    this.menu = null;
    this.draw();
    this._fit();
    writeDraft(this.page.session, input.value);
    input.focus();
  }

  _key(event) {
    // While an input method composes a word, Enter confirms the word.
    if (event.isComposing || event.keyCode === 229) {
      return;
    }
    if (this.menu && this._menuKey(event)) {
      event.preventDefault();
      return;
    }
    const { input } = this;
    if (event.key === 'Enter' && !event.shiftKey && !event.altKey && (!isTouch() || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.submit();
    } else if (event.key === 'ArrowUp' && input.selectionStart === 0 && input.selectionEnd === 0) {
      this._recall(1, event);
    } else if (event.key === 'ArrowDown' && input.selectionStart === input.value.length && this.recalled >= 0) {
      this._recall(-1, event);
    }
  }

  _menuKey(event) {
    const { menu } = this;
    const count = menu.items.length;
    switch (event.key) {
      case 'ArrowDown':
        menu.active = (menu.active + 1) % count;
        break;
      case 'ArrowUp':
        menu.active = (menu.active + count - 1) % count;
        break;
      case 'Tab':
        this._take(menu.active);
        return true;
      case 'Enter': {
        const typed = this.input.value.slice(menu.start, menu.end);
        const { insert } = menu.items[menu.active];
        if (insert.trim() === typed.trim()) {
          this.menu = null;
          this.draw();
          return false; // the command is complete: Enter runs it
        }
        this._take(menu.active);
        return true;
      }
      case 'Escape':
        event.stopPropagation();
        this.menu = null;
        break;
      default:
        return false;
    }
    this.draw();
    return true;
  }

  _recall(step, event) {
    const prompts = this.page.store.prompts();
    const next = this.recalled + step;
    if (next < -1 || next >= prompts.length) {
      return;
    }
    event.preventDefault();
    if (this.recalled < 0) {
      this.unsent = this.input.value; // comes back with the arrow down
    }
    this.recalled = next;
    this.input.value = next < 0 ? this.unsent : prompts[prompts.length - 1 - next];
    this._fit();
    this.input.setSelectionRange(0, 0);
  }

  _paste(event) {
    const files = [...event.clipboardData.files].filter((file) => IMAGE_TYPES.includes(file.type));
    if (files.length) {
      event.preventDefault();
      this._addFiles(files);
    }
  }

  async _addFiles(files) {
    for (const file of files) {
      if (!IMAGE_TYPES.includes(file.type)) {
        this.page.say(t('not_an_image', { name: file.name }));
      } else if (file.size > MAX_IMAGE || this.images.length >= MAX_IMAGES) {
        this.page.say(t('image_too_large', { name: file.name }));
      } else {
        const url = await readAsDataUrl(file);
        this.images = [...this.images, { url, name: file.name || 'image', type: file.type }];
      }
    }
    this.draw();
    this.focus();
  }

  async submit() {
    const { value } = this.input;
    const text = value.trim();
    if ((!text && this.images.length === 0) || this.busy) {
      return;
    }
    const sentImages = this.images;
    const images = sentImages.map(({ url, type }) => ({
      media_type: type,
      data: url.slice(url.indexOf(',') + 1),
    }));
    this.busy = true;
    this.draw();
    let sent = false;
    try {
      sent = await this.page.actions.submit(text, images);
    } finally {
      this.busy = false;
    }
    if (sent) {
      // The user may have typed more meanwhile.
      const current = this.input.value;
      const rest = current.startsWith(value) ? current.slice(value.length).trimStart() : current;
      this.input.value = rest;
      this.images = this.images.filter((image) => !sentImages.includes(image));
      this.recalled = -1;
      this.menu = null;
      writeDraft(this.page.session, rest);
      this._fit();
    }
    this.draw();
    this.focus();
  }
}

function readAsDataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
