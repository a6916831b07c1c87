import { h, visible } from './dom.js';
import { icon } from './icons.js';

const LINES_MAX = 2000;
const LINE_MAX = 1000;

/** @param {string} title @param {string} text @param {string} base */
function column(title, text, base) {
	const lines = text.split('\n');
	const known = new Set(base.split('\n'));
	const id = `version-${title.split(' ')[0]}`;
	return h('div.version.stack', { role: 'group', 'aria-labelledby': id }, h('h3', { id }, title),
		h('div.version-text', { tabindex: 0, role: 'region', 'aria-label': `Text: ${title}` },
			lines.slice(0, LINES_MAX).map((line) => h('div', { class: known.has(line) ? 'version-line' : 'version-line changed' }, visible(line.slice(0, LINE_MAX) || ' '))),
			lines.length > LINES_MAX ? h('p.muted', `and ${lines.length - LINES_MAX} more lines`) : null));
}

/** @param {{base: string, mine: string, theirs: string, by: string, keep: () => void, take: () => void, edit: () => void}} options */
export function conflictPanel({ base, mine, theirs, by, keep, take, edit }) {
	return h('section.banner.stack.conflict', { role: 'alert', 'aria-label': 'Conflict' },
		h('p.banner-title', icon('warning'), `${by} changed this memory while you were editing it. Nothing is saved yet.`),
		h('div.versions', column('Mine', mine, base), column('Theirs', theirs, base), column('Base (where you started)', base, base)),
		h('div.banner-actions.bar',
			h('button.primary', { onclick: keep }, 'Keep mine'),
			h('button', { onclick: take }, 'Take theirs'),
			h('button', { onclick: edit }, 'Edit, then save'),
			h('span.muted', '“Keep mine” replaces their version. History keeps it.')));
}
