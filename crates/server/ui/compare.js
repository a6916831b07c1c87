/** The differences of any two versions of a memory. */
import { api } from './api.js';
import { renderDiff } from './diff.js';
import { h, plain, replace } from './dom.js';
import { ago, author } from './format.js';
import { icon } from './icons.js';
import { failure } from './page.js';

/** @param {string} path of the memory, as it is called now */
export function comparison(path) {
	let name = path;
	const from = h('select', { id: 'from', onchange: () => show() });
	const to = h('select', { id: 'to', onchange: () => show() });
	const shown = h('div', { role: 'status' });
	const element = h('details.card.left-out', { hidden: true, ontoggle: () => show() }, h('summary', icon('chevron'), h('span.part-name', 'Compare two versions')),
		h('div.bar.padded', h('label', { for: from.id }, 'From'), from, h('label', { for: to.id }, 'to'), to), shown);

	/** @param {T.Change[]} changes the next older ones, newest first */
	function add(changes) {
		for (const change of changes) {
			const file = change.files.find((one) => one.path === name || one.movedTo === name);
			if (!file) continue;
			name = file.path;
			if (!file.after) continue;
			for (const select of [from, to]) select.append(h('option', { value: file.after }, `${plain(author(change))}, ${ago(change.at)} (change ${change.id})`));
		}
		from.selectedIndex = Math.min(1, from.options.length - 1);
		element.hidden = from.options.length < 2;
		show();
	}

	async function show() {
		if (!element.open || !from.value) return;
		const [old, now] = [from.value, to.value];
		try {
			const { diff } = await api.compare(old, now);
			if (old === from.value && now === to.value) replace(shown, renderDiff({ path, diff, kept: true }));
		} catch (error) {
			replace(shown, failure(error));
		}
	}
	function clear() {
		name = path;
		for (const select of [from, to]) select.replaceChildren();
	}
	return { element, add, clear };
}
