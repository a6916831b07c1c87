// @ts-check
import { api, messageOf } from './api.js';
import { h, replace, visible } from './dom.js';
import { icon } from './icons.js';
import { renderDiffs } from './diff.js';
import { confirmDialog, toast } from './dialog.js';
import { author, count, KINDS, memoryCount, shortPath } from './format.js';
import { memoryHref } from './router.js';
import { store } from './store.js';
import { pathList, undo } from './actions.js';
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
const facts = ({ id, client, model, origin, session, task, toolCall, trust }) => h('p.facts.muted', visible([
	`Change ${id}`, client, model, `by ${origin}`, session && `session ${session}`, task, toolCall && `tool call ${toolCall}`, `trust ${trust}`,
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
			(full) => replace(details, renderDiffs(full.diffs ?? []), h('div.bar.spread', facts(full),
				h('button.small', { 'aria-label': `Undo everything since change ${change.id}`, onclick: () => undoDialog({ since: change.at }, onUndone) }, 'Undo everything since'))),
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
				h('button.small', { 'aria-label': `Undo change ${change.id}`, onclick: () => undoDialog({ changes: [change.id] }, onUndone) }, icon('undo'), 'Undo'))),
		details);
	if (open) setOpen(true);
	return element;
}

/** So many changes are named one by one in a request, and shown line by line in a dialog. */
const NAMED_MAX = 1000;
const DIFFS_MAX = 10;

/** What an undo would do. @param {T.UndoTarget} what */
async function lookAt(what) {
	const plan = await api.undo(what, true);
	const changes = plan.undone.length > DIFFS_MAX ? [] : await Promise.all(plan.undone.map((id) => api.change(id)));
	return { plan, shown: [
		h('p', `This takes back ${count(plan.undone.length, 'change')} in ${memoryCount(plan.paths.length)}:`), pathList(plan.paths),
		renderDiffs(changes.flatMap((change) => change.diffs ?? []), true),
		plan.warnings.length ? h('p.warning-text', icon('warning'), `Screening warns of ${[...new Set(plan.warnings.map((w) => w.rule))].join(', ')}.`) : null,
	] };
}

/** Does what was shown, even if more was changed meanwhile. @param {T.UndoTarget} what @param {T.Undone} plan @param {() => void} [done] */
async function carryOut(what, plan, done) {
	const { change } = await undo(plan.undone.length > NAMED_MAX ? what : { changes: plan.undone });
	done?.();
	toast(plan.undone.length === 1 ? 'The change was undone' : `${count(plan.undone.length, 'change')} undone`, change ? {
		action: 'Redo', act: async () => {
			await undo({ changes: [change] });
			done?.();
		},
	} : {});
}

/** @param {T.UndoTarget} what @param {() => void} [done] */
export async function undoDialog(what, done) {
	try {
		const { plan, shown } = await lookAt(what);
		const { length } = plan.undone;
		await confirmDialog({
			title: length === 1 ? `Undo change ${plan.undone[0]}?` : `Undo ${count(length, 'change')}?`,
			wide: true, content: shown, action: length === 1 ? 'Undo' : 'Undo all', danger: length > 1, act: () => carryOut(what, plan, done),
		});
	} catch (error) {
		await confirmDialog({ title: 'This cannot be undone', content: [h('p', messageOf(error))] });
	}
}

/** Undoes what was written in a time that somebody chooses. @param {() => void} done */
export function spanDialog(done) {
	/** @param {string} id @param {string} label @param {string} [hint] */
	const field = (id, label, hint) => {
		const input = h('input', { id, type: 'datetime-local', required: id === 'span-since', onchange: () => look() });
		return { input, element: h('div.field.stack', h('label', { for: id }, label), input, hint ? h('p.hint', hint) : null) };
	};
	const since = field('span-since', 'From');
	const until = field('span-until', 'Until', 'Left empty: until now');
	const shown = h('div.stack', { role: 'status' });
	/** @type {T.Undone | null} */
	let plan = null;
	/** @type {T.UndoTarget} */
	let what = {};
	async function look() {
		plan = null;
		if (!since.input.value) return replace(shown);
		const end = until.input.value;
		const asked = what = { since: new Date(since.input.value).toISOString(),
			// The last minute counts as a whole.
			...(end ? { until: new Date(Date.parse(end) + 59_999).toISOString() } : {}) };
		try {
			const found = await lookAt(asked);
			if (asked !== what) return;
			plan = found.plan;
			replace(shown, found.shown);
		} catch (error) {
			if (asked === what) replace(shown, failure(error));
		}
	}
	return confirmDialog({
		title: 'Undo a span of time', wide: true, danger: true, action: 'Undo all',
		content: [h('p.muted', 'What was written through Quipu in this time is taken back as one change, or nothing is. Files that were edited outside stay.'),
			h('div.span-fields', since.element, until.element), shown],
		act: async () => {
			if (!plan) throw new Error('Nothing was undone.');
			await carryOut(what, plan, done);
		},
	});
}
