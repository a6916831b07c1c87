import { plain } from './dom.js';

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const absolute = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
const numbers = new Intl.NumberFormat('en');

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [['year', 31_536_000], ['month', 2_592_000], ['day', 86_400], ['hour', 3600], ['minute', 60]];

/** @param {string | null | undefined} iso */
export function ago(iso) {
	if (!iso) return '';
	const seconds = (Date.parse(iso) - Date.now()) / 1000;
	for (const [unit, size] of UNITS) {
		if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
	}
	return 'just now';
}

/** @param {string | null | undefined} iso */
export const dateTime = (iso) => iso ? absolute.format(new Date(iso)) : '';

/** The start of the day, N days ago; today is 1. @param {string} days */
export function pastDays(days) {
	const start = new Date();
	start.setHours(0, 0, 0, 0);
	start.setDate(start.getDate() + 1 - Number(days));
	return start.toISOString();
}

/** @param {number} n */
export const number = (n) => numbers.format(n);

/** @param {number} n @param {string} one @param {string} [many] */
export const count = (n, one, many = one + 's') => `${number(n)} ${n === 1 ? one : many}`;

/** @param {number} n */
export function bytes(n) {
	if (n < 1024) return `${n} B`;
	if (n < 1024 * 1024) return `${(n / 1024).toFixed(n < 10_240 ? 1 : 0)} KiB`;
	return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}

/** @param {number} n */
export const memoryCount = (n) => count(n, 'memory', 'memories');

/** @param {string} path */
export const shortPath = (path) => path.replace(/^\/memories\//, '');

/** @param {string} path */
export const fileName = (path) => path.slice(path.lastIndexOf('/') + 1);

/** @param {string} path */
export const folderOf = (path) => path.slice(0, path.lastIndexOf('/'));

/** @param {string} path */
export const urlPath = (path) => shortPath(path).split('/').map(encodeURIComponent).join('/');

/** @type {Record<string, string>} */
export const ACTORS = {
	person: 'You', agent: 'An agent', task: 'A task', review: 'A review', dream: 'A clean-up', outside: 'Outside Lukasa',
};

/** @param {{actor: string, client?: string | null}} change */
export function author(change) {
	if (change.actor === 'agent' && change.client) return plain(change.client.replace('/', ' '));
	return ACTORS[change.actor] ?? change.actor;
}

/** @type {Record<string, string>} */
export const KINDS = {
	create: 'created', edit: 'edited', save: 'saved', delete: 'deleted', rename: 'moved', draft: 'remembered',
	import: 'imported', undo: 'undid', outside: 'edited as a file',
};

/** @type {Record<string, string>} */
export const PARTS = { context_files: 'Context files', index: 'Index of memories', hot_set: 'Facts' };

/** @type {Record<string, string>} */
export const TRUST = {
	person: 'Written by you', agent: 'Written by an agent', background: 'Written by a background task', imported: 'Imported',
	outside: 'From outside, not reviewed',
};

/** @type {Record<string, string>} */
export const TASKS = { remember: 'Remember', forget: 'Forget', dream: 'Tidy up', review: 'Review', recall: 'Recall' };

/** @type {Record<string, string>} */
export const STATUS = { queued: 'Waiting', running: 'Running', completed: 'Done', failed: 'Failed' };

/** Turns a fragment of a sentence into a sentence. @param {string} text */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? '' : '.');
