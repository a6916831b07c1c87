/** The folders whose text models may be shown. */
import { api, messageOf } from './api.js';
import { confirmDialog, toast } from './dialog.js';
import { h, replace, visible } from './dom.js';
import { count, shortPath } from './format.js';
import { truncatedList, failure, section } from './page.js';
import { store } from './store.js';

const LISTED = 12;

export function trustSection() {
	const content = h('div.stack', { role: 'status' });
	api.trust().then(show, (error) => replace(content, failure(error)));

	/** @param {T.Trust} trust */
	function show(trust) {
		const { here, folders } = trust;
		const others = folders.filter((folder) => folder !== here?.path);
		replace(content, h('ul.card.workspaces',
			here ? h('li', h('div', h('p.path', visible(here.path)), h('p.muted', about(trust))),
				folders.includes(here.path) ? stop(here.path) : here.trusted ? h('span.badge', 'Trusted')
					: h('button.small', { onclick: () => ask(trust) }, 'Trust…')) : null,
			others.map((folder) => h('li', h('div', h('p.path', visible(folder)), h('p.muted', 'Trusted, with all below it')), stop(folder))),
			h('li', h('p.muted', 'Trust a folder above several projects to trust all of them.'), h('button.small', { onclick: () => ask(null) }, 'Another folder…'))));
	}

	/** @param {T.Trust} trust */
	function about({ here, folders }) {
		if (!here?.trusted) return `This project. Not trusted: ${here?.speaks.length ? `${count(here.speaks.length + here.more, 'thing')} in it would be shown to models unasked` : 'nothing in it is kept from models now'}`;
		return folders.includes(here.path) ? 'This project. Trusted, with all below it' : 'This project. Trusted because of a folder above it';
	}

	/** @param {string} path */
	const stop = (path) => h('button.small', { 'aria-label': `Stop trusting ${path}`, onclick: () => set(path, false).catch((error) => toast(messageOf(error), { error: true })) }, 'Stop trusting');

	/** @param {string} path @param {boolean} trusted */
	async function set(path, trusted) {
		show(await api.setTrust(path, trusted));
		toast(trusted ? 'Trusted from now on' : 'Not trusted any more');
		store.load().catch(() => {});
	}

	/** @param {T.Trust | null} trust of this project; without, a folder is asked for */
	function ask(trust) {
		const here = trust?.here;
		const input = h('input', { id: 'trust-path', class: 'mono', required: true, spellcheck: 'false', autocomplete: 'off', placeholder: '/home/ada/work' });
		return confirmDialog({
			title: here ? 'Trust this project?' : 'Trust a folder', action: 'Trust', wide: true,
			content: [
				here ? h('p.path', visible(here.path)) : h('div.field.stack', h('label', { for: 'trust-path' }, 'Folder, as an absolute path'), input),
				h('p', 'Who can write to it can speak to your models: what is in it is shown to them unasked, now and whenever it changes.'),
				...(here?.speaks.length ? [h('h3', 'It would say at once'), h('div.card.speaks', { tabindex: 0, role: 'region', 'aria-label': 'What it would say' },
					truncatedList('ul', here.speaks, LISTED, ({ kind, path, description }) => h('li', h('p', h('span.path', visible(shortPath(path))), h('span.badge.plain', kind === 'memory' ? 'memory' : 'instructions')),
						description ? h('p.muted', { dir: 'auto' }, visible(description)) : null)),
					here.more ? h('p.note', `and ${count(here.more, 'more thing')}`) : null)] : here ? [h('p.muted', 'Nothing in it speaks to models now.')] : []),
			],
			act: () => set(here?.path ?? input.value.trim(), true),
		});
	}

	return section('Trust', [content], h('span.muted', 'Which projects may speak to models unasked'));
}
