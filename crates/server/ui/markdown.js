/**
 * A preview of Markdown, built as elements. Links and images stay text: a memory is not trusted,
 * so nothing is loaded or opened for it.
 */
import { append, h, visible } from './dom.js';

/** Most lines shown; a memory of only empty items would freeze the page. */
const LINES_MAX = 2000;
/** Longer runs of text are shown without emphasis. */
const INLINE_MAX = 20_000;
/** A block is recognized by the beginning of its line, so that long lines cost nothing. */
const START = 200;

const FENCE = /^\s{0,3}(```+|~~~+)/;
const HEADING = /^ {0,3}(#{1,6})\s+/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+/;

/** @param {string} text */
export function preview(text) {
	const root = h('div.prose.stack', { dir: 'auto' });
	const all = text.split('\n');
	const lines = all.slice(0, LINES_MAX);
	for (let at = 0; at < lines.length;) at = block(root, lines, at);
	if (lines.length < all.length) root.append(h('p.muted', `${all.length - lines.length} more lines are not shown here.`));
	return root;
}

/** Appends the block that begins at a line, and returns the line after it. @param {HTMLElement} parent @param {string[]} lines @param {number} at */
function block(parent, lines, at) {
	const line = lines[at] ?? '';
	const start = line.slice(0, START);
	let end = at + 1;
	/** @param {(line: string) => boolean} test */
	const take = (test) => {
		while (end < lines.length && test(lines[end] ?? '')) end++;
		return lines.slice(at, end);
	};
	if (!line.trim()) return end;

	const mark = FENCE.exec(start)?.[1];
	const heading = HEADING.exec(start);
	if (mark) {
		take((other) => !other.trimStart().startsWith(mark));
		parent.append(h('pre', { tabindex: 0 }, h('code', visible(lines.slice(at + 1, end).join('\n')))));
		return end + 1;
	}
	if (heading) {
		// The page has headings of its own above these.
		const level = Math.min(6, (heading[1] ?? '').length + 2);
		parent.append(h(/** @type {'h3'} */ (`h${level}`), inline(line.slice(heading[0].length))));
	} else if (line.startsWith('>')) {
		// One level is enough: quotes in quotes stay text, so that nesting has an end.
		const quoted = take((other) => other.startsWith('>')).map((text) => text.replace(/^> ?/, ''));
		parent.append(h('blockquote', h('p', inline(quoted.join('\n')))));
	} else if (ITEM.test(start)) {
		return list(parent, lines, at);
	} else {
		parent.append(h('p', inline(take((other) => {
			const first = other.slice(0, START);
			return other.trim() !== '' && ![FENCE, HEADING, ITEM, /^>/].some((pattern) => pattern.test(first));
		}).join('\n'))));
	}
	return end;
}

/** @param {HTMLElement} parent @param {string[]} lines @param {number} at */
function list(parent, lines, at) {
	/** @type {{indent: number, element: HTMLElement, item: HTMLElement}[]} */
	const stack = [];
	for (; at < lines.length; at++) {
		const line = lines[at] ?? '';
		const match = ITEM.exec(line.slice(0, START));
		let top = stack.at(-1);
		if (!match) {
			// An indented line goes on with the item before it; a blank one may stand between two.
			if (top && line.trim() && /^\s/.test(line)) append(top.item, [' ', ...inline(line.trim())]);
			else if (line.trim() || !ITEM.test((lines[at + 1] ?? '').slice(0, START))) break;
			continue;
		}
		const indent = (match[1] ?? '').length;
		while (top && stack.length > 1 && indent < top.indent) {
			stack.pop();
			top = stack.at(-1);
		}
		const text = line.slice(match[0].length);
		const task = /^\[([ xX])\]\s+/.exec(text.slice(0, 20));
		const item = h('li', task ? [h('span.task-mark', task[1] === ' ' ? '☐' : '☑'), ' '] : null, inline(text.slice(task?.[0].length ?? 0)));
		if (!top || (indent > top.indent + 1 && stack.length < 8)) {
			const number = Number.parseInt(match[2] ?? '', 10);
			const element = Number.isNaN(number) ? h('ul') : h('ol', { start: number });
			(top?.item ?? parent).append(element);
			stack.push({ indent, element, item });
			element.append(item);
		} else {
			top.element.append(item);
			top.item = item;
		}
	}
	return at;
}

/** @param {string} text @param {number} [depth] @returns {T.Child[]} */
function inline(text, depth = 0) {
	if (text.length > INLINE_MAX || depth > 3) return visible(text);
	/** @type {T.Child[]} */
	const out = [];
	// A mark that was not closed once is not looked for again: otherwise a line of marks costs its square.
	/** @type {Set<string>} */
	const unclosed = new Set();
	let plain = 0;
	let at = 0;
	/** @param {number} end @param {T.Child} element @param {number} next */
	const add = (end, element, next) => {
		out.push(...visible(text.slice(plain, end)), element);
		at = plain = next;
	};
	while (at < text.length) {
		const c = text[at] ?? '';
		if (c === '`' || c === '*' || c === '_') {
			const mark = c !== '`' && text[at + 1] === c ? c + c : c;
			const from = at + mark.length;
			const opens = !unclosed.has(mark) && (c === '`' || (/\S/.test(text[from] ?? ' ') && !(c === '_' && /\w/.test(text[at - 1] ?? ' '))));
			const end = opens ? text.indexOf(mark, from) : -1;
			if (end > from) {
				const inner = text.slice(from, end);
				add(at, c === '`' ? h('code', visible(inner)) : h(mark === c ? 'em' : 'strong', inline(inner, depth + 1)), end + mark.length);
				continue;
			}
			if (opens && end < 0) unclosed.add(mark);
			at = from;
		} else if (c === '[' && !unclosed.has(c)) {
			const middle = text.indexOf('](', at);
			const end = middle < 0 || middle - at > 1000 ? -1 : text.indexOf(')', middle);
			if (middle < 0) unclosed.add(c);
			if (end > 0 && end - middle < 2000) {
				add(text[at - 1] === '!' ? at - 1 : at, h('span.link-text', inline(text.slice(at + 1, middle), depth + 1),
					h('span.link-target', ' (', visible(text.slice(middle + 2, end)), ')')), end + 1);
				continue;
			}
			at++;
		} else {
			at++;
		}
	}
	out.push(...visible(text.slice(plain)));
	return out;
}
