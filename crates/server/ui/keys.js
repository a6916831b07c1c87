import { h } from './dom.js';
import { confirmDialog, dialogOpen } from './dialog.js';
import { go, href } from './router.js';

const OFF = 'lukasa.keysOff';

export const keysOn = () => sessionStorage.getItem(OFF) === null;

/** @param {boolean} on */
export function setKeysOn(on) {
	if (on) sessionStorage.removeItem(OFF);
	else sessionStorage.setItem(OFF, '1');
}

/** @type {[string, string[], string][]} */
const SHORTCUTS = [
	['Anywhere', ['?'], 'Show these shortcuts'],
	['Anywhere', ['1', '…', '7'], 'Go to a view'],
	['Anywhere', ['n'], 'New memory'],
	['Anywhere', ['/'], 'Filter memories, or try a prompt'],
	['Anywhere', ['Ctrl', 's'], 'Save'],
	['Anywhere', ['Esc'], 'Leave a field, close a dialog'],
	['Tree', ['↑', '↓'], 'Move'],
	['Tree', ['←', '→'], 'Close or open a folder'],
	['Tree', ['Enter'], 'Open a memory'],
	['Tree', ['Space'], 'Select'],
	['Tree', ['Shift', '↑ ↓'], 'Select several'],
	['Tree', ['Ctrl', 'a'], 'Select all that match'],
	['Tree', ['p'], 'Pin or unpin'],
	['Tree', ['Delete'], 'Delete'],
];

function shortcutList() {
	return h('div.shortcuts', ['Anywhere', 'Tree'].map((where) => h('div', h('h3', where === 'Tree' ? 'In the tree' : where),
		h('dl', SHORTCUTS.filter(([place]) => place === where).map(([, keys, text]) => h('div', h('dt', keys.map((key) => key === '…' ? '…' : h('kbd', key))), h('dd', text)))))));
}

/** @param {{views: string[], save: () => void}} options */
export function listenForKeys({ views, save }) {
	addEventListener('keydown', (event) => {
		if ((event.ctrlKey || event.metaKey) && event.key === 's') {
			event.preventDefault();
			if (!dialogOpen()) save();
			return;
		}
		if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || dialogOpen()) return;
		const target = /** @type {Element} */ (event.target);
		if (target.matches('input, textarea, select')) {
			if (event.key === 'Escape' && target instanceof HTMLElement) target.blur();
			return;
		}
		if (!keysOn()) return;
		const view = views[Number(event.key) - 1];
		if (event.key === '?') {
			confirmDialog({ title: 'Keyboard shortcuts', content: [shortcutList()], wide: true });
		} else if (event.key === 'n') {
			event.preventDefault();
			go(href('new'));
		} else if (event.key === '/') {
			const field = [...document.querySelectorAll('[type=search]')].find((element) => element instanceof HTMLElement && element.offsetParent);
			event.preventDefault();
			if (field instanceof HTMLElement) field.focus();
			else go(href('memories'));
		} else if (view) {
			go(href(view));
		}
	});
}
