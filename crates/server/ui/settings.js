// @ts-check
import { api, session } from './api.js';
import { h, replace, visible } from './dom.js';
import { memoryCount } from './format.js';
import { keysOn, setKeysOn } from './keys.js';
import { failure, pageHead, section } from './page.js';

/** @param {(id: string) => void} switchTo */
export function settingsView(switchTo) {
	const workspaces = h('div');
	const about = h('div');
	(async () => {
		try {
			const [capabilities, host] = await Promise.all([api.capabilities(), api.workspaces()]);
			replace(workspaces, h('ul.card.workspaces', capabilities.workspaces.map((workspace) => {
				const own = host.workspaces.find((other) => other.servedAs.includes(workspace.id));
				const current = workspace.id === session.workspace;
				return h('li', { 'aria-current': current ? 'true' : null },
					h('div', h('p.path', visible(workspace.cwd)),
						h('p.muted', visible(workspace.id), own ? ` · ${memoryCount(own.memories)} of its own` : '', workspace.trusted ? '' : ' · not trusted')),
					current ? h('span.badge.plain', 'Shown now')
						: h('button.small', { disabled: !workspace.trusted, onclick: () => switchTo(workspace.id) }, 'Switch'));
			})));
			replace(about, h('p.muted', `Quipu ${capabilities.quipuVersion}`));
		} catch (error) {
			replace(workspaces, failure(error));
		}
	})();
	const box = h('input', { type: 'checkbox', id: 'single-keys', checked: keysOn(), onchange: (event) => setKeysOn(event.target.checked) });
	return {
		title: 'Settings',
		element: h('div.page', pageHead('Settings', ['For this tab. The theme follows your system.']), section('Workspace', [workspaces]),
			section('Keyboard', [h('div.card.padded', h('label.check', { for: 'single-keys' }, box, 'Shortcuts of a single key; ? lists them'))]),
			about),
	};
}
