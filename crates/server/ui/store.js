import { api, session } from './api.js';

/** Above this number of memories, the whole list is loaded instead of each. */
const SINGLE_LOADS_MAX = 5;
const SETTLE_MS = 120;

class Store {
	/** @type {Map<string, T.MemoryItem>} */ memories = new Map();
	/** @type {T.UnavailableScope[]} */ unavailable = [];
	/** @type {Map<string, T.Edit>} */ edits = new Map();
	/** @type {T.Proposal[]} */ proposals = [];
	waiting = 0;
	unread = 0;
	loaded = false;
	loadedAt = 0;
	connection = { online: true, retryAt: 0 };

	/** @type {Map<T.Topic, Set<(detail: any) => void>>} */ #listeners = new Map();
	/** @type {Set<string>} */ #stale = new Set();
	#timer = 0;
	/** @type {Promise<void> | null} */ #loading = null;

	/** @param {T.Topic} topic @param {(detail: any) => void} listener @returns {() => void} ends the subscription */
	on(topic, listener) {
		const set = this.#listeners.get(topic) ?? new Set();
		this.#listeners.set(topic, set.add(listener));
		return () => set.delete(listener);
	}

	/** @param {T.Topic} topic @param {unknown} [detail] */
	emit(topic, detail) {
		for (const listener of [...this.#listeners.get(topic) ?? []]) listener(detail);
	}

	/** Loads all memories; calls while one is under way share it. */
	load() {
		this.#loading ??= (async () => {
			try {
				const { memories, unavailable } = await api.memories();
				this.memories = new Map(memories.map((item) => [item.path, item]));
				this.unavailable = unavailable;
				this.loaded = true;
				this.loadedAt = Date.now();
				this.emit('memories');
			} finally {
				this.#loading = null;
			}
		})();
		return this.#loading;
	}

	async loadPending() {
		const { proposals, waiting } = await api.pending();
		this.proposals = proposals;
		this.waiting = waiting;
		this.emit('pending');
	}

	reset() {
		this.memories = new Map();
		this.edits = new Map();
		this.proposals = [];
		this.waiting = 0;
		this.unread = 0;
		this.loaded = false;
		this.#stale.clear();
	}

	/** @param {T.ServerEvent} event */
	apply(event) {
		if (event.type === 'proposal') {
			this.loadPending().catch(() => {});
			return;
		}
		if (event.type === 'memory_reviewed') this.emit('reviewed', event.data);
		if (event.type !== 'memory_changed') return;
		const data = event.data;
		if (data.scope === 'file') {
			if (data.actor !== 'person') {
				this.edits.set(data.movedTo ?? data.path, { actor: data.actor, client: data.client, at: Date.now() });
			}
			this.refresh(data.path);
			if (data.movedTo) this.refresh(data.movedTo);
			this.emit('changes', data);
		}
	}

	/** @param {string} path */
	refresh(path) {
		this.#stale.add(path);
		clearTimeout(this.#timer);
		this.#timer = setTimeout(() => this.#refreshNow().catch(() => {}), SETTLE_MS);
	}

	async #refreshNow() {
		const paths = [...this.#stale];
		this.#stale.clear();
		if (paths.length > SINGLE_LOADS_MAX) {
			// A load under way may have begun before these changes.
			if (this.#loading) await this.#loading;
			await this.load();
			return;
		}
		await this.fetch(paths);
	}

	/** Loads some memories again, and returns those that are there. @param {string[]} paths */
	async fetch(paths) {
		await Promise.all(paths.map(async (path) => {
			const item = await api.item(path);
			if (item) {
				this.memories.set(path, item);
			} else {
				this.memories.delete(path);
				this.edits.delete(path);
			}
		}));
		this.emit('memories');
		return paths.flatMap((path) => this.memories.get(path) ?? []);
	}

	/** @param {string} path */
	clearEdit(path) {
		if (this.edits.delete(path)) this.emit('memories');
	}

	/** @param {boolean} online @param {number} [retryAt] */
	setConnection(online, retryAt = 0) {
		const changed = online !== this.connection.online;
		this.connection = { online, retryAt };
		if (changed || !online) this.emit('connection', changed);
	}
}

export const store = new Store();

const VISIT = 'lukasa.lastVisit';

/** The newest change that the person has dealt with, for this workspace; `null` on the first visit. */
export function lastVisit() {
	const marks = JSON.parse(localStorage.getItem(VISIT) ?? '{}');
	return typeof marks[session.workspace] === 'number' ? /** @type {number} */ (marks[session.workspace]) : null;
}

/** @param {number} change */
export function setLastVisit(change) {
	const marks = JSON.parse(localStorage.getItem(VISIT) ?? '{}');
	marks[session.workspace] = change;
	localStorage.setItem(VISIT, JSON.stringify(marks));
}
