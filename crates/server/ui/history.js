import { api } from './api.js';
import { comparison } from './compare.js';
import { h, replace, visible } from './dom.js';
import { changeRow, spanDialog, undoDialog } from './changes.js';
import { icon } from './icons.js';
import { ACTORS, pastDays } from './format.js';
import { emptyState, failure, pageHead } from './page.js';
import { href } from './router.js';
import { store } from './store.js';

const PAGE = 50;

/** @param {T.Route} route */
export function historyView(route) {
	const path = route.rest ? `/memories/${route.rest}` : '';
	const asked = Object.fromEntries(['task', 'session', 'actor', 'days'].map((key) => [key, route.query.get(key) ?? '']));
	const { task = '', session = '' } = asked;
	const run = task || session;
	const list = h('ol.changes.card');
	const more = h('button', { hidden: true, onclick: () => load() }, 'Load more');
	const status = h('div', { role: 'status' });
	const versions = path ? comparison(path) : null;
	let cursor = '';
	/** The newest change that is shown. */
	let newest = 0;
	/** Numbers the selections, so that a late answer to an earlier one is dropped. */
	let question = 0;

	/** @param {string} [from] */
	const ask = (from) => api.changes({ path, task, session, actor: asked.actor, since: asked.days && pastDays(asked.days), cursor: from, max: PAGE });

	async function load() {
		const mine = question;
		more.disabled = true;
		try {
			const page = await ask(cursor);
			if (mine !== question) return;
			list.append(...page.changes.map((change) => changeRow(change, { onUndone: prependNew, open: !!path && page.changes.length === 1 })));
			versions?.add(page.changes);
			newest = Math.max(newest, page.changes[0]?.id ?? 0);
			cursor = page.nextCursor ?? '';
			more.hidden = !cursor;
			replace(status, list.children.length ? null : asked.actor || asked.days || run ? emptyState('history', 'Nothing here', 'No change matches what is chosen above.')
				: emptyState('history', 'No changes yet', 'Whatever is written here shows up in this list, and can be undone.'));
			list.hidden = !list.children.length;
		} catch (error) {
			if (mine === question) replace(status, failure(error));
		}
		if (mine === question) more.disabled = false;
	}

	/** Adds new changes above the list, which stays. */
	async function prependNew() {
		if (!newest) return reload();
		const mine = question;
		const page = await ask().catch(() => null);
		if (!page || mine !== question) return;
		const found = page.changes.filter(({ id }) => id > newest);
		// A comparison starts with the newest version.
		if (found.length && versions && !list.querySelector('[aria-expanded=true]')) return reload();
		if (found.length === page.changes.length && page.nextCursor) return reload();
		newest = found[0]?.id ?? newest;
		list.prepend(...found.map((change) => changeRow(change, { onUndone: prependNew })));
	}
	function reload() {
		question++;
		versions?.clear();
		list.replaceChildren();
		cursor = '';
		newest = 0;
		load();
	}

	/** @param {'actor' | 'days'} key @param {string} label @param {[string, string][]} options */
	const choice = (key, label, options) => h('select', { 'aria-label': label, value: asked[key],
		onchange: (event) => {
			asked[key] = event.target.value;
			history.replaceState(null, '', href('history', route.rest, Object.fromEntries(Object.entries(asked).filter(([, value]) => value))));
			reload();
		},
	}, options.map(([value, text]) => h('option', { value }, text)));

	let timer = 0;
	const off = store.on('changes', () => {
		clearTimeout(timer);
		timer = setTimeout(prependNew, 400);
	});
	load();
	const about = path || run ? h('span.path', visible(path ? route.rest : session ? `session ${session}` : task)) : 'All memories of this workspace';
	return {
		title: 'History',
		element: h('div.page', pageHead('History', [about],
			path ? h('a.button', { href: href('memories', route.rest) }, 'Open memory') : null,
			run ? h('button', { onclick: () => undoDialog(task ? { task } : { session }, prependNew) }, icon('undo'), 'Undo all') : null,
			path || run ? h('a.button', { href: href('history') }, 'All history') : h('button', { onclick: () => spanDialog(prependNew) }, icon('undo'), 'Undo a span of time')),
		h('div.filters.bar', { role: 'group', 'aria-label': 'Which changes' },
			choice('actor', 'Who', [['', 'Anyone'], ...Object.entries(ACTORS)]),
			choice('days', 'When', [['', 'Any time'], ['1', 'Today'], ['7', 'Last 7 days'], ['30', 'Last 30 days']])),
		versions?.element, list, status, more),
		dispose() {
			off();
			clearTimeout(timer);
		},
	};
}
