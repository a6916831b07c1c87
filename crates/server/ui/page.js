import { messageOf } from './api.js';
import { h, visible } from './dom.js';
import { icon } from './icons.js';
import { ago, dateTime, number } from './format.js';

/** @param {string} iso */
export const time = (iso) => h('time', { datetime: iso, title: dateTime(iso) }, ago(iso));

/** @param {unknown} error */
export const failure = (error) => h('p.error-text', messageOf(error));

/** @param {string} title @param {T.Child[]} about @param {...T.Child} actions */
export function pageHead(title, about, ...actions) {
	return h('header.page-head.bar',
		h('div', h('h1', title), h('p.muted', about)),
		h('div.bar', actions));
}

/** @param {import('./icons.js').IconName} name @param {string} title @param {string} text @param {...T.Child} actions */
export const emptyState = (name, title, text, ...actions) => h('div.empty', icon(name), h('p.empty-title', title), h('p.muted', text), actions);

/** @param {string} title @param {T.Child[]} children @param {T.Child} [aside] */
export const section = (title, children, aside) => h('section.section.stack', { 'aria-label': title }, h('div.section-head.bar', h('h2', title), aside), children);

/** Text of the daemon, with `code` spans. @param {string} text */
export const prose = (text) => text.split('`').map((part, i) => h(i % 2 ? 'code' : 'span', visible(part)));

/**
 * A list that shows its first items, until all are requested.
 * @template V
 * @param {string} tag
 * @param {V[]} items
 * @param {number} first
 * @param {(item: V) => HTMLElement} row
 */
export function truncatedList(tag, items, first, row) {
	const list = h(/** @type {'ul'} */ (tag), items.slice(0, first).map(row));
	if (items.length > first) {
		/** @type {HTMLElement} */
		const more = h('li.more', h('button.small.quiet', { onclick: () => more.replaceWith(...items.slice(first).map(row)) }, `Show all ${number(items.length)}`));
		list.append(more);
	}
	return list;
}
