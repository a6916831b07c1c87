// @ts-check
import { api } from './api.js';
import { h, replace, visible } from './dom.js';
import { changeRow } from './changes.js';
import { emptyState, failure, pageHead } from './page.js';
import { href } from './router.js';
import { store } from './store.js';

const PAGE = 50;

/** @param {T.Route} route */
export function historyView(route) {
	const path = route.rest ? `/memories/${route.rest}` : '';
	const task = route.query.get('task') ?? '';
	const list = h('ol.changes.card');
	const more = h('button', { hidden: true, onclick: () => load() }, 'Load more');
	const status = h('div', { role: 'status' });
	let cursor = '';

	async function load() {
		more.disabled = true;
		try {
			const page = await api.changes({ path, task, cursor, max: PAGE });
			for (const change of page.changes) list.append(changeRow(change, { onUndone: reload, open: !!path && page.changes.length === 1 }));
			cursor = page.nextCursor ?? '';
			more.hidden = !cursor;
			replace(status, list.children.length ? null : emptyState('history', 'No changes yet', 'Whatever is written here shows up in this list, and can be undone.'));
			list.hidden = !list.children.length;
		} catch (error) {
			replace(status, failure(error));
		}
		more.disabled = false;
	}

	function reload() {
		// What is open stays open.
		if (list.querySelector('[aria-expanded=true]')) return;
		list.replaceChildren();
		cursor = '';
		load();
	}

	let timer = 0;
	const off = store.on('changes', () => {
		clearTimeout(timer);
		timer = setTimeout(reload, 400);
	});
	load();
	const about = path ? [h('span.path', visible(route.rest))] : task ? [h('span.path', visible(task))] : ['All memories of this workspace'];
	return {
		title: 'History',
		element: h('div.page', pageHead('History', about,
			path ? h('a.button', { href: href('memories', route.rest) }, 'Open memory') : null,
			path || task ? h('a.button', { href: href('history') }, 'All history') : null),
		list, status, more),
		dispose() {
			off();
			clearTimeout(timer);
		},
	};
}
