// @ts-check
import { api, messageOf } from './api.js';
import { h, visible } from './dom.js';
import { confirmDialog, toast } from './dialog.js';
import { folderOf, memoryCount, shortPath } from './format.js';
import { store } from './store.js';

const LISTED_MAX = 8;

/** @param {string[]} paths */
export function pathList(paths) {
	return h('ul.path-list',
		paths.slice(0, LISTED_MAX).map((path) => h('li', visible(shortPath(path)))),
		paths.length > LISTED_MAX ? h('li.muted', `and ${paths.length - LISTED_MAX} more`) : null);
}

/** @param {number[]} ids */
export async function undoAll(ids) {
	for (const id of [...ids].sort((a, b) => b - a)) {
		const undone = await api.undo(id);
		for (const path of undone.paths) store.refresh(path);
	}
}

/** @param {{path: string, revision?: string | null}[]} items */
export async function deleteMemories(items) {
	if (!items.length) return false;
	const what = items.length === 1 ? 'this memory' : memoryCount(items.length);
	/** @type {number[]} */
	const changes = [];
	/** @type {string[]} */
	const failures = [];
	const confirmed = await confirmDialog({
		title: `Delete ${what}?`,
		content: [pathList(items.map((item) => item.path)), h('p.muted', 'History keeps the text, so this can be undone.')],
		action: 'Delete', danger: true,
		act: async () => {
			for (const item of items) {
				try {
					const written = await api.remove(item.path, item.revision ?? '*');
					if (written.change) changes.push(written.change);
					store.memories.delete(item.path);
				} catch (error) {
					failures.push(`${shortPath(item.path)}: ${messageOf(error)}`);
				}
			}
			store.emit('memories');
			if (failures.length === items.length) throw new Error(failures.splice(0)[0]);
		},
	});
	if (!confirmed) return false;
	if (failures.length) toast(`${memoryCount(failures.length)} could not be deleted. ${failures[0]}`, { error: true });
	toast(items.length === 1 ? `Deleted ${shortPath(items[0]?.path ?? '')}` : `Deleted ${memoryCount(changes.length)}`, {
		action: 'Undo', act: () => undoAll(changes),
	});
	return true;
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
