// @ts-check
/** What tasks and sessions changed, each as one. */
import { api } from './api.js';
import { h, replace, visible } from './dom.js';
import { undoDialog } from './changes.js';
import { author, count, memoryCount, STATUS, TASKS } from './format.js';
import { icon } from './icons.js';
import { emptyState, failure, section, time } from './page.js';
import { href } from './router.js';

export function runList() {
	const list = h('ul.card.runs', { hidden: true });
	const status = h('div', { role: 'status' });
	const more = h('button', { hidden: true, onclick: () => load(cursor) }, 'Load more');
	/** @type {Map<string, T.Run>} */
	let runs = new Map();
	let cursor = '';
	let shown = '';

	/** @param {string} [from] */
	async function load(from = '') {
		try {
			const page = await api.runs(from);
			if (!from) runs = new Map();
			for (const run of page.runs) {
				const key = `${run.kind} ${run.id} ${run.client}`;
				const known = runs.get(key);
				// What goes on behind the edge of a page comes again, with the rest of its changes.
				runs.set(key, known ? { ...known, startedAt: run.startedAt, changes: [...known.changes, ...run.changes], memories: Math.max(known.memories, run.memories) } : run);
			}
			cursor = page.nextCursor ?? '';
			more.hidden = !cursor;
			// Unchanged rows keep the focus.
			const state = JSON.stringify([...runs.values()]);
			if (state === shown) return;
			shown = state;
			replace(list, [...runs.values()].map(row));
			list.hidden = !runs.size;
			replace(status, runs.size ? null : emptyState('history', 'Nothing was changed yet', 'What tasks and agents change is listed here for as long as history is kept.'));
		} catch (error) {
			replace(status, failure(error));
		}
	}

	/** @param {T.Run} run */
	function row(run) {
		const task = run.kind === 'task';
		const kind = run.id.split('-')[0] ?? '';
		const name = task ? TASKS[kind] ?? kind : author(run);
		return h('li.run', h('div.run-main',
			h('p.run-name', h('span', { class: `actor actor-${run.actor}` }, visible(name)), h('span.group-kind', task ? 'task' : visible(`session ${run.id}`)),
				run.status && run.status !== 'completed' ? h('span', { class: `status status-${run.status}` }, STATUS[run.status] ?? run.status) : null),
			h('p.muted', `${count(run.changes.length, 'change')} in ${memoryCount(run.memories)}`, run.model ? visible(` · ${run.model}`) : '', ' · ', time(run.endedAt))),
		h('div.bar', h('a.button.small', { href: href('history', '', task ? { task: run.id } : { session: run.id }), 'aria-label': `Changes of ${name} ${run.id}` }, 'Changes'),
			h('button.small', { 'aria-label': `Undo all of ${name} ${run.id}`, onclick: () => undoDialog(task ? { task: run.id } : { session: run.id }, () => load()) }, icon('undo'), run.changes.length > 1 ? 'Undo all' : 'Undo')));
	}

	load();
	return { load, element: section('What they changed', [list, status, more], h('span.muted', 'Tasks and sessions of agents, newest first')) };
}
