// @ts-check
import { api, messageOf } from './api.js';
import { h, replace, visible } from './dom.js';
import { icon } from './icons.js';
import { renderDiffs } from './diff.js';
import { confirmDialog, toast } from './dialog.js';
import { author, count, KINDS, memoryCount, shortPath } from './format.js';
import { memoryHref } from './router.js';
import { store } from './store.js';
import { pathList } from './actions.js';
import { failure, time } from './page.js';

/** @param {T.Change} change */
export const pathsOf = (change) => [...new Set(change.files.map((file) => file.path))];

/** @param {string} path */
export function memoryLink(path) {
	const text = visible(shortPath(path));
	return store.memories.has(path)
		? h('a.path', { href: memoryHref(path) }, text)
		: h('span.path.gone', { title: 'Not there any more' }, text);
}

/** @param {T.Change} change */
function filesOf(change) {
	const shown = change.files.slice(0, 3);
	return h('span.change-files',
		shown.map((file) => h('span.change-file', memoryLink(file.path),
			file.movedTo ? [' ', icon('move', 'moved to'), ' ', memoryLink(file.movedTo)] : null)),
		change.files.length > shown.length ? h('span.muted', `and ${change.files.length - shown.length} more`) : null);
}

/** @param {T.Change} change */
const facts = ({ id, client, origin, session, task, toolCall, trust }) => h('p.facts.muted', visible([
	`Change ${id}`, client, `by ${origin}`, session && `session ${session}`, task, toolCall && `tool call ${toolCall}`, `trust ${trust}`,
].filter(Boolean).join(' · ')));

/** @param {T.Change} change @param {T.ChangeOptions} [options] */
export function changeRow(change, { actions = [], open = false, onUndone, showAuthor = true } = {}) {
	const details = h('div.change-details.stack', { id: `change-${change.id}`, hidden: true });
	const toggle = h('button.icon-button.toggle', { 'aria-expanded': 'false', 'aria-controls': details.id,
		'aria-label': `Details of change ${change.id}`, onclick: () => setOpen(details.hidden === true),
	}, icon('chevron'));
	let asked = false;
	/** @param {boolean} state */
	const setOpen = (state) => {
		details.hidden = !state;
		toggle.setAttribute('aria-expanded', String(state));
		if (!state || asked) return;
		asked = true;
		replace(details, h('p.note', 'Loading…'));
		api.change(change.id).then(
			(full) => replace(details, renderDiffs(full.diffs ?? []), facts(full)),
			(error) => { asked = false; replace(details, failure(error)); });
	};
	const element = h('li.change',
		h('div.change-head', toggle,
			h('div.change-main',
				h('div.change-line',
					showAuthor ? h('span', { class: `actor actor-${change.actor}` }, author(change)) : null,
					h('span.change-kind', change.undoes ? `undid change ${change.undoes}` : KINDS[change.kind] ?? change.kind),
					filesOf(change)),
				time(change.at)),
			h('div.change-actions.bar', actions,
				h('button.small', { 'aria-label': `Undo change ${change.id}`, onclick: () => undoDialog(change.id, onUndone) }, icon('undo'), 'Undo'))),
		details);
	if (open) setOpen(true);
	return element;
}

/** @param {number} id @param {() => void} [done] */
export async function undoDialog(id, done) {
	/** @type {T.Undone} */
	let plan;
	/** @type {T.Change[]} */
	let changes;
	try {
		plan = await api.undo(id, true);
		changes = await Promise.all(plan.undone.slice(0, 10).map((change) => api.change(change)));
	} catch (error) {
		return confirmDialog({ title: 'This change cannot be undone', content: [h('p', messageOf(error))] });
	}
	return confirmDialog({
		title: plan.undone.length === 1 ? `Undo change ${id}?` : `Undo ${count(plan.undone.length, 'change')}?`,
		wide: true,
		content: [
			h('p', `This changes ${memoryCount(plan.paths.length)}:`), pathList(plan.paths),
			...changes.map((change) => renderDiffs(change.diffs ?? [], true)),
			plan.warnings.length ? h('p.warning-text', icon('warning'), `Screening warns of ${[...new Set(plan.warnings.map((w) => w.rule))].join(', ')}.`) : null,
		],
		action: 'Undo',
		act: async () => {
			const undone = await api.undo(id);
			for (const path of undone.paths) store.refresh(path);
			const change = undone.change;
			done?.();
			toast('The change was undone', change ? {
				action: 'Redo', act: async () => {
					const again = await api.undo(change);
					for (const path of again.paths) store.refresh(path);
					done?.();
				},
			} : {});
		},
	});
}
