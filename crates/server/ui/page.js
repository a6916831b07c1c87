// @ts-check
import { messageOf } from './api.js';
import { h } from './dom.js';
import { icon } from './icons.js';
import { ago, dateTime } from './format.js';

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
