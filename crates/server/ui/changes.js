import { api, ApiError, messageOf } from './api.js';
import { h, replace, visible } from './dom.js';
import { icon } from './icons.js';
import { renderDiffs } from './diff.js';
import { confirmDialog, toast } from './dialog.js';
import { ago, author, count, KINDS, memoryCount, number, shortPath } from './format.js';
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
				change.note ? h('p.muted', visible(change.note)) : null,
				time(change.at)),
			h('div.change-actions.bar', actions,
				h('button.small', { 'aria-label': `Undo change ${change.id}`, onclick: () => undoDialog({ changes: [change.id] }, onUndone) }, icon('undo'), 'Undo'))),
		details);
	if (open) setOpen(true);
	return element;
}

/** Most changes that a request names and a dialog lists one by one. */
const NAMED_MAX = 1000;
const DIFFS_MAX = 10;

/** Returns what an undo would do. @param {T.UndoTarget} what */
async function previewUndo(what) {
	const plan = await api.undo(what, true);
	const changes = plan.undone.length > DIFFS_MAX ? [] : await Promise.all(plan.undone.map((id) => api.change(id)));
	return { plan, shown: [
		h('p', `This undoes ${count(plan.undone.length, 'change')} in ${memoryCount(plan.paths.length)}:`), pathList(plan.paths),
		renderDiffs(changes.flatMap((change) => change.diffs ?? []), true),
		plan.warnings.length ? h('p.warning-text', icon('warning'), `Screening warns of ${[...new Set(plan.warnings.map((w) => w.rule))].join(', ')}.`) : null,
	] };
}

/** @param {T.UndoTarget} what @param {T.Undone} plan */
async function explicitTarget(what, { undone }) {
	if (undone.length <= NAMED_MAX) return { changes: undone };
	if (!what.since) throw new Error(`These are more than ${number(NAMED_MAX)} changes. Undo them in parts: History, “Undo a span of time”.`);
	// The span ends with the last change shown, whose time is rounded down to milliseconds.
	const { at } = await api.change(Math.max(...undone));
	return { since: what.since, until: new Date(Date.parse(at) + 1).toISOString() };
}

/** Undoes what was shown, even if there are newer changes. @param {T.UndoTarget} what @param {T.Undone} plan @param {T.Done} [done] */
async function applyPlan(what, plan, done) {
	const { change } = await undo(await explicitTarget(what, plan));
	done?.(true);
	toast(plan.undone.length === 1 ? 'The change was undone' : `${count(plan.undone.length, 'change')} undone`, change ? {
		action: 'Redo', act: async () => {
			await undo({ changes: [change] });
			done?.(false);
		},
	} : {});
}

/** A note if part of this is undone already. @param {T.UndoTarget} what */
async function alreadyUndoneNote({ changes, task, session }) {
	const own = new Set(changes ?? (task || session ? (await api.changes({ task, session, max: NAMED_MAX })).changes.map(({ id }) => id) : []));
	const undos = (await api.changes({ actor: 'person', max: 200 })).changes.filter(({ undoes }) => undoes);
	const redone = new Set(undos.map(({ undoes }) => undoes));
	const last = undos.find(({ id, undoes }) => undoes && own.has(undoes) && !redone.has(id));
	return last ? `Change ${last.id} undid this already, at least in part, ${ago(last.at)}.` : '';
}

/** @param {T.UndoTarget} what @param {T.Done} [done] */
export async function undoDialog(what, done) {
	try {
		const { plan, shown } = await previewUndo(what);
		const { length } = plan.undone;
		if (!length) throw new ApiError(404, 'not_found', 'Nothing is left to undo.');
		await confirmDialog({
			title: length === 1 ? `Undo change ${plan.undone[0]}?` : `Undo ${count(length, 'change')}?`, again: () => undoDialog(what, done),
			wide: true, content: shown, action: length === 1 ? 'Undo' : 'Undo all', danger: length > 1, act: () => applyPlan(what, plan, done),
		});
	} catch (error) {
		const back = await alreadyUndoneNote(what).catch(() => '');
		await confirmDialog({ title: back ? 'This was undone already' : 'This cannot be undone', content: [back ? h('p', back) : null, h('p', messageOf(error))] });
	}
}

/** Undoes what was written in a chosen time. @param {T.Done} done @param {string[]} [times] from and until */
export function spanDialog(done, times = []) {
	/** @param {string} id @param {string} label @param {string} [value] @param {string} [hint] */
	const field = (id, label, value = '', hint) => {
		const input = h('input', { id, value, type: 'datetime-local', max: '9999-12-31T23:59', required: id === 'span-since', oninput: () => look() });
		return { input, element: h('div.field.stack', h('label', { for: id }, label), input, hint ? h('p.hint', hint) : null) };
	};
	const since = field('span-since', 'From', times[0]);
	const until = field('span-until', 'Until', times[1], 'Left empty: until now');
	const shown = h('div.stack', { role: 'status' });
	/** @type {(on: boolean) => void} */
	let ready = () => {};
	/** @type {T.Undone | null} */
	let plan = null;
	/** @type {T.UndoTarget} */
	let what = {};
	async function look() {
		plan = null;
		const asked = what = {};
		ready(false);
		replace(shown);
		const [from, end] = [since.input.value, until.input.value];
		if (!from || ![since, until].every(({ input }) => input.validity.valid)) return;
		try {
			Object.assign(asked, { since: new Date(from).toISOString(),
				// The last minute counts as a whole.
				...(end ? { until: new Date(Date.parse(end) + 59_999).toISOString() } : {}) });
			const found = await previewUndo(asked);
			if (asked !== what) return;
			plan = found.plan;
			replace(shown, found.shown);
			ready(plan.undone.length > 0);
		} catch (error) {
			if (asked === what) replace(shown, failure(error));
		}
	}
	return confirmDialog({
		title: 'Undo a span of time', wide: true, danger: true, action: 'Undo all', again: () => spanDialog(done, [since.input.value, until.input.value]),
		ready(set) {
			ready = set;
			look();
		},
		content: [h('p.muted', 'What was written through Lukasa in this time is undone as one change, or not at all. Files edited outside stay.'),
			h('div.span-fields', since.element, until.element), shown],
		act: async () => {
			if (plan) await applyPlan(what, plan, done);
		},
	});
}
