import { api, hooks, session, signIn, signInWith } from './api.js';
import { toast } from './dialog.js';
import { h, replace, visible } from './dom.js';
import { icon } from './icons.js';
import { EventReader } from './events.js';
import { contextView } from './context.js';
import { Editor } from './editor.js';
import { healthView } from './health.js';
import { historyView } from './history.js';
import { inboxView, loadInbox } from './inbox.js';
import { listenForKeys } from './keys.js';
import { emptyState, failure } from './page.js';
import { currentRoute, go, href } from './router.js';
import { settingsView } from './settings.js';
import { store } from './store.js';
import { tasksView } from './tasks.js';
import { Tree } from './tree.js';

/** @type {[string, string, import('./icons.js').IconName][]} */
const NAVIGATION = [
	['memories', 'Memories', 'memories'], ['inbox', 'Inbox', 'inbox'], ['history', 'History', 'history'], ['context', 'In context now', 'context'],
	['tasks', 'Tasks', 'tasks'], ['health', 'Health', 'health'], ['settings', 'Settings', 'settings'],
];
/** Uses by agents send no event, so counts are reloaded when the page becomes visible. */
const STALE_MS = 20_000;
const INBOX_DELAY_MS = 600;

const root = /** @type {HTMLElement} */ (document.getElementById('app'));

/** @type {EventReader | null} */
let reader = null;
let ended = false;
/** @type {App | null} */
let app = null;

function showEnded() {
	if (ended) return;
	ended = true;
	reader?.stop();
	const unsaved = app?.end();
	document.title = 'Session ended – Lukasa';
	replace(root, h('main.ended', h('h1', 'The session has ended'),
		h('p', `This page stays open only for a while.${unsaved ? ' Unsaved text is kept in this browser, and is there again when you open that memory.' : ''}`),
		h('p', 'To open a new session, run'), h('pre.path-list', 'lukasa ui'), tokenForm()));
}

/** For a daemon that `lukasa ui` does not reach. */
function tokenForm() {
	const field = h('input', { type: 'password', 'aria-label': 'Token', required: true });
	const problem = h('div', { role: 'alert' });
	/** @param {SubmitEvent} event */
	const onsubmit = async (event) => {
		event.preventDefault();
		try {
			await signInWith(field.value.trim());
			location.reload();
		} catch (error) {
			session.end();
			replace(problem, failure(error));
		}
	};
	return h('form.stack', { onsubmit }, h('p', 'Or enter a token. It stays in this tab.'),
		h('div.find-form', field, h('button.primary', { type: 'submit' }, 'Open')), problem);
}

class App {
	/** @type {Tree} */ #tree = new Tree();
	/** @type {Editor | null} */ #editor = null;
	/** @type {T.View | null} */ #view = null;
	#viewName = '';
	#inboxTimer = 0;
	#ticker = 0;

	constructor() {
		this.main = h('main', { id: 'main', tabindex: -1 });
		this.badge = h('span.nav-count', { hidden: true });
		this.place = h('p.nav-place');
		this.offline = h('div.offline.bar', { role: 'alert', hidden: true });
		this.menu = h('button.icon-button.menu', { 'aria-label': 'Menu', 'aria-expanded': 'false', 'aria-controls': 'nav', onclick: () => this.#setMenu(!document.body.classList.contains('menu-open')) }, icon('menu'));
		this.where = h('span.top-title');
		this.links = NAVIGATION.map(([view, label, name]) => h('a', { href: href(view), 'data-view': view }, icon(name), h('span', label), view === 'inbox' ? this.badge : null));
		const nav = h('nav', { id: 'nav', 'aria-label': 'Views' },
			h('p.brand.bar', h('img', { src: 'icon.svg', alt: '', width: 20, height: 20 }), 'Lukasa'),
			h('ul', this.links.map((link) => h('li', link))),
			h('div.nav-foot', this.place, h('p.nav-hint', h('kbd', '?'), ' shortcuts')));
		replace(root, h('a.skip', { href: '#main', onclick: (event) => { event.preventDefault(); this.main.focus(); } }, 'Skip to content'),
			h('header.top', this.menu, this.where), nav, h('div.content', this.offline, this.main),
			h('div', { id: 'toasts', role: 'status', 'aria-live': 'polite' }));
		nav.addEventListener('click', () => this.#setMenu(false));
		addEventListener('hashchange', () => this.#show());
		document.addEventListener('visibilitychange', () => {
			if (document.visibilityState === 'visible' && store.loaded && Date.now() - store.loadedAt > STALE_MS) store.load().catch(() => {});
		});
		listenForKeys({ views: NAVIGATION.map(([view]) => view), save: () => this.#editor?.saveNow() });
		store.on('changes', () => this.#inboxSoon());
		store.on('inbox', () => this.#count());
		store.on('pending', () => this.#count());
		store.on('reviewed', (data) => toast(data.message));
		store.on('connection', (changed) => this.#connection(changed));
		hooks.online = () => store.setConnection(true);
		hooks.offline = () => { if (store.connection.online) store.setConnection(false); };
	}

	start() {
		this.#listen();
		this.#show();
		this.#loadAll();
	}

	/** Stores a draft of unsaved text; returns whether there is any. */
	end() {
		const unsaved = this.#editor?.dirty;
		this.#editor?.dispose();
		this.#view?.dispose?.();
		return unsaved;
	}

	async #loadAll() {
		this.#tree.update();
		api.capabilities().then((capabilities) => {
			const workspace = capabilities.workspaces.find(({ id }) => id === session.workspace) ?? capabilities.workspaces[0];
			if (!workspace) return;
			session.workspace ||= workspace.id;
			replace(this.place, icon('folder'), h('span', visible(workspace.cwd.split('/').pop() || workspace.cwd)));
			this.place.title = workspace.cwd;
		}).catch(() => {});
		await Promise.allSettled([store.load(), store.loadPending(), loadInbox()]);
	}

	#listen() {
		reader?.stop();
		reader = new EventReader({
			event: (event) => store.apply(event),
			missed: () => this.#loadAll(),
			waiting: (ms) => store.setConnection(store.connection.online, Date.now() + ms),
		});
		reader.run();
	}

	/** @param {boolean} changed */
	#connection(changed) {
		const { online, retryAt } = store.connection;
		this.offline.hidden = online;
		clearTimeout(this.#ticker);
		if (online) {
			if (changed) this.#loadAll().then(() => {
				// A view that failed to load is rebuilt, unless the user is typing.
				if (this.main.querySelector('input:focus, textarea:focus, [data-unsaved]')) store.emit('changes', {});
				else if (!this.#editor) this.#show();
			});
			return;
		}
		const seconds = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
		replace(this.offline, icon('warning'), h('span', 'The daemon does not answer. '),
			h('span.muted', { 'aria-hidden': 'true' }, seconds ? `Next attempt in ${seconds} s` : 'Trying…'),
			h('button.small', { onclick: () => reader?.retry() }, 'Try now'));
		if (seconds) this.#ticker = setTimeout(() => this.#connection(false), 1000);
	}

	#inboxSoon() {
		clearTimeout(this.#inboxTimer);
		this.#inboxTimer = setTimeout(() => Promise.all([loadInbox(), store.loadPending()]).catch(() => {}), INBOX_DELAY_MS);
	}

	#count() {
		const total = store.unread + store.waiting;
		this.badge.hidden = total === 0;
		replace(this.badge, total > 99 ? '99+' : String(total), h('span.visually-hidden', ' to look at'));
	}

	/** @param {boolean} open */
	#setMenu(open) {
		document.body.classList.toggle('menu-open', open);
		this.menu.setAttribute('aria-expanded', String(open));
		replace(this.menu, icon(open ? 'close' : 'menu'));
	}

	/** @param {string} workspace */
	#switch(workspace) {
		session.workspace = workspace;
		store.reset();
		this.#listen();
		go(href('memories'));
		this.#loadAll();
	}

	#show() {
		const route = currentRoute();
		const name = route.view === 'new' ? 'memories' : route.view;
		const first = this.#viewName === '';
		const changed = this.#viewName !== name;
		this.#viewName = name;
		this.#setMenu(false);
		for (const link of this.links) {
			if (link.dataset.view === name) link.setAttribute('aria-current', 'page');
			else link.removeAttribute('aria-current');
		}
		this.#view?.dispose?.();
		this.#view = null;
		this.#editor?.dispose();
		this.#editor = null;
		if (name === 'memories') this.#showMemories(route);
		else this.#showPage(route);
		if (changed && !first && name !== 'memories') this.main.focus({ preventScroll: true });
	}

	/** @param {T.Route} route */
	#showMemories(route) {
		const path = route.view === 'memories' && route.rest ? `/memories/${route.rest}` : '';
		const detail = route.view === 'new' || path !== '';
		this.#editor = detail ? new Editor(path, route.view === 'new' ? route.rest : '', route.query.get('at') ?? '') : null;
		const pane = this.#editor?.element ?? h('section.detail-pane.nothing', { 'aria-label': 'No memory open' },
			emptyState('memories', 'Select a memory', 'Its text, description and history show up here.'));
		this.main.className = detail ? 'split detail' : 'split';
		// The tree stays in place while another memory is opened, with its focus and scroll position.
		if (this.#tree.element.parentElement === this.main) {
			for (const child of [...this.main.children]) if (child !== this.#tree.element) child.remove();
			this.main.append(pane);
		} else {
			replace(this.main, this.#tree.element, pane);
		}
		this.#tree.show(path);
		const title = path ? path.split('/').pop() ?? '' : route.view === 'new' ? 'New memory' : 'Memories';
		this.#title(title);
	}

	/** @param {T.Route} route */
	#showPage(route) {
		const views = /** @type {Record<string, () => T.View>} */ ({
			inbox: inboxView, history: () => historyView(route), context: () => contextView(route), tasks: tasksView, health: healthView,
			settings: () => settingsView((id) => this.#switch(id), route),
		});
		const create = views[route.view];
		if (!create) {
			go(href('memories'), true);
			return;
		}
		this.#view = create();
		this.main.className = 'single';
		replace(this.main, this.#view.element);
		this.main.scrollTop = 0;
		this.#title(this.#view.title);
	}

	/** @param {string} title */
	#title(title) {
		document.title = `${title} – Lukasa`;
		this.where.textContent = NAVIGATION.find(([view]) => view === this.#viewName)?.[1] ?? title;
	}
}

// A link of `lukasa ui` that is opened in this very tab changes the fragment alone.
addEventListener('hashchange', (event) => {
	if (!location.hash.startsWith('#ticket=')) return;
	event.stopImmediatePropagation();
	location.reload();
});
hooks.ended = showEnded;
try {
	if (await signIn()) (app = new App()).start();
	else showEnded();
} catch {
	replace(root, h('main.ended', h('h1', 'The daemon does not answer'),
		h('p', 'Start it with ', h('code', 'lukasa serve'), ', then open this page again with ', h('code', 'lukasa ui'), '.')));
}
