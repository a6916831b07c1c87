/** Requests to the daemon. The token lives in sessionStorage and nowhere else. */

import { plain } from './dom.js';
import { urlPath } from './format.js';

const TOKEN = 'lukasa.token';
const WORKSPACE = 'lukasa.workspace';

export class ApiError extends Error {
	/** @param {number} status @param {string} code @param {string} message @param {Record<string, unknown>} [facts] */
	constructor(status, code, message, facts = {}) {
		super(message);
		this.status = status;
		this.code = code;
		this.facts = facts;
	}
}

/** @param {unknown} error */
export const messageOf = (error) => plain(error instanceof Error ? error.message : String(error));

/** @type {{ended: () => void, online: () => void, offline: () => void}} */
export const hooks = { ended() {}, online() {}, offline() {} };

export const session = {
	get token() { return sessionStorage.getItem(TOKEN); },
	get workspace() { return sessionStorage.getItem(WORKSPACE) ?? ''; },
	set workspace(id) { sessionStorage.setItem(WORKSPACE, id); },
	end() { sessionStorage.removeItem(TOKEN); },
};

export async function signIn() {
	const ticket = new URLSearchParams(location.hash.slice(1)).get('ticket');
	if (!ticket) return session.token !== null;
	// The address is cleaned first, so that the ticket stays in no history whatever the answer is.
	history.replaceState(null, '', location.pathname);
	const response = await fetch('/ui/session', {
		method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ ticket }),
	});
	// After a reload or a used link, this tab may still have a token.
	if (!response.ok) return session.token !== null;
	const answer = await response.json();
	sessionStorage.setItem(TOKEN, answer.token);
	session.workspace = answer.workspace ?? '';
	return true;
}

/** Opens a session with a token that the person typed. @param {string} token */
export async function signInWith(token) {
	sessionStorage.setItem(TOKEN, token);
	const { workspaces } = await (await send('/capabilities')).json();
	session.workspace = workspaces[0].id;
}

/** @param {number} ms */
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/**
 * Sends a request with the token; throws `ApiError` unless the answer is a success.
 * @param {string} path
 * @param {RequestInit & {headers?: Record<string, string>}} [init]
 * @returns {Promise<Response>}
 */
export async function send(path, init = {}) {
	for (let attempt = 0; ; attempt++) {
		/** @type {Response} */
		let response;
		try {
			response = await fetch(path, {
				...init, cache: 'no-store', headers: { authorization: `Bearer ${session.token ?? ''}`, ...init.headers },
			});
		} catch (error) {
			if (error instanceof DOMException && error.name === 'AbortError') throw error;
			hooks.offline();
			throw new ApiError(0, 'offline', 'The daemon does not answer.');
		}
		hooks.online();
		if (response.ok) return response;
		/** @type {Record<string, unknown>} */
		let body = {};
		try { body = await response.json(); } catch { /* An answer of a proxy may have no JSON; the status says enough. */ }
		// Nothing was done when a client asks too often, so the same request may be sent again.
		if (response.status === 429 && body.code === 'rate_limited' && attempt < 6) {
			await wait(Math.min(5000, 1000 * Number(response.headers.get('retry-after') ?? 1)));
			continue;
		}
		if (response.status === 401) {
			session.end();
			hooks.ended();
		}
		throw new ApiError(response.status, String(body.code ?? 'failed'),
			String(body.error ?? `The daemon answered ${response.status}.`), body);
	}
}

/** @param {Record<string, string | number | boolean | undefined | null>} query */
function search(query) {
	const params = new URLSearchParams();
	if (session.workspace) params.set('workspace', session.workspace);
	for (const [key, value] of Object.entries(query)) {
		if (value !== undefined && value !== null && value !== '') params.set(key, String(value));
	}
	return `?${params}`;
}

/** @param {string} path @param {Record<string, string | number | boolean | undefined | null>} [query] @returns {Promise<any>} */
async function get(path, query = {}) {
	return (await send(path + search(query))).json();
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {Record<string, string>} [headers]
 * @param {Record<string, string | boolean>} [query]
 * @returns {Promise<any>}
 */
async function change(method, path, body, headers = {}, query = {}) {
	const init = body === undefined ? { method, headers }
		: { method, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) };
	return (await send(path + search(query), init)).json();
}

/** @param {string | null} revision */
const precondition = (revision) => /** @type {Record<string, string>} */ (
	revision === null ? { 'if-none-match': '*' } : { 'if-match': revision === '*' ? '*' : `"${revision}"` });

/** @param {string} kind */
const taskRoute = (kind) => `/workspaces/${encodeURIComponent(session.workspace)}/memory/${kind}`;

/** @type {T.Api} */
export const api = {
	async memories() {
		/** @type {T.MemoryItem[]} */
		const memories = [];
		/** @type {T.UnavailableScope[]} */
		let unavailable = [];
		let cursor = '';
		do {
			const page = await get('/v1/memories', { cursor, max: 1000 });
			memories.push(...page.memories);
			unavailable = page.unavailable;
			cursor = page.nextCursor ?? '';
		} while (cursor);
		return { memories, unavailable };
	},
	async item(path) {
		const page = await get('/v1/memories', { q: path, max: 50 });
		return page.memories.find((/** @type {T.MemoryItem} */ item) => item.path === path);
	},
	read: (path) => get(`/v1/memories/${urlPath(path)}`),
	write: (path, text, revision) => change('PUT', `/v1/memories/${urlPath(path)}`, { text }, precondition(revision)),
	batch: (steps) => change('POST', '/v1/batch', { steps }),
	move: (from, to) => change('POST', '/v1/memories/move', { from, to }),
	pin: (path, pinned) => change(pinned ? 'PUT' : 'DELETE', `/v1/pins/${urlPath(path)}`),
	compare: (from, to) => get(`/v1/revisions/${to}`, { against: from }),
	changes: (query) => get('/v1/changes', query),
	change: (id) => get(`/v1/changes/${id}`),
	undo: (what, dryRun = false) => change('POST', '/v1/undo', what, {}, dryRun ? { dryRun } : {}),
	runs: (cursor) => get('/v1/runs', { cursor, max: 30 }),
	modelRuns: () => get('/v1/runs/models', { max: 30 }),
	async pending() {
		/** @type {T.Proposal[]} */
		const proposals = [];
		let cursor = '';
		let waiting = 0;
		do {
			const page = await get('/v1/pending', { cursor, max: 200 });
			proposals.push(...page.proposals);
			waiting = page.waiting;
			cursor = page.nextCursor ?? '';
		} while (cursor && proposals.length < 2000);
		return { proposals, waiting };
	},
	decide: (action, ids) => change('POST', `/v1/pending/${action}`, { ids }),
	context: (host) => get('/v1/context', { bytesMax: host?.contextBytesMax, contextFilesLoaded: host?.contextFilesLoaded.join() }),
	hosts: () => get('/v1/hosts'),
	recall: (q) => get('/v1/recall', { q }),
	search: (q) => get('/v1/search', { q, max: 50 }),
	stats: () => get('/v1/stats'),
	health: () => get('/v1/health/memories'),
	mend: () => change('POST', '/v1/health/memories/repair'),
	settings: () => get('/v1/settings'),
	set: (key, value, expected) => change('PUT', `/v1/settings/${encodeURIComponent(key)}`, { value, expected }),
	trust: () => get('/v1/trust'),
	setTrust: (path, trusted) => change('PUT', '/v1/trust', { path, trusted }),
	tasks: () => get('/v1/tasks', { max: 50 }),
	startTask: (kind, body) => change('POST', taskRoute(kind), body),
	capabilities: () => get('/capabilities'),
	workspaces: () => get('/v1/workspaces'),
};
