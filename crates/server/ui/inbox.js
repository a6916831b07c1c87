import { api, messageOf, session } from './api.js';
import { h, replace, visible } from './dom.js';
import { icon } from './icons.js';
import { renderDiffs } from './diff.js';
import { changeRow, memoryLink, pathsOf, undoDialog } from './changes.js';
import { undo } from './actions.js';
import { toast } from './dialog.js';
import { author, count, memoryCount, shortPath } from './format.js';
import { emptyState, pageHead, section, time } from './page.js';
import { href, memoryHref } from './router.js';
import { lastVisit, setLastVisit, store } from './store.js';

/** Most changes loaded; older ones are in the history. */
const CHANGES_MAX = 500;
const FIRST_VISIT_MS = 7 * 86_400_000;

const reviewedKey = () => `lukasa.kept.${session.workspace}`;

function loadReviewed() {
	return new Set(JSON.parse(sessionStorage.getItem(reviewedKey()) ?? '[]'));
}

/** @type {{changes: T.Change[], newest: number, more: boolean}} */
let inbox = { changes: [], newest: 0, more: false };

export async function loadInbox() {
	const mark = lastVisit();
	const oldest = mark === null ? Date.now() - FIRST_VISIT_MS : 0;
	/** @type {T.Change[]} */
	const all = [];
	let cursor = '';
	let done = false;
	while (!done && all.length < CHANGES_MAX) {
		const page = await api.changes({ cursor, max: 100 });
		for (const change of page.changes) {
			if (change.id <= (mark ?? 0) || Date.parse(change.at) < oldest) done = true;
			else all.push(change);
		}
		cursor = page.nextCursor ?? '';
		if (!cursor) done = true;
	}
	const undone = new Set(all.flatMap((change) => change.undoes ?? []));
	const handled = loadReviewed();
	inbox = {
		changes: all.filter((change) => change.actor !== 'person' && !undone.has(change.id) && !handled.has(change.id)),
		newest: all[0]?.id ?? mark ?? 0,
		more: !done,
	};
	// All changes before the oldest open one are reviewed.
	const open = inbox.changes.at(-1);
	if (mark !== null || !open) setLastVisit(Math.max(mark ?? 0, open ? open.id - 1 : inbox.newest));
	store.unread = inbox.changes.length;
	store.emit('inbox');
}

/** @param {T.Change[]} changes */
function saveReviewed(changes) {
	const ids = loadReviewed();
	for (const change of changes) ids.add(change.id);
	inbox.changes = inbox.changes.filter((change) => !ids.has(change.id));
	const open = inbox.changes.at(-1);
	setLastVisit(open ? open.id - 1 : inbox.newest);
	// Only changes after the mark are stored one by one.
	sessionStorage.setItem(reviewedKey(), JSON.stringify([...ids].filter((id) => open && id >= open.id)));
	store.unread = inbox.changes.length;
	store.emit('inbox');
}

/** @param {T.Change[]} changes */
function groups(changes) {
	/** @type {Map<string, T.Group>} */
	const map = new Map();
	for (const change of changes) {
		const key = change.task ?? (change.session ? `${change.client}/${change.session}` : `${change.actor}/${change.client ?? ''}`);
		const group = map.get(key) ?? { key, changes: [] };
		group.changes.push(change);
		map.set(key, group);
	}
	return [...map.values()];
}

/** @param {T.Group} group @param {boolean} first */
function groupCard(group, first) {
	const [latest] = group.changes;
	if (!latest) return h('div');
	const paths = new Set(group.changes.flatMap(pathsOf));
	const kind = latest.task ? latest.task.split('-')[0] : latest.session ? `session ${latest.session}` : '';
	const undoAll = () => undoDialog({ changes: group.changes.map((change) => change.id) }, () => loadInbox());
	return h('article.card.group', { 'aria-label': `Changes by ${author(latest)}` },
		h('header.group-head.bar',
			h('div', h('h3', h('span', { class: `actor actor-${latest.actor}` }, author(latest)), kind ? h('span.group-kind', visible(kind)) : null),
				h('p.muted', `${count(group.changes.length, 'change')} in ${memoryCount(paths.size)} · `, time(latest.at))),
			h('div.bar',
				h('button.small', { onclick: () => saveReviewed(group.changes) }, icon('check'), group.changes.length > 1 ? 'Keep all' : 'Keep'),
				group.changes.length > 1 ? h('button.small', { onclick: undoAll }, icon('undo'), 'Undo all') : null)),
		h('ol.changes', group.changes.map((change, i) => {
			const path = change.files[0]?.movedTo ?? change.files[0]?.path ?? '';
			return changeRow(change, {
				showAuthor: false, open: first && i === 0, onUndone: () => loadInbox(),
				actions: [
					group.changes.length > 1 ? h('button.small', { 'aria-label': `Keep change ${change.id}`, onclick: () => saveReviewed([change]) }, icon('check'), 'Keep') : null,
					store.memories.has(path) ? h('a.button.small', { href: memoryHref(path), 'aria-label': `Edit ${shortPath(path)}` }, 'Edit') : null,
				].filter((element) => element !== null),
			});
		})));
}

/** @type {Record<string, string>} */
const REASONS = {
	repetition: 'Says the same', contradiction: 'Contradicts', update: 'May be outdated', expiry: 'Has expired', misplacement: 'Belongs elsewhere', removal: 'May no longer hold', review: 'Needs your review',
};

/**
 * @param {T.Proposal} proposal
 * @param {boolean} selected
 * @param {(on: boolean) => void} select
 * @param {(action: 'accept' | 'reject', ids: number[]) => void} decide
 */
function proposalCard(proposal, selected, select, decide) {
	const review = proposal.kind === 'review';
	const box = h('input', { type: 'checkbox', id: `proposal-${proposal.id}`, checked: selected, 'aria-label': `Select proposal ${proposal.id}`, onchange: (event) => select(event.target.checked) });
	const paths = review && proposal.review ? [proposal.review.path] : [...new Set(proposal.changes.map((entry) => entry.path))];
	const first = paths[0] ?? '';
	return h('article', { class: `card proposal stack ${review ? 'review' : ''}`, 'aria-label': REASONS[proposal.kind] ?? proposal.kind },
		h('header.proposal-head', review ? null : box,
			h('div.proposal-main',
				h('h3', REASONS[proposal.kind] ?? proposal.kind,
					h('span.group-kind', review ? proposal.origin : `${proposal.origin} · ${proposal.score} % likely`)),
				h('p.paths', paths.map(memoryLink)))),
		h(review ? 'p.reason.review-note' : 'p.reason', visible(proposal.reason)),
		proposal.stale ? h('p.warning-text', icon('warning'), visible(proposal.stale)) : renderDiffs(proposal.diffs),
		h('div.card-actions.bar',
			h('button.small.primary', { disabled: !!proposal.stale, onclick: () => decide('accept', [proposal.id]) }, icon('check'), review ? 'I have read it: accept' : 'Accept'),
			h('button.small', { onclick: () => decide('reject', [proposal.id]) }, icon('close'), 'Reject'),
			store.memories.has(first) ? h('a.button.small', { href: memoryHref(first) }, 'Edit') : null,
			time(proposal.madeAt)));
}

export function inboxView() {
	const waiting = h('div');
	const changes = h('div');
	/** @type {Set<number>} */
	let chosen = new Set();

	/** @param {'accept' | 'reject'} action @param {number[]} ids */
	async function decide(action, ids) {
		try {
			const { decisions } = await api.decide(action, ids);
			const made = decisions.flatMap((decision) => decision.change ?? []);
			const failed = decisions.filter((decision) => !decision.done);
			const done = decisions.length - failed.length;
			if (done) {
				toast(`${action === 'accept' ? 'Accepted' : 'Rejected'} ${count(done, 'proposal')}`, made.length ? { action: 'Undo', act: () => undo({ changes: made }) } : {});
			}
			if (failed.length) toast(`${count(failed.length, 'proposal')} not decided: ${failed[0]?.error ?? failed[0]?.code}`, { error: true });
			chosen = new Set([...chosen].filter((id) => !ids.includes(id)));
			for (const proposal of store.proposals.filter(({ id }) => ids.includes(id))) for (const entry of proposal.changes) store.refresh(entry.path);
			await store.loadPending();
		} catch (error) {
			toast(messageOf(error), { error: true });
		}
	}

	let shownProposals = '';
	let shownChanges = '';

	function showWaiting() {
		// Open and focused items stay while they are valid.
		const state = JSON.stringify([store.proposals, [...chosen].length]);
		if (state === shownProposals) return;
		shownProposals = state;
		const open = new Set(store.proposals.map((proposal) => proposal.id));
		chosen = new Set([...chosen].filter((id) => open.has(id)));
		if (!store.proposals.length) {
			replace(waiting);
			return;
		}
		const bar = h('div.bulk-actions.bar');
		// Proposals that must be read are decided one by one.
		const several = store.proposals.filter((proposal) => proposal.kind !== 'review' && !proposal.stale).map((proposal) => proposal.id);
		const showBar = () => {
			const all = h('input', {
				type: 'checkbox', id: 'select-all', checked: chosen.size > 0 && chosen.size === several.length, disabled: !several.length, onchange: () => {
					chosen = new Set(all.checked ? several : []);
					showWaiting();
				},
			});
			const ids = [...chosen];
			replace(bar, h('label', all, chosen.size ? `${chosen.size} selected` : 'Select all'),
				h('button.small.primary', { disabled: !ids.length,
					onclick: () => decide('accept', ids),
				}, 'Accept'),
				h('button.small', { disabled: !ids.length, onclick: () => decide('reject', ids) }, 'Reject'));
		};
		showBar();
		// Text that may carry injected instructions comes first.
		const sorted = [...store.proposals].sort((a, b) => Number(b.kind === 'review') - Number(a.kind === 'review'));
		replace(waiting, section('Waiting for your decision', sorted.map((proposal) => proposalCard(proposal, chosen.has(proposal.id), (on) => {
			if (on) chosen.add(proposal.id);
			else chosen.delete(proposal.id);
			showBar();
		}, (action, ids) => decide(action, ids))), bar));
	}

	function showChanges() {
		const state = inbox.changes.map((change) => change.id).join() + store.loaded + store.proposals.length;
		if (state === shownChanges) return;
		shownChanges = state;
		const list = groups(inbox.changes);
		replace(changes, list.length
			? section(lastVisit() === null ? 'Changes of the last week' : 'Changes since your last visit', [
				...list.map((group, i) => groupCard(group, i === 0)),
				inbox.more ? h('p.muted', 'There are older changes. ', h('a', { href: href('history') }, 'Open the history')) : null,
			].filter((element) => element !== null), h('button.small', { onclick: () => saveReviewed([...inbox.changes]) }, icon('check'), 'Keep everything'))
			: store.proposals.length ? null : emptyState('inbox', 'All caught up', 'What agents change shows up here, with a diff and a way back.', h('a.button', { href: href('history') }, 'Show history')));
	}

	const refresh = () => {
		showWaiting();
		showChanges();
	};
	const off = [store.on('pending', refresh), store.on('inbox', showChanges)];
	refresh();
	loadInbox().catch(() => {});
	store.loadPending().catch(() => {});
	return {
		title: 'Inbox',
		element: h('div.page', pageHead('Inbox', ['What agents and tasks did, and what they propose']), waiting, changes),
		dispose: () => off.forEach((end) => end()),
	};
}
