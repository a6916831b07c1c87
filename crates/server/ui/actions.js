import { api, messageOf } from './api.js';
import { h, visible } from './dom.js';
import { confirmDialog, toast } from './dialog.js';
import { folderOf, memoryCount, shortPath } from './format.js';
import { store } from './store.js';

const LISTED_MAX = 8;
/** Most memories that one request deletes or moves. */
export const BATCH_MAX = 1000;

/** @param {string[]} paths */
export function pathList(paths) {
	return h('ul.path-list',
		paths.slice(0, LISTED_MAX).map((path) => h('li', visible(shortPath(path)))),
		paths.length > LISTED_MAX ? h('li.muted', `and ${paths.length - LISTED_MAX} more`) : null);
}

/** Undoes several changes as one: all or none. @param {T.UndoTarget} what */
export async function undo(what) {
	const undone = await api.undo(what);
	for (const path of undone.paths) store.refresh(path);
	return undone;
}

/** @param {unknown[]} items */
function tooMany(items) {
	if (items.length > BATCH_MAX) toast(`At most ${memoryCount(BATCH_MAX)} are moved or deleted at once. Select fewer.`, { error: true });
	return items.length > BATCH_MAX;
}

/** @param {number | null | undefined} change */
const undoOf = (change) => ({ action: 'Undo', act: () => change ? undo({ changes: [change] }) : undefined });

/** @param {{path: string, revision?: string | null}[]} items @param {string} [folder] whose they all are @param {boolean} [unsaved] */
export async function deleteMemories(items, folder, unsaved = false) {
	if (!items.length || tooMany(items)) return false;
	const what = folder ? `the folder ${shortPath(folder)} with ${memoryCount(items.length)}` : items.length === 1 ? 'this memory' : memoryCount(items.length);
	/** @type {number | null | undefined} */
	let change;
	let now = items;
	const confirmed = await confirmDialog({
		title: `Delete ${what}?`,
		content: [pathList(items.map((item) => item.path)), h('p.muted', `History keeps the text, so this can be undone.${unsaved ? ' What you typed since the last save stays in this browser.' : ''}`)],
		action: 'Delete', danger: true,
		act: async () => {
			try {
				change = (await api.batch(now.map(({ path, revision }) => ({ do: 'delete', path, revision: revision ?? undefined })))).change;
			} catch (error) {
				// The refusal carries the current revisions: a second press deletes what is there now.
				const fresh = await store.fetch(now.map(({ path }) => path)).catch(() => now);
				if (fresh.length) now = fresh;
				throw error;
			}
			for (const item of now) store.memories.delete(item.path);
			store.emit('memories');
		},
	});
	if (!confirmed) return false;
	toast(now.length === 1 ? `Deleted ${shortPath(now[0]?.path ?? '')}` : `Deleted ${memoryCount(now.length)}`, undoOf(change));
	return true;
}

/** Moves memories of one scope into a folder, as one change. @param {T.MemoryItem[]} items */
export async function moveMemories(items) {
	const first = items[0];
	if (!first || tooMany(items)) return;
	const input = h('input', {
		id: 'move-to', class: 'mono', value: shortPath(folderOf(first.path)) + '/', required: true, spellcheck: 'false', autocomplete: 'off', list: 'folders',
	});
	await confirmDialog({
		title: `Move ${memoryCount(items.length)}`,
		content: [pathList(items.map((item) => item.path)), h('label', { for: 'move-to' }, 'Into the folder'), input, folderOptions(), h('p.muted', 'The scope stays the same. Pins and usage move with the memories.')],
		action: 'Move',
		act: async () => {
			const folder = fullPath(input.value).replace(/\/*$/, '/');
			const steps = items.map(({ path }) => ({ do: 'move', from: path, to: folder + path.slice(path.lastIndexOf('/') + 1) })).filter(({ from, to }) => from !== to);
			if (!steps.length) throw new Error(items.length === 1 ? 'It is in this folder already.' : 'They are in this folder already.');
			const { change } = await api.batch(steps);
			for (const { from, to } of steps) {
				store.memories.delete(from);
				store.refresh(to);
			}
			toast(`Moved ${memoryCount(steps.length)}`, undoOf(change));
		},
	});
}

/** @param {T.MemoryItem[]} items @param {boolean} pinned */
export async function pinMemories(items, pinned) {
	const open = items.filter((item) => item.pinned !== pinned);
	try {
		for (const item of open) {
			await api.pin(item.path, pinned);
			store.memories.set(item.path, { ...item, pinned });
		}
		if (open.length > 1) toast(`${pinned ? 'Pinned' : 'Unpinned'} ${memoryCount(open.length)}`);
	} catch (error) {
		toast(messageOf(error), { error: true });
	}
	store.emit('memories');
}

/** @param {string} typed */
export const fullPath = (typed) => '/memories/' + typed.trim().replace(/^\/?(memories\/)?/, '');

export function folderOptions() {
	const folders = new Set([...store.memories.keys()].map((path) => shortPath(folderOf(path)) + '/'));
	for (const scope of ['global', 'project', 'workspace']) folders.add(scope + '/');
	return h('datalist', { id: 'folders' }, [...folders].sort().slice(0, 500).map((folder) => h('option', { value: folder })));
}

/** @param {string} path @returns {Promise<string | null>} the new path */
export async function moveMemory(path) {
	const input = h('input', {
		id: 'move-to', class: 'mono', value: shortPath(path), required: true, spellcheck: 'false', autocomplete: 'off', list: 'folders',
	});
	let to = path;
	const confirmed = await confirmDialog({
		title: 'Move or rename',
		content: [
			h('label', { for: 'move-to' }, 'New path'), input, folderOptions(),
			h('p.muted', 'The scope stays the same. Pins and usage move with the memory.'),
		],
		action: 'Move',
		act: async () => {
			to = fullPath(input.value);
			await api.move(path, to);
			store.memories.delete(path);
			store.refresh(to);
			toast(`Moved to ${shortPath(to)}`);
		},
	});
	return confirmed ? to : null;
}
