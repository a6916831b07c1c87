// @ts-check
import { api } from './api.js';
import { h, replace, visible } from './dom.js';
import { icon } from './icons.js';
import { ago, bytes, number, shortPath } from './format.js';
import { labelOf } from './rows.js';
import { failure, pageHead, section } from './page.js';
import { memoryHref } from './router.js';
import { store } from './store.js';

const LISTED = 8;

/**
 * Whether a memory has no description of its own. The list falls back to the first heading or line, so
 * frontmatter is taken for present when it gave a name or a type.
 * @param {T.MemoryItem} item
 */
const lacksDescription = (item) => !item.description || (!item.name && !item.type);

export function overviewView() {
	const scopes = h('div.scope-cards');
	const lists = h('div.health-lists');

	async function load() {
		try {
			replace(scopes, (await api.stats()).scopes.map(scopeCard));
		} catch (error) {
			replace(scopes, failure(error));
		}
	}

	function showLists() {
		const items = [...store.memories.values()];
		replace(lists,
			list('Screening objects', 'A rule was broken by text that came from outside or is older than the rule.', items.filter((item) => item.findings.length), (item) => item.findings[0]?.rule ?? '', true),
			list('Not reviewed', 'Came from outside Quipu. Open, read and save it to answer for it.', items.filter((item) => item.trust === 'outside'), (item) => ago(item.modifiedAt), true),
			list('Without description', 'The index shows a description. Without one, agents see the first line.', items.filter(lacksDescription), (item) => bytes(item.bytes)),
			list('Never used', 'No agent has looked at these yet.', items.filter((item) => item.uses === 0), (item) => ago(item.lastWrittenAt ?? item.modifiedAt)),
			list('Largest', 'A memory is best when it fits on a screen.', [...items].sort((a, b) => b.bytes - a.bytes).slice(0, 5), (item) => bytes(item.bytes)));
	}

	const off = store.on('memories', () => {
		showLists();
		load();
	});
	showLists();
	load();
	return {
		title: 'Overview',
		element: h('div.page', pageHead('Overview', ['How much there is, and what to look at']), section('Scopes', [scopes]), section('Worth a look', [lists])),
		dispose: off,
	};
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

/** @param {string} title @param {string} about @param {T.MemoryItem[]} items @param {(item: T.MemoryItem) => string} value @param {boolean} [warn] */
function list(title, about, items, value, warn = false) {
	if (!items.length) return null;
	return h('article.card.health', { 'aria-label': title },
		h('header', h('h3', warn ? icon('warning') : null, title, h('span.count', number(items.length))), h('p.muted', about)),
		h('ul', items.slice(0, LISTED).map((item) => h('li', {},
			h('a', { href: memoryHref(item.path), title: shortPath(item.path) }, h('span.health-name', { dir: 'auto' }, visible(labelOf(item))), h('span.path', visible(shortPath(item.path)))),
			h('span.health-value', visible(value(item)))))),
		items.length > LISTED ? h('p.muted.health-more', `and ${number(items.length - LISTED)} more`) : null);
}
