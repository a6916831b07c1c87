/** The tree of memories. Only the rows in sight are in the document. */
import { h, plain, replace, visible } from './dom.js';
import { icon } from './icons.js';
import { ago, author, dateTime, fileName, folderOf, memoryCount, number, shortPath, TRUST } from './format.js';
import { BATCH_MAX, deleteMemories, moveMemories, pinMemories } from './actions.js';
import { isFiltered, filterItems, activeFilterCount, rowsOf } from './rows.js';
import { emptyState } from './page.js';
import { go, href, memoryHref } from './router.js';
import { store } from './store.js';

const MEMORY_HEIGHT = 46;
const FOLDER_HEIGHT = 32;
/** Rows beyond the edges, so that quick scrolling shows no gaps. */
const OVERSCAN = 400;

const ALL = { scope: '', author: '', trust: '', type: '', days: '', pinned: false, unused: false };
const TYPES = ['user', 'feedback', 'project', 'reference'];

export class Tree {
	/** @type {T.Row[]} */ #rows = [];
	/** Top of each row, and the end of the last. @type {number[]} */ #tops = [0];
	/** @type {Set<string>} */ #closed = new Set();
	/** @type {Set<string>} */ #selected = new Set();
	/** @type {T.MemoryItem[]} */ #matches = [];
	#active = '';
	#open = '';
	#frame = 0;
	/** Whether a row is pressed. */ #held = false;
	/** @type {T.Filters} */ #filters = { text: '', ...ALL, sort: 'name' };

	constructor() {
		this.search = h('input', {
			type: 'search', placeholder: 'Filter memories', 'aria-label': 'Filter memories', spellcheck: 'false', autocomplete: 'off',
			oninput: (event) => this.#filter({ text: event.target.value }),
			onkeydown: (event) => {
				if (event.key === 'ArrowDown' || event.key === 'Enter') {
					event.preventDefault();
					this.tree.focus();
				} else if (event.key === 'Escape') {
					this.search.value = '';
					this.#filter({ text: '' });
				}
			},
		});
		/** @param {string} label @param {'scope' | 'author' | 'trust' | 'type' | 'days' | 'sort'} key @param {[string, string][]} options */
		const select = (label, key, options) => h('select', { 'aria-label': label, name: key, onchange: (event) => this.#filter({ [key]: event.target.value }) },
			options.map(([value, text]) => h('option', { value }, text)));
		/** @param {string} label @param {'pinned' | 'unused'} key */
		const chip = (label, key) => h('button.chip', { 'aria-pressed': 'false', 'data-key': key, onclick: () => this.#filter({ [key]: !this.#filters[key] }) }, label);
		this.type = select('Type', 'type', []);
		this.panel = h('div.filter-panel', { id: 'filters', role: 'group', 'aria-label': 'Filters', hidden: true },
			select('Scope', 'scope', [['', 'All scopes'], ['global', 'Global'], ['project', 'Project'], ['workspace', 'Workspace']]),
			select('Changed', 'days', [['', 'Changed any time'], ['1', 'Changed today'], ['7', 'In the last 7 days'], ['30', 'In the last 30 days']]),
			select('Last author', 'author', [['', 'Any last author'], ['person', 'You'], ['agent', 'Agents'], ['outside', 'Outside']]),
			select('Trust', 'trust', [['', 'Any trust'], ...Object.entries(TRUST)]),
			this.type, h('div.bar', chip('Pinned', 'pinned'), chip('Unused', 'unused')));
		this.narrow = h('button.chip', { 'aria-expanded': 'false', 'aria-controls': 'filters', onclick: () => this.#showPanel(this.panel.hidden === true) });
		this.clear = h('button.chip', { onclick: () => {
			this.#filter(ALL);
			this.narrow.focus();
		} }, 'Clear');
		this.tree = h('div.tree', { role: 'tree', tabindex: 0, 'aria-label': 'Memories', 'aria-multiselectable': 'true',
			onkeydown: (event) => this.#key(event),
			onclick: (event) => this.#click(event),
			onpointerdown: (event) => this.#hold(event),
			onscroll: () => this.#schedule(),
			onfocus: () => {
				if (!this.#rowAt(this.#active)) this.#activate(this.#open || (this.#rows[0]?.path ?? ''), false);
				this.#schedule();
			},
		});
		this.bar = h('div.selection-bar.bar', { hidden: true });
		this.summary = h('p.tree-summary.muted', { role: 'status' });
		this.empty = h('div.tree-empty', { hidden: true });
		this.element = h('section.list-pane', { 'aria-label': 'List of memories' },
			h('div.list-head.stack',
				h('div.list-title.bar', h('h1', 'Memories'),
					h('a.button.primary', { href: href('new') }, icon('plus'), 'New')),
				h('div.search-field', icon('search'), this.search),
				h('div.filters.bar', this.narrow, this.panel, this.clear, select('Sort', 'sort', [['name', 'By name'], ['changed', 'By change'], ['used', 'By use']]))),
			this.bar, this.summary, this.tree, this.empty);
		store.on('memories', () => this.update());
		new ResizeObserver(() => this.#schedule()).observe(this.tree);
	}

	/** @param {string} path */
	show(path) {
		this.#open = path;
		if (path && path !== this.#active) this.#activate(path);
		this.#schedule();
	}

	update() {
		this.#matches = filterItems(store.memories.values(), this.#filters);
		this.#showFilters();
		// Nothing is done to what is not seen.
		const shown = new Set(this.#matches.map(({ path }) => path));
		for (const path of this.#selected) if (!shown.has(path)) this.#selected.delete(path);
		this.#build();
	}

	/** @param {Partial<T.Filters>} change */
	#filter(change) {
		Object.assign(this.#filters, change);
		this.tree.scrollTop = 0;
		this.update();
	}

	/** @param {boolean} open */
	#showPanel(open) {
		this.panel.hidden = !open;
		this.narrow.setAttribute('aria-expanded', String(open));
	}

	/** Shows in the filters what they are. */
	#showFilters() {
		const types = [...new Set([...TYPES, ...[...store.memories.values()].map((item) => item.type ?? '')])].filter(Boolean);
		if (this.type.options.length !== types.length + 1) replace(this.type, h('option', { value: '' }, 'Any type'), types.map((type) => h('option', { value: type }, visible(type))));
		for (const field of this.panel.children) if (field instanceof HTMLSelectElement) field.value = String(this.#filters[/** @type {'type'} */ (field.name)]);
		for (const chip of this.panel.querySelectorAll('.chip')) chip.setAttribute('aria-pressed', String(this.#filters[/** @type {'pinned'} */ (chip.getAttribute('data-key'))]));
		const chosen = activeFilterCount(this.#filters);
		replace(this.narrow, icon('filter'), chosen ? `Filters (${chosen})` : 'Filters');
		this.narrow.classList.toggle('pressed', chosen > 0);
		this.clear.hidden = chosen === 0;
	}

	#build() {
		this.#rows = rowsOf(this.#matches, this.#filters, this.#closed, store.unavailable);
		this.#tops = [0];
		for (const row of this.#rows) this.#tops.push((this.#tops.at(-1) ?? 0) + (row.kind === 'memory' ? MEMORY_HEIGHT : FOLDER_HEIGHT));
		const total = store.memories.size;
		const shown = this.#matches.length;
		this.summary.textContent = !store.loaded ? 'Loading…' : isFiltered(this.#filters) ? `${number(shown)} of ${memoryCount(total)}` : memoryCount(total);
		const nothing = store.loaded && shown === 0;
		this.tree.hidden = nothing;
		this.empty.hidden = !nothing;
		if (nothing) {
			replace(this.empty, total
				? emptyState('search', 'Nothing matches', 'Nothing fits what is typed and chosen above.', h('button', { onclick: () => { this.search.value = ''; this.#filter({ ...ALL, text: '' }); } }, 'Show all'))
				: emptyState('memories', 'No memories yet', 'Agents write here as they work, and you can write the first one.', h('a.button.primary', { href: href('new') }, 'New memory')));
		}
		this.#bar();
		this.#schedule();
	}

	#bar() {
		this.bar.hidden = this.#selected.size === 0;
		if (this.bar.hidden) return;
		const items = this.#chosen();
		const pinned = items.every((item) => item.pinned);
		const tooMany = items.length > BATCH_MAX;
		replace(this.bar,
			h('span', { role: 'status' }, `${number(items.length)} selected`, tooMany ? `. At most ${number(BATCH_MAX)} are moved or deleted at once.` : ''),
			h('button.small', { onclick: () => pinMemories(items, !pinned) }, icon('pin'), pinned ? 'Unpin' : 'Pin'),
			h('button.small', { disabled: tooMany, onclick: () => moveMemories(items) }, icon('move'), 'Move'),
			h('button.small.danger-text', { disabled: tooMany, onclick: () => deleteMemories(items) }, icon('trash'), 'Delete'),
			h('button.icon-button', { 'aria-label': 'Clear selection', onclick: () => this.#select([]) }, icon('close')));
	}

	#chosen() {
		return [...this.#selected].flatMap((path) => store.memories.get(path) ?? []);
	}

	/** @param {string[]} paths */
	#select(paths) {
		this.#selected = new Set(paths);
		this.#bar();
		this.#schedule();
	}

	/** The memories of a row: itself, or all that match below it. @param {T.Row} row */
	#below(row) {
		if (row.item) return [row.path];
		return this.#matches.filter((item) => item.path.startsWith(row.path + '/')).map((item) => item.path);
	}

	/** @param {T.Row} row */
	#isSelected(row) {
		if (row.item) return this.#selected.has(row.path);
		return this.#selected.size > 0 && row.count > 0 && this.#below(row).every((path) => this.#selected.has(path));
	}

	/** @param {T.Row} row */
	#toggle(row) {
		const paths = this.#below(row);
		const all = paths.every((path) => this.#selected.has(path));
		for (const path of paths) all ? this.#selected.delete(path) : this.#selected.add(path);
		this.#bar();
		this.#schedule();
	}

	/** @param {string} path */
	#rowAt(path) {
		return this.#rows.find((row) => row.path === path);
	}

	/** @param {string} path @param {boolean} [reveal] */
	#activate(path, reveal = true) {
		this.#active = path;
		const at = this.#rows.findIndex((row) => row.path === path);
		if (at >= 0 && reveal) {
			const top = this.#tops[at] ?? 0;
			const bottom = this.#tops[at + 1] ?? 0;
			if (top < this.tree.scrollTop) this.tree.scrollTop = top;
			else if (bottom > this.tree.scrollTop + this.tree.clientHeight) this.tree.scrollTop = bottom - this.tree.clientHeight;
		}
		this.#schedule();
	}

	/** @param {T.Row} row @param {boolean} open */
	#setOpen(row, open) {
		if (open) this.#closed.delete(row.path);
		else this.#closed.add(row.path);
		this.#build();
	}

	/** @param {KeyboardEvent} event */
	#key(event) {
		if (event.altKey || (event.target !== this.tree)) return;
		const at = this.#rows.findIndex((row) => row.path === this.#active);
		const row = this.#rows[at];
		/** @param {number} to */
		const move = (to) => {
			const next = this.#rows[Math.max(0, Math.min(this.#rows.length - 1, to))];
			if (!next) return;
			if (event.shiftKey) for (const one of [row, next]) if (one?.item) this.#selected.add(one.path);
			this.#bar();
			this.#activate(next.path);
		};
		const page = Math.max(1, Math.floor(this.tree.clientHeight / MEMORY_HEIGHT) - 1);
		const keys = /** @type {Record<string, () => void>} */ ({
			ArrowDown: () => move(at + 1),
			ArrowUp: () => move(at - 1),
			Home: () => move(0),
			End: () => move(this.#rows.length - 1),
			PageDown: () => move(at + page),
			PageUp: () => move(at - page),
			ArrowRight: () => {
				if (row && !row.item) row.open ? move(at + 1) : this.#setOpen(row, true);
			},
			ArrowLeft: () => {
				if (row && !row.item && row.open && row.count) this.#setOpen(row, false);
				else if (row && this.#rowAt(folderOf(row.path))) this.#activate(folderOf(row.path));
			},
			Enter: () => {
				if (row?.item) go(memoryHref(row.path));
				else if (row) this.#setOpen(row, !row.open);
			},
			' ': () => { if (row) this.#toggle(row); },
			Escape: () => this.#select([]),
			p: () => this.#pin(row),
			Delete: () => this.#delete(row),
			Backspace: () => this.#delete(row),
		});
		const all = () => this.#select(this.#matches.map((item) => item.path));
		const action = event.ctrlKey || event.metaKey ? (event.key === 'a' ? all : undefined) : keys[event.key];
		if (!action) return;
		event.preventDefault();
		action();
	}

	/** @param {T.Row | undefined} row */
	#targets(row) {
		if (this.#selected.size) return this.#chosen();
		return row ? this.#below(row).flatMap((path) => store.memories.get(path) ?? []) : [];
	}

	/** @param {T.Row | undefined} row */
	#pin(row) {
		const items = this.#targets(row);
		if (items.length) pinMemories(items, !items.every((item) => item.pinned));
	}

	/** @param {T.Row | undefined} row */
	async #delete(row) {
		const at = this.#rows.findIndex((other) => other.path === row?.path);
		const targets = this.#targets(row);
		const folder = row && !row.item && !this.#selected.size && targets.length === row.count && !isFiltered(this.#filters);
		const done = await deleteMemories(targets, folder ? row.path : undefined);
		if (done) this.#activate(this.#rows[Math.min(at, this.#rows.length - 1)]?.path ?? '');
		this.tree.focus();
	}

	/** @param {MouseEvent} event */
	#click(event) {
		const target = /** @type {Element} */ (event.target);
		const path = target.closest('[data-path]')?.getAttribute('data-path') ?? '';
		const row = this.#rowAt(path);
		if (!row) return;
		this.#activate(path, false);
		if (target.closest('.row-delete')) {
			this.#select([]);
			this.#delete(row);
		} else if (target.closest('.row-pin') && row.item) {
			pinMemories([row.item], !row.item.pinned);
		} else if (target.closest('.row-check') || event.ctrlKey || event.metaKey) {
			this.#toggle(row);
		} else if (row.item) {
			go(memoryHref(path));
		} else {
			this.#setOpen(row, !row.open);
		}
	}

	#schedule() {
		if (!this.#frame && !this.#held) this.#frame = requestAnimationFrame(() => this.#render());
	}

	/** Draws nothing while a row is pressed: a row that is replaced under the pointer gets no click. @param {PointerEvent} event */
	#hold(event) {
		if (!(event.target instanceof Element && event.target.closest('[data-path]'))) return;
		cancelAnimationFrame(this.#frame);
		this.#frame = 0;
		this.#held = true;
		// The click comes after the release.
		const release = () => setTimeout(() => {
			this.#held = false;
			this.#schedule();
		});
		for (const end of ['pointerup', 'pointercancel']) window.addEventListener(end, release, { once: true });
	}

	#render() {
		this.#frame = 0;
		const from = this.tree.scrollTop - OVERSCAN;
		const to = this.tree.scrollTop + this.tree.clientHeight + OVERSCAN;
		const first = Math.max(0, this.#search(from));
		const last = Math.min(this.#rows.length, this.#search(to) + 1);
		const rows = [];
		for (let i = first; i < last; i++) {
			const row = this.#rows[i];
			if (row) rows.push(this.#row(row, i));
		}
		const spacer = h('div', { role: 'none' });
		spacer.style.setProperty('height', `${this.#tops.at(-1) ?? 0}px`);
		this.tree.replaceChildren(spacer, ...rows);
		const active = this.#rows.findIndex((row) => row.path === this.#active);
		if (active >= first && active < last) this.tree.setAttribute('aria-activedescendant', `row-${active}`);
		else this.tree.removeAttribute('aria-activedescendant');
	}

	/** @param {number} top */
	#search(top) {
		let low = 0;
		let high = this.#rows.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			if ((this.#tops[middle + 1] ?? 0) <= top) low = middle + 1;
			else high = middle;
		}
		return low;
	}

	/** @param {T.Row} row @param {number} at */
	#row(row, at) {
		const item = row.item;
		const selected = this.#isSelected(row);
		const edit = store.edits.get(row.path);
		const classes = ['row', row.kind, row.path === this.#active && 'active', row.path === this.#open && 'open', selected && 'selected'];
		const guides = [];
		for (let i = 1; i < row.depth; i++) guides.push(h('span.guide'));
		const check = h('span.row-check', { 'aria-hidden': 'true' }, selected ? icon('check') : null);
		const element = h('div', {
			class: classes.filter(Boolean).join(' '), id: `row-${at}`, role: 'treeitem', 'data-path': row.path, 'aria-level': row.depth,
			'aria-posinset': row.position, 'aria-setsize': row.size, 'aria-selected': String(selected),
			'aria-expanded': item ? null : String(row.open), title: plain(shortPath(row.path)),
			'aria-current': row.path === this.#open ? 'true' : null,
		}, check, guides);
		if (!item) {
			element.append(icon('chevron'), h('span.row-label', { dir: 'auto' }, visible(row.kind === 'scope' ? row.label.charAt(0).toUpperCase() + row.label.slice(1) : row.label)),
				h('span.row-count', row.note ? 'not available here' : number(row.count)),
				row.kind === 'folder' ? h('span.row-pin.row-delete', { title: 'Delete the folder' }, icon('trash')) : '');
			if (row.note) element.title = row.note;
		} else {
			const flat = this.#filters.sort !== 'name';
			const used = item.uses > 0 ? `Used ${number(item.uses)}× · ${ago(item.lastUsedAt)}` : '';
			const second = flat ? shortPath(item.path) : item.description;
			element.append(
				h('span.row-text',
					h('span.row-first', h('span.row-label', { dir: 'auto' }, visible(row.label)),
						edit ? h('span.badge', { title: `${author(edit)}, ${dateTime(new Date(edit.at).toISOString())}` }, edit.actor === 'outside' ? 'edited outside' : 'edited by an agent') : null,
						item.findings.length ? icon('warning', 'Screening objects to this text') : null),
					h('span.row-second', { dir: 'auto' }, visible(second === row.label ? fileName(item.path) : second || fileName(item.path)))),
				h('span.row-used', { title: item.lastUsedAt ? dateTime(item.lastUsedAt) : null }, flat && this.#filters.sort === 'changed' ? `Changed ${ago(item.lastWrittenAt ?? item.modifiedAt)}` : used),
				h('span', { class: item.pinned ? 'row-pin pinned' : 'row-pin', title: item.pinned ? 'Unpin' : 'Pin' }, icon('pin', item.pinned ? 'Pinned' : undefined)));
		}
		element.style.setProperty('top', `${this.#tops[at] ?? 0}px`);
		return element;
	}
}
