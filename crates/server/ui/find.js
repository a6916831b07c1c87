import { api } from './api.js';
import { h, replace, visible } from './dom.js';
import { memoryLink } from './changes.js';
import { failure, section, time } from './page.js';

/** Shorter words are in every memory. */
const WORD_MIN = 4;
const WORDS_MAX = 4;
const SHOWN_MAX = 30;

/** @param {string} initial @param {(query: string) => void} asked */
export function searchBox(initial, asked) {
	const input = h('input', { type: 'search', id: 'prompt', value: initial, autocomplete: 'off', placeholder: 'How do we deploy to staging?', dir: 'auto' });
	const recall = h('div.find-list');
	const search = h('div.find-list');
	const results = h('div.find-results', { hidden: true, 'aria-live': 'polite' },
		h('section.card', { 'aria-label': 'Recall' }, h('header', h('h3', 'Recall'), h('p.muted', 'The memories that fit best. Beside a prompt, a model is given at most three, and no weak ones.')), recall),
		h('section.card', { 'aria-label': 'Search' }, h('header', h('h3', 'Search'), h('p.muted', 'Lines that hold the text, or else its words')), search));
	let current = 0;

	async function run() {
		const query = input.value.trim();
		results.hidden = !query;
		if (!query) return;
		const mine = ++current;
		asked(query);
		replace(recall, h('p.note', 'Looking…'));
		replace(search, h('p.note', 'Looking…'));
		api.recall(query).then((found) => {
			if (mine !== current) return;
			replace(recall, found.memories.length ? h('ol', found.memories.map((memory) => h('li', {},
				h('div.find-title', h('strong', { dir: 'auto' }, visible(memory.title)), memory.savedAt ? time(memory.savedAt) : null),
				memoryLink(memory.path),
				memory.alsoIn?.length ? h('p.muted', 'The same in ', memory.alsoIn.map((path) => memoryLink(path))) : null,
				h('p.muted', `Score ${memory.score.toFixed(2)}${memory.weak ? ', weak: it may not help' : ''}`),
				h('p.why', visible(memory.why)),
				memory.unreviewed ? h('p.warning-text', memory.unreviewed === 'influenced' ? 'An agent wrote it after reading unreviewed text' : 'Came with the repository, not reviewed') : null)))
				: h('p.note', 'No memory fits.'));
		}, (error) => replace(recall, failure(error)));
		try {
			let matches = (await api.search(query)).matches;
			let words = [query];
			if (!matches.length) {
				words = query.split(/[^\p{L}\p{N}_-]+/u).filter((word) => word.length >= WORD_MIN).slice(0, WORDS_MAX);
				const all = await Promise.all(words.map((word) => api.search(word)));
				/** @type {Map<string, T.Match>} */
				const unique = new Map();
				for (const match of all.flatMap((found) => found.matches)) unique.set(`${match.path}:${match.line}`, match);
				matches = [...unique.values()];
			}
			if (mine !== current) return;
			showMatches(matches, words);
		} catch (error) {
			replace(search, failure(error));
		}
	}

	/** @param {T.Match[]} matches @param {string[]} words */
	function showMatches(matches, words) {
		/** @type {Map<string, T.Match[]>} */
		const byPath = new Map();
		for (const match of matches.slice(0, SHOWN_MAX)) byPath.set(match.path, [...byPath.get(match.path) ?? [], match]);
		replace(search, byPath.size ? h('ol', [...byPath].map(([path, lines]) => h('li', memoryLink(path),
			lines.sort((a, b) => a.line - b.line).map((line) => h('p.match', h('span.match-line', String(line.line)), h('span', { dir: 'auto' }, highlight(line.text.slice(0, 300), words)))))))
			: h('p.note', 'No line holds this.'));
	}

	if (initial) run();
	return section('Try a prompt', [h('form.find-form', { onsubmit: (event) => { event.preventDefault(); run(); } },
			h('label', { for: 'prompt', class: 'visually-hidden' }, 'Prompt'), input, h('button.primary', { type: 'submit' }, 'Look')),
		results]);
}

/** @param {string} text @param {string[]} words */
function highlight(text, words) {
	const pattern = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|');
	return text.split(new RegExp(`(${pattern})`, 'i')).flatMap((part, i) => (i % 2 ? h('mark', visible(part)) : visible(part)));
}
