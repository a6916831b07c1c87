import { svg } from './dom.js';

const PATHS = {
	memories: ['M3 2.5h7l3 3v8H3z', 'M10 2.5v3h3', 'M5.5 8.5h5M5.5 11h3.5'],
	inbox: ['M2 9.5 4 3h8l2 6.5v3.5H2z', 'M2 9.5h3.5l1 1.5h3l1-1.5H14'],
	history: ['M2.5 8a5.5 5.5 0 1 0 1.8-4', 'M2.5 2.5v2.7h2.7', 'M8 5v3.2l2.2 1.3'],
	context: ['M2.5 3h11v7.5H8L5 13v-2.5H2.5z', 'M5 5.8h6M5 8h4'],
	tasks: ['M2.5 4 3.7 5.2 6 2.9M2.5 11l1.2 1.2L6 9.9', 'M8.5 4.2h5M8.5 11.2h5'],
	health: ['M1.5 8.5h3l1.7-4.5 3 8 1.6-3.5h3.7'],
	settings: ['M2 4.5h5M11 4.5h3M2 11.5h3M9 11.5h5', 'M9 3v3M7 10v3'],
	filter: ['M2 4h12M4.5 8h7M6.5 12h3'],
	folder: ['M2 4h4.2l1.4 1.6H14V13H2z'],
	chevron: ['m6 4 4 4-4 4'],
	pin: ['M5.5 2.5h5l-.7 4.3 2 2.2H4.2l2-2.2z', 'M8 9v4.5'],
	plus: ['M8 3v10M3 8h10'],
	search: ['M7 2.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4z', 'm10.2 10.2 3.3 3.3'],
	close: ['m4 4 8 8M12 4l-8 8'],
	menu: ['M2.5 4.5h11M2.5 8h11M2.5 11.5h11'],
	back: ['M13 8H3.5M7 4 3 8l4 4'],
	check: ['m3 8.5 3.2 3.2L13 5'],
	trash: ['M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9'],
	undo: ['M5.5 3 2.5 6l3 3', 'M2.5 6h7a4 4 0 0 1 0 7.5H6'],
	warning: ['M8 2.5 14 13H2z', 'M8 6.5v3M8 11.2v.3'],
	move: ['M2.5 8h10M9 4.5 12.5 8 9 11.5'],
	eye: ['M1.8 8S4 3.8 8 3.8 14.2 8 14.2 8 12 12.2 8 12.2 1.8 8 1.8 8z', 'M8 6.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6z'],
};

/** @typedef {keyof typeof PATHS} IconName */

/** @param {IconName} name @param {string} [label] what the icon says; without it, assistive technology skips the icon */
export function icon(name, label) {
	const element = svg('svg', { viewBox: '0 0 16 16', class: `icon icon-${name}` },
		...PATHS[name].map((d) => svg('path', { d })));
	if (label) {
		element.setAttribute('role', 'img');
		element.setAttribute('aria-label', label);
	} else {
		element.setAttribute('aria-hidden', 'true');
	}
	return element;
}
