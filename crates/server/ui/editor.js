/** Edits one memory. Nothing that was typed is lost: a draft stays in the browser until it is saved or discarded. */
import { deleteMemories, folderOptions, fullPath, moveMemory, pinMemories } from './actions.js';
import { api, ApiError, messageOf } from './api.js';
import { conflictPanel } from './conflict.js';
import { confirmDialog, dialogOpen, toast } from './dialog.js';
import { drafts } from './drafts.js';
import { h, hiddenCounts, replace, visible } from './dom.js';
import { ago, author, bytes, dateTime, fileName, shortPath, TRUST } from './format.js';
import { compose, parse } from './frontmatter.js';
import { icon } from './icons.js';
import { preview } from './markdown.js';
import { emptyState } from './page.js';
import { go, href, memoryHref } from './router.js';
import { store } from './store.js';

const DRAFT_DELAY_MS = 250;
const BYTES_MAX = 102_400;

export class Editor {
	/** The stored memory; without one, the revision is `null`. @type {{text: string, revision: string | null}} */
	#base = { text: '', revision: null };
	#document = parse('');
	/** The values put into the fields, and those read back: a browser changes some characters. */
	#filled = { text: '', held: [''] };
	/** Whether the user has typed here. */
	#typed = false;
	/** The draft that was stored from here. */
	#stored = '';
	#saving = false;
	#disposed = false;
	/** Whether the person has to choose between versions; until then, events change nothing here. */
	#conflict = false;
	/** Whether the memory was there, so that its absence means that it was deleted. */
	#seen = false;
	#timer = 0;
	/** @type {(() => void)[]} */ #off = [];

	/** @param {string} path `''` for a new memory @param {string} [folder] where a new one goes @param {string} [at] what to begin with: `description`, or a line */
	constructor(path, folder = '', at = '') {
		this.path = path;
		this.at = at;
		this.isNew = !path;
		/** @param {string} id @param {Record<string, unknown>} [props] */
		const input = (id, props) => h('input', { id, autocomplete: 'off', dir: 'auto', oninput: () => this.#changed(), ...props });
		/** @param {string} label @param {HTMLInputElement} field @param {...T.Child} more */
		const labelled = (label, field, ...more) => h('div.field.stack', h('label', { for: field.id }, label), field, more);
		this.target = input('field-path', { class: 'mono', value: folder || 'global/', list: 'folders', spellcheck: 'false' });
		this.name = input('field-name');
		this.type = input('field-type', { list: 'types' });
		this.description = input('field-description', { maxlength: 200 });
		this.text = h('textarea.text', { spellcheck: 'false', dir: 'auto', 'aria-label': 'Text', oninput: () => this.#changed() });
		this.shown = h('div.preview', { hidden: true, tabindex: 0, role: 'region', 'aria-label': 'Preview' });
		this.banners = h('div.banners');
		this.notice = h('div.notices', { role: 'status' });
		this.status = h('span.save-status', { role: 'status' });
		this.size = h('span.muted');
		this.hidden = h('span.warning-text');
		this.save = h('button.primary', { type: 'submit' }, 'Save');
		this.discard = h('button', { hidden: true, onclick: () => this.#discard() }, 'Discard');
		this.title = h('h2.editor-title', { dir: 'auto' });
		this.tools = h('div.bar');
		this.about = h('p.editor-about.muted');
		this.edit = h('button.segment', { 'aria-pressed': 'true', onclick: () => this.#preview(false) }, 'Edit');
		this.look = h('button.segment', { 'aria-pressed': 'false', onclick: () => this.#preview(true) }, 'Preview');
		this.fields = h('div.fields.stack', labelled('Name', this.name),
			labelled('Type', this.type, h('datalist', { id: 'types' }, ['user', 'feedback', 'project', 'reference'].map((value) => h('option', { value })))),
			labelled('Description', this.description));
		this.back = h('a.icon-button.back', { href: href('memories'), 'aria-label': 'Back to the list' }, icon('back'));
		this.form = h('form.editor', {
			onsubmit: (event) => {
				event.preventDefault();
				this.saveNow();
			},
		},
		h('header.editor-head.bar', this.back, this.title, this.tools, this.about), this.banners, this.notice,
		this.isNew ? labelled('Path', this.target, folderOptions(), h('p.hint', 'Such as global/user/editor.md')) : null,
		this.fields,
		h('div.text-head.bar', h('div.segments', { role: 'group', 'aria-label': 'View' }, this.edit, this.look), this.hidden, this.size),
		this.text, this.shown, h('footer.editor-foot.bar', this.status, this.discard, this.save));
		this.element = h('section.detail-pane', { 'aria-label': path ? shortPath(path) : 'New memory' }, this.form);
		const flush = () => this.#storeDraft();
		/** @param {Event} event */
		const ask = (event) => {
			if (this.dirty) event.preventDefault();
		};
		addEventListener('pagehide', flush);
		addEventListener('beforeunload', ask);
		this.#off.push(() => removeEventListener('pagehide', flush), () => removeEventListener('beforeunload', ask), store.on('memories', () => this.#compare()),
			store.on('changes', (data) => this.#moved(data)));
		if (this.isNew) this.#begin();
		else this.#load();
	}

	dispose() {
		this.#storeDraft();
		this.#disposed = true;
		clearTimeout(this.#timer);
		for (const off of this.#off) off();
	}

	get dirty() {
		return this.#text() !== this.#base.text;
	}

	#held() {
		return [this.name.value, this.type.value, this.description.value, this.text.value];
	}

	/** Fields that were not edited stay byte for byte. */
	#text() {
		const held = this.#held();
		return held.every((value, i) => value === this.#filled.held[i]) ? this.#filled.text : compose(this.#document, { name: this.name.value, type: this.type.value, description: this.description.value }, this.text.value);
	}

	/** @param {string} text */
	#fill(text) {
		this.#document = parse(text);
		const { fields, body, simple } = this.#document;
		this.name.value = fields.name;
		this.type.value = fields.type;
		this.description.value = fields.description;
		this.text.value = body;
		this.fields.hidden = !simple;
		this.#filled = { text, held: this.#held() };
		if (!this.shown.hidden) this.#preview(true);
		this.#changed(false);
	}

	#begin() {
		this.title.textContent = 'New memory';
		this.about.textContent = 'A memory is a Markdown file. Agents see its name and description first.';
		this.#filled = { text: '', held: this.#held() };
		const draft = drafts.get('');
		if (draft) {
			this.target.value = draft.path ?? this.target.value;
			this.#restore(draft);
		}
		this.#changed(false);
		setTimeout(() => {
			this.target.focus();
			this.target.setSelectionRange(this.target.value.length, this.target.value.length);
		});
	}

	/** @param {T.Draft} draft */
	#restore(draft) {
		this.#typed = true;
		this.#stored = draft.text;
		this.#fill(draft.text);
		this.#note('Your unsaved text was restored.');
	}

	async #load() {
		this.title.textContent = fileName(this.path);
		this.#setLoading(true);
		const draft = drafts.get(this.path);
		try {
			const memory = await api.read(this.path);
			if (this.#disposed) return;
			this.#base = memory;
			this.#seen = true;
			if (draft && draft.text !== memory.text) {
				this.#restore(draft);
				if (draft.revision !== memory.revision) {
					this.#base = { text: draft.base ?? '', revision: draft.revision ?? null };
					await this.#showConflict();
				}
			} else {
				if (draft) drafts.drop(this.path);
				this.#fill(memory.text);
			}
			store.clearEdit(this.path);
			if (this.at === 'description' && this.#document.simple) this.description.focus();
			else if (Number(this.at)) this.#goToLine(this.#text(), Number(this.at));
		} catch (error) {
			if (this.#disposed) return;
			const missing = error instanceof ApiError && error.code === 'not_found';
			if (missing && draft) {
				this.#restore(draft);
				this.#base = { text: draft.base ?? '', revision: draft.revision ?? null };
				this.#seen = true;
				this.#changed(false);
				this.#showDeleted();
			} else if (missing) {
				replace(this.element, this.back, emptyState('memories', 'This memory is not there', shortPath(this.path),
					h('a.button', { href: href('history', shortPath(this.path)) }, 'Show its history')));
			} else {
				replace(this.element, this.back, emptyState('warning', 'This memory cannot be shown', messageOf(error),
					h('button', { onclick: () => go(location.hash, true) }, 'Try again')));
			}
		}
		this.#setLoading(false);
	}

	/** Nothing can be typed that the memory, once loaded, would replace. @param {boolean} loading */
	#setLoading(loading) {
		this.form.classList.toggle('loading', loading);
		for (const field of [this.name, this.type, this.description, this.text]) field.readOnly = loading;
	}

	/** @param {boolean} [typed] */
	#changed(typed = true) {
		const text = this.#text();
		const dirty = text !== this.#base.text;
		const size = new TextEncoder().encode(text).length;
		this.size.textContent = bytes(size) + (size > BYTES_MAX * 0.8 ? ` of ${bytes(BYTES_MAX)}` : '');
		this.size.classList.toggle('error-text', size > BYTES_MAX);
		const counts = [...hiddenCounts(text)].map(([name, n]) => `${name} (${n}×)`);
		replace(this.hidden, counts.length ? [icon('warning'), `Invisible characters: ${counts.slice(0, 3).join(', ')}${counts.length > 3 ? ' …' : ''}`] : null);
		this.save.disabled = this.#saving || (!dirty && !this.isNew);
		this.discard.hidden = !dirty;
		if (!this.#saving) this.#say(dirty ? 'Unsaved changes' : '');
		if (!this.isNew) this.#head();
		if (!typed) return;
		this.#typed = true;
		clearTimeout(this.#timer);
		this.#timer = setTimeout(() => this.#storeDraft(), DRAFT_DELAY_MS);
	}

	#head() {
		const item = store.memories.get(this.path);
		replace(this.title, visible(this.name.value || (item?.name ?? fileName(this.path))));
		replace(this.about, h('span.path', visible(shortPath(this.path))));
		if (item?.lastWrittenAt) {
			const by = item.lastAuthor ? author({ actor: item.lastAuthor }) : 'Written';
			this.about.append(h('span', { title: dateTime(item.lastWrittenAt) }, `${by}, ${ago(item.lastWrittenAt)}`));
		}
		if (item?.uses) this.about.append(h('span', `Used ${item.uses}× · ${ago(item.lastUsedAt)}`));
		if (item?.trust && item.trust !== 'person' && TRUST[item.trust]) this.about.append(h(item.trust === 'outside' ? 'span.warning-text' : 'span', TRUST[item.trust]));
		const pinned = item?.pinned ?? false;
		replace(this.tools,
			h(pinned ? 'button.small.pressed' : 'button.small', { 'aria-pressed': String(pinned), disabled: !item, onclick: () => item && pinMemories([item], !pinned) }, icon('pin'), pinned ? 'Pinned' : 'Pin'),
			h('a.button.small', { href: href('history', shortPath(this.path)) }, icon('history'), 'History'),
			h('button.small', { onclick: () => this.#move() }, icon('move'), 'Move'),
			h('button.small.danger-text', { onclick: () => this.#delete() }, icon('trash'), 'Delete'));
	}

	/** @param {string} text @param {string} [kind] */
	#say(text, kind = '') {
		this.status.className = `save-status ${kind}`;
		this.status.textContent = text;
	}

	/** @param {...T.Child} content */
	#note(...content) {
		replace(this.notice, h('p.notice', h('span', content), h('button.icon-button', { 'aria-label': 'Dismiss', onclick: () => replace(this.notice) }, icon('close'))));
	}

	/** @param {boolean} on */
	#preview(on) {
		this.edit.setAttribute('aria-pressed', String(!on));
		this.look.setAttribute('aria-pressed', String(on));
		this.text.hidden = on;
		this.shown.hidden = !on;
		replace(this.shown, on ? (this.text.value.trim() ? preview(this.text.value) : h('p.muted', 'There is no text yet.')) : null);
	}

	#storeDraft() {
		clearTimeout(this.#timer);
		if (!this.#typed || (!this.isNew && !this.#seen)) return;
		const text = this.#text();
		const { text: base, revision } = this.#base;
		if (text === base) {
			drafts.drop(this.path);
			return;
		}
		this.#stored = text;
		if (!drafts.set(this.path, { text, base, revision, path: this.isNew ? this.target.value : undefined })) {
			this.#note('The browser has no room for a draft of this text. Save it before you leave.');
		}
	}

	#discard() {
		confirmDialog({
			title: 'Discard your changes?', content: ['What you typed since the last save is lost.'], action: 'Discard', danger: true,
			act: async () => {
				this.#settle();
				drafts.drop(this.path);
				this.#typed = false;
				replace(this.notice);
				this.#fill(this.#base.text);
				await this.#compare();
			},
		});
	}

	#settle() {
		this.#conflict = false;
		replace(this.banners);
	}

	async saveNow() {
		if (this.#saving || (!this.isNew && !this.dirty)) return;
		const text = this.#text();
		const path = this.isNew ? fullPath(this.target.value) : this.path;
		this.#saving = true;
		this.save.disabled = true;
		this.#say('Saving…');
		try {
			const written = await api.write(path, text, this.#base.revision);
			store.refresh(path);
			const isNew = this.isNew;
			// After leaving and coming back, there may be another draft.
			const ours = !this.#disposed || drafts.get(this.path)?.text === this.#stored;
			if (isNew && ours) drafts.drop('');
			this.#saving = this.isNew = false;
			if (isNew) this.path = path;
			this.#seen = true;
			this.#base = { text, revision: written.revision ?? null };
			// What was typed while it was being saved is a draft of what is stored now.
			if (ours) this.#storeDraft();
			if (isNew) toast(`Created ${shortPath(path)}`);
			if (written.warnings.length) toast(`Saved. Screening warns of ${written.warnings.map(({ rule, line }) => `${rule} in line ${line}`).join(', ')}.`);
			if (this.#disposed) return;
			if (isNew) {
				go(memoryHref(path), true);
				return;
			}
			this.#settle();
			if (!this.dirty) {
				this.#document = parse(text);
				this.#filled = { text, held: this.#held() };
			}
			this.#changed(false);
			if (!this.dirty) this.#say('Saved', 'ok');
		} catch (error) {
			this.#saving = false;
			if (this.#disposed) {
				toast(`${shortPath(path)} was not saved: ${messageOf(error)} Your text is kept.`, { error: true });
				return;
			}
			this.#changed(false);
			this.#say('Not saved', 'bad');
			this.#refused(error, text);
		}
	}

	/** @param {unknown} error @param {string} text */
	#refused(error, text) {
		const code = error instanceof ApiError ? error.code : '';
		const facts = error instanceof ApiError ? error.facts : {};
		if (code === 'conflict' && !this.isNew) {
			this.#showConflict();
		} else if (code === 'conflict' || code === 'already_exists') {
			this.#banner('Something is at this path already', 'Choose another path, or open what is there and edit it.', h('a.button', { href: memoryHref(fullPath(this.target.value)) }, 'Open it'));
			this.target.focus();
		} else if (code === 'screened') {
			const line = Number(facts.line ?? 0);
			const rule = String(facts.rule ?? '');
			this.#banner('Screening refused this text', [
				h('span', `Line ${line} matches the rule `, h('code', rule), '. Nothing was written.'),
				h('ul',
					h('li', rule.startsWith('secrets.') ? 'If it is a secret, take it out and say where it is kept instead. Agents read all of a memory.'
						: 'If the text gives orders to a model, rewrite it as a fact.'),
					h('li', 'If the rule is wrong here, let it pass once with ', h('code', `lukasa create --allow ${rule}`), ', or set it to ', h('code', 'warn'), ' under ', h('code', '[screening.policies]'), ' in config.toml.')),
			], line ? h('button', { onclick: () => this.#goToLine(text, line) }, `Go to line ${line}`) : null);
		} else if (code === 'offline') {
			this.#banner('Not saved: the daemon does not answer', 'Your text stays in this browser. Save again when the daemon is back.');
		} else {
			this.#banner('This could not be saved', messageOf(error));
		}
	}

	/** Selects a line of the whole text, which begins with the frontmatter. @param {string} text @param {number} line */
	#goToLine(text, line) {
		this.#preview(false);
		const front = text.split(/\r?\n/).length - this.text.value.split('\n').length;
		const lines = this.text.value.split('\n');
		const before = lines.slice(0, Math.max(0, line - 1 - front));
		if (line <= front) {
			this.description.focus();
			return;
		}
		const start = before.join('\n').length + (before.length ? 1 : 0);
		this.text.focus();
		this.text.setSelectionRange(start, start + (lines[before.length]?.length ?? 0));
	}

	/** @param {string} title @param {T.Child | T.Child[]} content @param {...T.Child} actions */
	#banner(title, content, ...actions) {
		replace(this.banners, h('div.banner.stack', { role: 'alert' }, h('p.banner-title', icon('warning'), title), h('div.banner-text.stack', content),
			h('div.banner-actions.bar', actions)));
	}

	/** Whether a memory says what stands here; then nothing is left to save. @param {T.Memory} memory */
	#is(memory) {
		if (memory.text !== this.#text()) return false;
		this.#base = memory;
		this.#storeDraft();
		this.#settle();
		this.#changed(false);
		return true;
	}

	/** If the memory was changed elsewhere, shows it, or compares it with the typed text. */
	async #compare() {
		const busy = () => this.#saving || this.#disposed || this.#conflict;
		if (this.isNew || !this.#seen || busy()) return;
		this.#head();
		if (store.memories.get(this.path)?.revision === this.#base.revision) return;
		try {
			// The list may be older than what was saved here, so the memory itself decides.
			const memory = await api.read(this.path);
			if (busy() || memory.revision === this.#base.revision || this.#is(memory)) return;
			const by = await this.#lastAuthor();
			if (busy()) return;
			if (this.dirty) {
				this.#banner(`${by} changed this memory while you are editing`, 'Compare before you save. What you typed is kept.',
					h('button', { onclick: () => this.#showConflict() }, 'Compare'));
				return;
			}
			this.#base = memory;
			this.#fill(memory.text);
			this.#note(`${by} changed this memory. `, h('a', { href: href('history', shortPath(this.path)) }, 'Show what changed'));
			store.clearEdit(this.path);
		} catch (error) {
			if (error instanceof ApiError && error.code === 'not_found' && !busy()) this.#showDeleted();
		}
	}

	/** @param {{path: string, movedTo?: string | null}} data */
	#moved({ path, movedTo }) {
		if (path !== this.path || !movedTo || this.#disposed) return;
		if (this.#typed) drafts.drop(path);
		this.path = movedTo;
		this.#storeDraft();
		if (!dialogOpen()) toast(`This memory is now at ${shortPath(movedTo)}`);
		go(memoryHref(movedTo), true);
	}

	async #lastAuthor() {
		const changes = await api.changes({ path: this.path, max: 1 }).then((page) => page.changes, () => []);
		return changes[0] && changes[0].actor !== 'person' ? author(changes[0]) : 'Somebody';
	}

	async #showConflict() {
		/** @type {T.Memory} */
		let theirs;
		try {
			theirs = await api.read(this.path);
		} catch (error) {
			if (error instanceof ApiError && error.code === 'not_found') this.#showDeleted();
			else this.#banner('The other version cannot be read', messageOf(error));
			return;
		}
		if (this.#disposed || this.#is(theirs)) return;
		this.#conflict = true;
		const by = await this.#lastAuthor();
		if (this.#disposed) return;
		const settle = () => {
			this.#base = theirs;
			this.#settle();
			this.#changed();
		};
		replace(this.banners, conflictPanel({
			base: this.#base.text, mine: this.#text(), theirs: theirs.text, by,
			keep: () => {
				settle();
				this.saveNow();
			},
			take: () => {
				settle();
				drafts.drop(this.path);
				this.#typed = false;
				this.#fill(theirs.text);
				this.#say('Their version is shown');
			},
			edit: () => {
				settle();
				this.#note('Your text is below. Saving it replaces the other version, which history keeps.');
				this.#preview(false);
				this.text.focus();
			},
		}));
	}

	#showDeleted() {
		this.#conflict = true;
		this.#banner('This memory was deleted meanwhile', this.dirty ? 'What you typed is kept here.' : 'Its text is still shown here.',
			h('button.primary', {
				onclick: () => {
					this.#base = { text: '', revision: null };
					this.saveNow();
				},
			}, 'Save as new'),
			h('a.button', { href: href('history', shortPath(this.path)) }, 'Show its history'),
			h('button', { onclick: () => this.#leave() }, 'Let it go'));
	}

	#leave() {
		this.#typed = false;
		drafts.drop(this.path);
		go(href('memories'));
	}

	async #move() {
		if (this.dirty) {
			toast('Save your changes first, then move the memory.');
			return;
		}
		const to = await moveMemory(this.path);
		if (to && !this.#disposed) go(memoryHref(to), true);
	}

	async #delete() {
		this.#conflict = true;
		// Leaving stores what was typed, so that it is there again once the deletion is undone.
		if (await deleteMemories([{ path: this.path, revision: this.#base.revision }], '', this.dirty)) go(href('memories'));
		else this.#settle();
	}
}
