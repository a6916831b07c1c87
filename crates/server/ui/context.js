// @ts-check
import { api } from './api.js';
import { h, replace, visible } from './dom.js';
import { icon } from './icons.js';
import { findBox } from './find.js';
import { memoryLink } from './changes.js';
import { pinMemories } from './actions.js';
import { ago, bytes, number, PARTS } from './format.js';
import { emptyState, failure, pageHead, section } from './page.js';
import { go, href } from './router.js';
import { store } from './store.js';

const TEXT_MAX = 60_000;

/** @param {T.Route} route */
export function contextView(route) {
	const content = h('div');
	let timer = 0;

	async function load() {
		try {
			const context = await api.context();
			replace(content, ...render(context));
		} catch (error) {
			replace(content, failure(error));
		}
	}
	const off = store.on('memories', () => {
		clearTimeout(timer);
		timer = setTimeout(() => load(), 500);
	});
	load();
	return {
		title: 'In context now',
		element: h('div.page', pageHead('In context now', ['What a model is shown when a session begins in this workspace']), content,
			findBox(route.query.get('q') ?? '', (q) => history.replaceState(null, '', href('context', '', { q })))),
		dispose() {
			off();
			clearTimeout(timer);
		},
	};
}

/** @param {T.SegmentContext} context */
function render(context) {
	if (!context.parts.length) return [emptyState('context', 'Nothing is shown', 'There are no context files, and no memories to list.')];
	const all = new TextEncoder().encode(context.text);
	const total = context.parts.reduce((sum, part) => sum + part.bytes, 0) || 1;
	// Parts are joined by at most a newline, so each is looked for after the one before.
	let from = 0;
	const decoder = new TextDecoder();
	const parts = context.parts.map((part) => {
		while (from < all.length && all[from] === 10) from++;
		const text = decoder.decode(all.subarray(from, from + part.bytes));
		from += part.bytes;
		return { ...part, text };
	});
	const bar = h('div.share-bar', { 'aria-hidden': 'true' }, parts.map((part) => {
		const share = h('span', { class: `share ${part.part}` });
		share.style.setProperty('flex-grow', String(Math.max(part.bytes / total, 0.01)));
		return share;
	}));
	const hot = parts.find((part) => part.part === 'hot_set');
	const paths = hot ? [...hot.text.matchAll(/^<memory_file path="([^"\n]+)"/gm)].map((match) => match[1] ?? '') : [];
	return [
		section('Parts', [h('div.card', bar, parts.map((part) => h('details.part',
			h('summary', icon('chevron'), h('span', { class: `swatch ${part.part}`, 'aria-hidden': 'true' }), h('span.part-name', PARTS[part.part] ?? part.part),
				h('span.part-size', `${number(part.tokens)} tokens`), h('span.part-size.muted', bytes(part.bytes))),
			h('pre.part-text', { tabindex: 0, role: 'region', 'aria-label': `Text: ${part.part}` }, visible(part.text.slice(0, TEXT_MAX)))))),
		], h('span.muted', `${number(context.tokens)} tokens · ${bytes(all.length)} in all`)),
		section('Memories given whole', [paths.length ? h('ul.card.hot', paths.map((path) => {
			const item = store.memories.get(path);
			return h('li', h('div.hot-main', h('strong', { dir: 'auto' }, visible(item?.name ?? item?.description ?? '')), memoryLink(path)),
				h('span.why', item?.pinned ? [icon('pin'), 'Pinned'] : item?.uses ? `Used ${number(item.uses)}×, ${ago(item.lastUsedAt)}` : 'Used lately'),
				item ? h('button.small', { 'aria-label': `${item.pinned ? 'Unpin' : 'Pin'} ${path}`, onclick: () => pinMemories([item], !item.pinned) }, item.pinned ? 'Unpin' : 'Pin') : null);
		})) : emptyState('pin', 'No memory is given whole', 'Pin one, or let agents use some: the most used are given whole.', h('button', { onclick: () => go(href('memories')) }, 'Choose one'))],
		h('span.muted', 'Pinned first, then the most used')),
	];
}
