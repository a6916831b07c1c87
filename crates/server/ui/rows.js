import { fileName, folderOf, pastDays, shortPath } from './format.js';

export const SCOPES = ['global', 'project', 'workspace'];

/** @param {string} path @param {string} label @returns {T.Folder} */
const emptyFolder = (path, label) => ({ path, label, folders: new Map(), items: [], count: 0 });

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

/** @param {T.MemoryItem} item */
export const labelOf = (item) => item.name || fileName(item.path).replace(/\.md$/, '');

/** Number of active filters besides the text. @param {T.Filters} filters */
export const activeFilterCount = ({ scope, author, trust, type, days, pinned, unused }) => [scope, author, trust, type, days, pinned, unused].filter(Boolean).length;

/** @param {T.Filters} filters */
export const isFiltered = (filters) => filters.text !== '' || activeFilterCount(filters) > 0;

/** @param {T.MemoryItem} item */
const lastChange = (item) => item.lastWrittenAt ?? item.modifiedAt;

/** @param {Iterable<T.MemoryItem>} items @param {T.Filters} filters */
export function filterItems(items, filters) {
	const words = filters.text.toLowerCase().split(/\s+/).filter(Boolean);
	const since = filters.days && pastDays(filters.days);
	const found = [];
	for (const item of items) {
		if (filters.scope && item.scope !== filters.scope) continue;
		if (filters.author === 'agent' ? item.lastAuthor === 'person' || item.lastAuthor === 'outside' || !item.lastAuthor
			: filters.author && item.lastAuthor !== filters.author) continue;
		if (filters.trust && item.trust !== filters.trust) continue;
		if (filters.type && item.type !== filters.type) continue;
		if (since && lastChange(item) < since) continue;
		if (filters.pinned && !item.pinned) continue;
		if (filters.unused && item.uses > 0) continue;
		if (words.length) {
			const text = `${shortPath(item.path)} ${item.name ?? ''} ${item.description}`.toLowerCase();
			if (!words.every((word) => text.includes(word))) continue;
		}
		found.push(item);
	}
	return found;
}

/**
 * @param {T.MemoryItem[]} items what matches
 * @param {T.Filters} filters
 * @param {Set<string>} closed paths of closed folders
 * @param {T.UnavailableScope[]} unavailable
 * @returns {T.Row[]}
 */
export function rowsOf(items, filters, closed, unavailable) {
	if (filters.sort !== 'name') return flatRows(items, filters.sort);
	const filtered = isFiltered(filters);
	const root = emptyFolder('/memories', '');
	if (!filtered && items.every((item) => SCOPES.includes(item.scope))) {
		for (const scope of SCOPES) root.folders.set(scope, emptyFolder(`/memories/${scope}`, scope));
	}
	for (const item of items) {
		const segments = shortPath(folderOf(item.path)).split('/').filter((segment) => segment && segment !== '/memories');
		let folder = root;
		folder.count++;
		for (const segment of segments) {
			let next = folder.folders.get(segment);
			if (!next) folder.folders.set(segment, next = emptyFolder(`${folder.path}/${segment}`, segment));
			next.count++;
			folder = next;
		}
		folder.items.push(item);
	}
	const notes = new Map(unavailable.map(({ scope, reason }) => [scope, reason]));
	/** @type {T.Row[]} */
	const rows = [];
	/** @param {T.Folder} folder @param {number} depth */
	const visit = (folder, depth) => {
		const folders = [...folder.folders.values()];
		// Scopes keep the order from the widest to the narrowest.
		if (depth > 1) folders.sort((a, b) => collator.compare(a.label, b.label));
		else folders.sort((a, b) => SCOPES.indexOf(a.label) - SCOPES.indexOf(b.label));
		const files = folder.items.map((item) => ({ item, label: labelOf(item) }))
			.sort((a, b) => collator.compare(a.label, b.label) || (a.item.path < b.item.path ? -1 : 1));
		const size = folders.length + files.length;
		let position = 0;
		for (const child of folders) {
			const open = filtered || !closed.has(child.path);
			const scope = depth === 1 && SCOPES.includes(child.label);
			rows.push({
				kind: scope ? 'scope' : 'folder', path: child.path, label: child.label, depth, count: child.count, open, position: ++position, size,
				note: scope ? notes.get(child.label) : undefined,
			});
			if (open) visit(child, depth + 1);
		}
		for (const { item, label } of files) {
			rows.push({ kind: 'memory', path: item.path, label, depth, count: 0, open: false, item, position: ++position, size });
		}
	};
	visit(root, 1);
	return rows;
}

/** @param {T.MemoryItem[]} items @param {'changed' | 'used'} sort @returns {T.Row[]} */
function flatRows(items, sort) {
	const sorted = [...items].sort((a, b) => sort === 'used'
		? b.uses - a.uses || (b.lastUsedAt ?? '').localeCompare(a.lastUsedAt ?? '')
		: lastChange(b).localeCompare(lastChange(a)));
	return sorted.map((item, i) => ({
		kind: 'memory', path: item.path, label: labelOf(item), depth: 1, count: 0, open: false, item, position: i + 1, size: sorted.length,
	}));
}
