/** Changes, grouped by task and session. */
import { api } from './api.js';
import { h, replace, visible } from './dom.js';
import { undoDialog } from './changes.js';
import { author, count, memoryCount, STATUS, TASKS } from './format.js';
import { icon } from './icons.js';
import { emptyState, failure, section, time } from './page.js';
import { href } from './router.js';

/** Runs undone since the page was opened, by newest change. @type {Set<string>} */
const undone = new Set();

/** @param {T.Run} run */
const keyOf = (run) => `${run.kind} ${run.id} ${run.client}`;
/** @param {T.Run} run */
const stateOf = (run) => `${keyOf(run)} ${run.changes[0]}`;

/** The same run as two pages have it. @param {T.Run} newer @param {T.Run | undefined} older @returns {T.Run} */
const mergeRuns = (newer, older) => older ? { ...newer, startedAt: older.startedAt, changes: [...new Set([...newer.changes, ...older.changes])], memories: Math.max(newer.memories, older.memories) } : newer;

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
			const found = new Map(page.runs.map((run) => [keyOf(run), run]));
			if (from) {
				// What goes on behind the edge of a page comes again, with the rest of its changes.
				for (const [key, run] of found) runs.set(key, mergeRuns(runs.get(key) ?? run, run));
			} else {
				// What was loaded beyond the first page stays, unless something is missing between.
				const goesOn = page.runs.some((run) => runs.has(keyOf(run)));
				if (!goesOn) cursor = page.nextCursor ?? '';
				runs = new Map([...page.runs.map((run) => /** @type {[string, T.Run]} */ ([keyOf(run), mergeRuns(run, runs.get(keyOf(run)))])),
					...goesOn ? [...runs].filter(([key]) => !found.has(key)) : []]);
			}
			if (from) cursor = page.nextCursor ?? '';
			more.hidden = !cursor;
			// Unchanged rows keep the focus.
			const state = JSON.stringify([[...runs.values()], [...undone]]);
			if (state === shown) return;
			shown = state;
			replace(list, [...runs.values()].map(row));
			list.hidden = !runs.size;
			replace(status, runs.size ? null : emptyState('history', 'Nothing was changed yet', 'What tasks and agents change is listed here while history is kept.'));
		} catch (error) {
			replace(status, failure(error));
		}
	}

	/** @param {T.Run} run */
	function row(run) {
		const task = run.kind === 'task';
		const kind = run.id.split('-')[0] ?? '';
		const name = task ? TASKS[kind] ?? kind : author(run);
		const done = (/** @type {boolean} */ back) => {
			if (back) undone.add(stateOf(run));
			else undone.delete(stateOf(run));
			load();
		};
		return h('li.run', h('div.run-main',
			h('p.run-name', h('span', { class: `actor actor-${run.actor}` }, visible(name)), h('span.group-kind', task ? 'task' : visible(`session ${run.id}`)),
				run.status && run.status !== 'completed' ? h('span', { class: `status status-${run.status}` }, STATUS[run.status] ?? run.status) : null),
			h('p.muted', `${count(run.changes.length, 'change')} in ${memoryCount(run.memories)}`, run.model ? visible(` · ${run.model}`) : '', ' · ', time(run.endedAt))),
		h('div.bar', h('a.button.small', { href: href('history', '', task ? { task: run.id } : { session: run.id }), 'aria-label': `Changes of ${name} ${run.id}` }, 'Changes'),
			undone.has(stateOf(run)) ? h('span.badge.plain', 'Undone')
				: h('button.small', { 'aria-label': `Undo all of ${name} ${run.id}`, onclick: () => undoDialog(task ? { task: run.id } : { session: run.id }, done) }, icon('undo'), run.changes.length > 1 ? 'Undo all' : 'Undo')));
	}

	load();
	return { load, element: section('Changes by tasks and sessions', [list, status, more], h('span.muted', 'Newest first')) };
}
