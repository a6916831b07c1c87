/** Unsaved text, in localStorage, so that another tab or a later session finds it. */
import { session } from './api.js';

const PREFIX = 'lukasa.draft.';
const AGE_MAX_MS = 30 * 86_400_000;
const CHARS_MAX = 2_000_000;

/** @param {string} path */
const keyOf = (path) => `${PREFIX}${session.workspace}.${path}`;

/** Drops expired drafts, and the oldest beyond the limit. */
function tidy() {
	const all = Object.entries(localStorage).filter(([key]) => key.startsWith(PREFIX))
		.map(([key, text]) => ({ key, at: parseInt(text, 10) || 0, size: text.length })).sort((a, b) => b.at - a.at);
	let size = 0;
	for (const [i, draft] of all.entries()) {
		size += draft.size;
		if (draft.at < Date.now() - AGE_MAX_MS || (i > 0 && size > CHARS_MAX)) localStorage.removeItem(draft.key);
	}
}

/** Keyed by memory path; `''` for a new memory, `task` for a fact to remember. */
export const drafts = {
	/** @param {string} path @returns {T.Draft | null} */
	get(path) {
		tidy();
		try {
			return JSON.parse((localStorage.getItem(keyOf(path)) ?? '').replace(/^\d+ /, ''));
		} catch {
			return null;
		}
	},
	/** @param {string} path @param {T.Draft} draft @returns {boolean} whether there was room for it */
	set(path, draft) {
		try {
			localStorage.setItem(keyOf(path), `${Date.now()} ${JSON.stringify(draft)}`);
		} catch {
			return false;
		}
		tidy();
		return true;
	},
	/** @param {string} path */
	drop(path) {
		localStorage.removeItem(keyOf(path));
	},
};
