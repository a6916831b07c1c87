import { api } from './api.js';
import { h, replace, visible } from './dom.js';
import { icon } from './icons.js';
import { searchBox } from './find.js';
import { memoryLink } from './changes.js';
import { pinMemories } from './actions.js';
import { bytes, count, memoryCount, number, PARTS, sentence } from './format.js';
import { truncatedList, emptyState, failure, pageHead, section } from './page.js';
import { go, href } from './router.js';
import { store } from './store.js';

const TEXT_MAX = 60_000;
const LISTED = 8;

/** @param {T.Route} route */
export function contextView(route) {
	const content = h('div.stack');
	const limits = h('p.muted', { role: 'status', hidden: true });
	let q = route.query.get('q') ?? '';
	let agent = route.query.get('agent') ?? '';
	let shown = '';
	/** @type {T.Host[]} */
	let hosts = [];
	let timer = 0;
	const select = h('select', { 'aria-label': 'Agent', onchange: () => {
		agent = select.value;
		note();
		load();
	} }, h('option', { value: '' }, 'Any agent, no limit'));

	const note = () => history.replaceState(null, '', href('context', '', { ...(agent ? { agent } : {}), ...(q ? { q } : {}) }));

	async function load() {
		const host = hosts.find(({ name }) => name === agent);
		limits.hidden = !host;
		if (host) replace(limits, `${host.title} passes on at most ${bytes(host.contextBytesMax)}, and shows ${host.contextFilesLoaded.join(', ')} itself.`);
		try {
			const context = await api.context(host);
			if (host?.name !== hosts.find(({ name }) => name === agent)?.name) return;
			// What is open stays open while nothing else is shown.
			const state = JSON.stringify([context, agent, store.loaded, [...store.memories.values()].filter((item) => item.pinned).length]);
			if (state === shown) return;
			shown = state;
			replace(content, ...render(context));
		} catch (error) {
			shown = '';
			replace(content, failure(error));
		}
	}
	const off = store.on('memories', () => {
		clearTimeout(timer);
		timer = setTimeout(load, 500);
	});
	api.hosts().then((answer) => {
		hosts = answer.hosts;
		select.append(...hosts.map(({ name, title }) => h('option', { value: name }, title)));
		select.value = agent;
		if (select.selectedIndex < 0) select.value = agent = '';
	}, () => {}).then(load);
	return {
		title: 'In context now',
		element: h('div.page', pageHead('In context now', ['What a model is shown when a session begins in this workspace'], h('label.inline', 'Shown to ', select)), limits, content,
			searchBox(q, (asked) => {
				q = asked;
				note();
			})),
		dispose() {
			off();
			clearTimeout(timer);
		},
	};
}

/** @param {T.Context} context */
function render(context) {
	const { files, skipped, hot } = context;
	if (!context.parts.length && !skipped.length) return [emptyState('context', 'Nothing is shown', 'There are no context files, and no memories to list.')];
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
	const index = parts.find(({ part }) => part === 'index')?.text ?? '';
	const listed = new Set([...index.matchAll(/^- (\/memories\/.*?)(?: — ".*")? \(\d+\)(?: \[.*\])?$/gm)].map((match) => match[1] ?? ''));
	const shown = hot.filter((one) => one.shown);
	const known = new Set(hot.map(({ path }) => path));
	const unlisted = [...store.memories.keys()].filter((path) => !listed.has(path) && !known.has(path));
	const out = hot.filter((one) => !one.shown);
	/** @type {Record<string, string>} */
	const told = {
		index: memoryCount(listed.size), hot_set: `${number(context.factsShown)} of ${count(context.facts, 'fact')}`, context_files: count(files.length, 'file'),
	};
	return [
		section('Parts', [h('div.card', parts.length ? bar : h('p.note', 'Nothing is shown.'), parts.map((part) => h('details.part',
			h('summary', icon('chevron'), h('span', { class: `swatch ${part.part}`, 'aria-hidden': 'true' }), h('span.part-name', PARTS[part.part] ?? part.part, h('span.muted', told[part.part] ?? '')),
				h('span.part-size', `${number(part.tokens)} tokens`), h('span.part-size.muted', bytes(part.bytes))),
			h('pre.part-text', { tabindex: 0, role: 'region', 'aria-label': `Text: ${part.part}` }, visible(part.text.slice(0, TEXT_MAX)))))),
		], h('span.muted', `${number(context.tokens)} tokens · ${bytes(all.length)} in all`)),
		unlisted.length ? section('Not named', [h('div.card', truncatedList('ul', unlisted, LISTED, (path) => h('li.why-row', memoryLink(path))))],
			h('span.muted', 'There is no room: a model sees how many each folder holds')) : null,
		files.length || skipped.length ? section('Context files', [h('ul.card', files.map((file) => h('li.why-row', h('span.path.grow', visible(file.path)),
				h('span.muted', file.parent ? ['imported by ', ...visible(file.parent.split('/').pop() ?? '')] : file.scope), file.cut ? h('span.badge.plain', 'cut') : null, h('span.muted', `${number(file.tokens)} tokens`))),
			skipped.map((file) => h('li.why-row', h('span.path.grow.muted', visible(file.path)), h('span.muted', visible(sentence(file.why))),
				/not trusted/.test(file.why) ? h('a.button.small', { href: href('settings') }, 'Trust…') : h('span.badge.plain', 'left out'))))]) : null,
		section(PARTS.hot_set ?? '', [shown.length ? h('ul.card', shown.map(hotRow))
			: emptyState('pin', 'No facts are given', 'Pin a memory.', h('button', { onclick: () => go(href('memories')) }, 'Choose one')),
		...out.length ? [h('details.card.left-out', h('summary', icon('chevron'), h('span.part-name', 'Left out'), h('span.muted', memoryCount(out.length))), truncatedList('ul', out, LISTED, hotRow))] : []],
		h('span.muted', context.facts === context.factsShown ? 'All facts' : 'Pins, rules, facts about you, then the latest')),
	].filter((element) => element !== null);
}

/** @param {T.HotMemory} hot */
function hotRow({ path, shown, whole, pinned, why }) {
	const item = store.memories.get(path);
	return h('li.why-row', h('div.grow', h('strong', { dir: 'auto' }, visible(item?.name || item?.description || '')), memoryLink(path)),
		h('span.why', pinned ? icon('pin') : null, visible(why)), shown && !whole ? h('span.badge.plain', 'in part') : null,
		item ? h('button.small', { 'aria-label': `${item.pinned ? 'Unpin' : 'Pin'} ${path}`, onclick: () => pinMemories([item], !item.pinned) }, item.pinned ? 'Unpin' : 'Pin') : null);
}
