import { deleteMemories } from './actions.js';
import { api, messageOf } from './api.js';
import { confirmDialog, toast } from './dialog.js';
import { h, replace, visible } from './dom.js';
import { bytes, count, number, sentence, shortPath } from './format.js';
import { icon } from './icons.js';
import { truncatedList, emptyState, failure, pageHead, prose, section } from './page.js';
import { go, href, memoryHref } from './router.js';
import { labelOf } from './rows.js';
import { store } from './store.js';

const LISTED = 5;

/** @type {Record<string, string>} */
const KINDS = {
	screened: 'Looks like a secret or an attack', 'conflict-marker': 'Merge conflicts', 'malformed-frontmatter': 'Fields that cannot be read',
	'second-frontmatter': 'Fields given twice', 'not-text': 'Files that are no text', 'over-cap': 'Too large', unreadable: 'Cannot be read',
	'unaddressable-name': 'Names that cannot be used', link: 'Links', 'not-a-file': 'Neither file nor folder', 'left-over-temporary': 'Left over by a write',
	'interrupted-commit': 'Writes that did not end', 'orphaned-state': 'Pins of memories that are gone', 'over-full': 'Full', 'nearly-full': 'Nearly full',
	'root-refused': 'A folder that cannot be used', unwritable: 'A folder that cannot be written', 'disk-full': 'The disk is full',
	'state-damaged': 'The records are damaged', 'state-unavailable': 'The records cannot be read',
	'missing-description': 'Without description', 'repeated-entry': 'Duplicates', stale: 'Not touched for half a year',
	'unquoted-value': 'Fields without quotes',
};
/** Findings that the page cannot link to. */
const CLOSED = ['not-text', 'over-cap', 'unreadable'];

export function healthView() {
	const scopes = h('div.scope-cards');
	const found = h('div.stack', { role: 'status' }, h('p.note', 'Looking at every memory…'));
	let shown = '';
	let timer = 0;

	async function load() {
		api.stats().then((stats) => replace(scopes, stats.scopes.map(scopeCard)), (error) => replace(scopes, failure(error)));
		try {
			const health = await api.health();
			// Unchanged lists keep what is open and focused.
			const state = JSON.stringify(health) + store.loaded;
			if (state === shown) return;
			shown = state;
			show(health);
		} catch (error) {
			replace(found, failure(error));
		}
	}

	/** @param {T.Health} health */
	function show({ findings, advice }) {
		const fixable = findings.filter((finding) => finding.fixable).length;
		replace(found,
			findings.length ? section('Needs attention', groups(findings).map((group) => card(group, true)), fixable ? h('button.small.primary', { onclick: () => repair() }, icon('check'), `Repair ${count(fixable, 'thing')}`) : null) : null,
			advice.length ? section('Could be better', groups(advice).map((group) => card(group, false))) : null,
			findings.length + advice.length ? null : emptyState('check', 'All is well', 'Every memory can be read, has a description, and says something of its own.'));
	}

	async function repair() {
		try {
			const { done } = await api.mend();
			await load();
			await confirmDialog({ title: done.length ? `Repaired ${count(done.length, 'thing')}` : 'Nothing was left to repair', content: [h('ul.plain-list', done.map((what) => h('li', prose(sentence(what)))))] });
		} catch (error) {
			toast(messageOf(error), { error: true });
		}
	}

	const off = store.on('memories', () => {
		clearTimeout(timer);
		timer = setTimeout(load, 500);
	});
	load();
	return {
		title: 'Health',
		element: h('div.page', pageHead('Health', ['How much there is, and what to look at']), section('Scopes', [scopes]), found),
		dispose() {
			off();
			clearTimeout(timer);
		},
	};
}

/** @param {T.HealthFinding[]} findings @returns {[string, T.HealthFinding[]][]} */
function groups(findings) {
	/** @type {Map<string, T.HealthFinding[]>} */
	const kinds = new Map();
	for (const finding of findings) kinds.set(finding.kind, [...kinds.get(finding.kind) ?? [], finding]);
	return [...kinds];
}

/** @param {[string, T.HealthFinding[]]} group @param {boolean} warn */
function card([kind, findings], warn) {
	const title = KINDS[kind] ?? sentence(kind.replaceAll('-', ' ')).slice(0, -1);
	// Text that all share is shown once.
	const same = new Set(findings.map(({ detail }) => detail)).size === 1 && !/^line /.test(findings[0]?.detail ?? '');
	return h('article.card.health', { 'aria-label': title },
		h('header.bar.spread', h('div', h('h3', warn ? icon('warning') : null, title, h('span.count', number(findings.length))), same ? h('p.muted', prose(sentence(findings[0]?.detail ?? ''))) : null),
			kind === 'repeated-entry' ? h('button.small', { onclick: () => tidyUp() }, 'Tidy up') : null),
		truncatedList('ul', findings, LISTED, (finding) => row(finding, same)));
}

/** @param {T.HealthFinding} finding @param {boolean} told whether the detail is said already */
function row({ kind, subject, path, detail }, told) {
	const item = path ? store.memories.get(path) : undefined;
	// The sentence names the other memory.
	const same = /(\/memories\/.+?) says;/.exec(detail)?.[1];
	const line = /^line (\d+)/.exec(detail)?.[1];
	const at = kind === 'missing-description' ? 'description' : line ?? '';
	const link = (/** @type {string} */ to, /** @type {string} */ label, /** @type {string} */ from = '') =>
		h('a.button.small', { href: memoryHref(to) + (from && `?at=${from}`), 'aria-label': `${label}: ${shortPath(to)}` }, label);
	return h('li', h('div.health-main',
		h('p.health-name', { dir: 'auto' }, visible(item ? labelOf(item) : shortPath(subject))),
		item ? h('p.path.muted', visible(shortPath(subject))) : null,
		told ? null : h('p.muted', prose(sentence(detail)))),
	h('div.bar', path && !CLOSED.includes(kind) ? link(path, kind === 'missing-description' ? 'Describe' : 'Open', at) : null,
		same && same !== path && store.memories.has(same) ? link(same, 'Open the other') : null,
		kind === 'stale' && item ? h('button.small.danger-text', { 'aria-label': `Delete: ${shortPath(item.path)}`, onclick: () => deleteMemories([item]) }, 'Delete') : null,
		kind.endsWith('-full') && kind !== 'disk-full' ? h('a.button.small', { href: href('settings', '', { find: 'files_max' }) }, 'Settings') : null));
}

async function tidyUp() {
	try {
		await api.startTask('dream', {});
		go(href('tasks'));
	} catch (error) {
		toast(messageOf(error), { error: true });
	}
}

/** @param {T.ScopeStats} scope */
function scopeCard(scope) {
	const share = scope.memories / scope.memoriesMax;
	const name = scope.scope.charAt(0).toUpperCase() + scope.scope.slice(1);
	const fill = h('span', { class: share > 0.9 ? 'meter-fill full' : 'meter-fill' });
	fill.style.setProperty('width', `${Math.min(100, Math.max(share * 100, scope.memories ? 0.8 : 0))}%`);
	return h('article.card.scope-card.stack', { 'aria-label': name }, h('h3', name),
		scope.unavailable ? h('p.muted', scope.unavailable) : [
			h('p.scope-number', number(scope.memories), h('span.muted', ` of ${number(scope.memoriesMax)}`)),
			h('div.meter', { role: 'meter', 'aria-label': `${name}: memories`, 'aria-valuemin': 0, 'aria-valuemax': scope.memoriesMax, 'aria-valuenow': scope.memories }, fill),
			h('p.muted', bytes(scope.bytes)),
		]);
}
