import { h, visible } from './dom.js';

const LINES_FIRST = 400;
const LINE_MAX = 2000;

/** @param {T.Diff} diff @param {{inverted?: boolean}} [options] inverted: what undoing the change does */
export function renderDiff(diff, options = {}) {
	if (!diff.kept) return h('p.note', 'History no longer holds both texts of this change.');
	const lines = diff.diff.split('\n').filter((line, i, all) => !(i < 2 && /^(---|\+\+\+) /.test(line)) && !(i === all.length - 1 && line === ''));
	if (options.inverted) invert(lines);
	if (!lines.length) return h('p.note', 'The text is the same.');
	const body = h('div.diff', { role: 'group', 'aria-label': `Difference in ${diff.path}` });
	let oldLine = 0;
	let newLine = 0;
	let shown = 0;
	const showMore = (/** @type {number} */ limit) => {
		const fragment = document.createDocumentFragment();
		for (; shown < lines.length && shown < limit; shown++) {
			const line = lines[shown] ?? '';
			const hunk = line.startsWith('@@') ? /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line) : null;
			if (hunk) {
				oldLine = Number(hunk[1]);
				newLine = Number(hunk[2]);
				if (shown > 0) fragment.append(h('div.diff-gap', { 'aria-hidden': 'true' }, '⋯'));
				continue;
			}
			const sign = line[0] ?? ' ';
			if (sign === '\\') {
				fragment.append(row('note', '', 'No newline at the end'));
				continue;
			}
			let at = sign === '-' ? oldLine : newLine;
			if (sign !== '+') oldLine++;
			if (sign !== '-') newLine++;
			if (at === 0) at = 1;
			fragment.append(row(sign === '+' ? 'added' : sign === '-' ? 'removed' : 'same', String(at), line.slice(1)));
		}
		body.append(fragment);
		if (shown < lines.length) {
			const more = h('button.quiet', { onclick: () => { more.remove(); showMore(lines.length); },
			}, `Show ${lines.length - shown} more lines`);
			body.append(more);
		}
	};
	showMore(LINES_FIRST);
	return body;
}

/** @param {string[]} lines */
function invert(lines) {
	for (let from = 0; from < lines.length; from++) {
		let to = from;
		while (/^[+-]/.test(lines[to] ?? '')) to++;
		const run = lines.slice(from, to).map((line) => (line[0] === '+' ? '-' : '+') + line.slice(1));
		lines.splice(from, run.length, ...run.filter((line) => line[0] === '-'), ...run.filter((line) => line[0] === '+'));
		from = to;
		if (to < lines.length) lines[to] = (lines[to] ?? '').replace(/^@@ -(\S+) \+(\S+)/, '@@ -$2 +$1');
	}
}

/** @param {'added' | 'removed' | 'same' | 'note'} kind @param {string} at @param {string} text */
function row(kind, at, text) {
	const content = h('span.diff-text', visible(text.slice(0, LINE_MAX)));
	if (text.length > LINE_MAX) {
		content.append(h('span.muted', ` … and ${text.length - LINE_MAX} more characters`));
	}
	const sign = kind === 'added' ? '+' : kind === 'removed' ? '−' : '';
	return h('div', { class: `diff-line ${kind}` },
		h('span.diff-number', { 'aria-hidden': 'true' }, at),
		h('span.diff-sign', sign),
		content);
}

/** @param {T.Diff[]} diffs */
export function renderDiffs(diffs, inverted = false) {
	return h('div.stack', diffs.map((diff) => h('div',
		diffs.length > 1 ? h('p.diff-path', visible(diff.path.replace(/^\/memories\//, ''))) : null,
		renderDiff(diff, { inverted }))));
}
