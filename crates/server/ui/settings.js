// @ts-check
import { api, messageOf, session } from './api.js';
import { h, replace, visible } from './dom.js';
import { icon } from './icons.js';
import { memoryCount, number, sentence } from './format.js';
import { keysOn, setKeysOn } from './keys.js';
import { failure, pageHead, prose, section } from './page.js';
import { trustSection } from './trust.js';

/** @type {Record<string, string>} */
const GROUPS = {
	'': 'General', features: 'What is on', retention: 'History', tasks: 'Tasks', dream: 'Tidying up', context: 'Context files',
	embeddings: 'Vectors for recall', screening: 'Screening',
};
/** What a number counts, by the last word of its key. @type {Record<string, string>} */
const UNITS = { days: 'days', mib: 'MiB', minutes: 'minutes', hours: 'hours', sessions: 'sessions', ms: 'ms', max: 'memories' };

/** @param {T.Setting} setting */
const groupOf = ({ key }) => key.includes('.') ? key.split('.')[0] ?? '' : '';

/** @param {(id: string) => void} switchTo @param {T.Route} route */
export function settingsView(switchTo, route) {
	const workspaces = h('div');
	const about = h('p.muted');
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
			replace(about, `Quipu ${capabilities.quipuVersion}`);
		} catch (error) {
			replace(workspaces, failure(error));
		}
	})();
	const box = h('input', { type: 'checkbox', id: 'single-keys', checked: keysOn(), onchange: (event) => setKeysOn(event.target.checked) });
	return {
		title: 'Settings',
		element: h('div.page', pageHead('Settings', ['The theme follows your system']), section('Workspace', [workspaces]), trustSection(),
			section('This tab', [h('div.card.padded', h('label.check', { for: 'single-keys' }, box, 'Shortcuts of a single key; ? lists them'))]),
			fileSection(route.query.get('find') ?? ''), about),
	};
}

/** @param {string} initial what is looked for at first */
function fileSection(initial) {
	const file = h('span.path.muted');
	const restart = h('p.notice', { role: 'status', hidden: true });
	const groups = h('div.stack');
	const find = h('input', { type: 'search', value: initial, placeholder: 'Find a setting', 'aria-label': 'Find a setting', spellcheck: 'false', oninput: () => filter() });
	/** @type {Map<string, {text: string, element: HTMLElement, group: HTMLDetailsElement, update: (setting: T.Setting) => void}>} */
	const rows = new Map();

	/** @param {T.Settings} given */
	function show(given) {
		replace(file, visible(given.file));
		restart.hidden = !given.restartNeeded;
		replace(restart, given.restartNeeded ? h('span', prose('The daemon uses the new settings after it is started again: `quipu service restart`, or end `quipu serve` and start it again.')) : null);
		for (const setting of given.settings) rows.get(setting.key)?.update(setting);
		if (rows.size) return;
		const keys = [...new Set(given.settings.map(groupOf))].sort((a, b) => Number(a !== '') - Number(b !== ''));
		replace(groups, keys.map((key) => {
			const settings = given.settings.filter((setting) => groupOf(setting) === key);
			const list = h('ul');
			const changed = settings.filter(({ from }) => from !== 'default').length;
			const group = h('details.card', { open: key === '' }, h('summary', icon('chevron'), h('span.part-name', GROUPS[key] ?? key), h('span.muted', changed ? `${changed} of ${settings.length} set` : number(settings.length))), list);
			for (const setting of settings) list.append(row(setting, group));
			return group;
		}));
		if (initial) filter();
	}

	function filter() {
		const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
		const open = new Set();
		for (const { text, element, group } of rows.values()) {
			element.hidden = !words.every((word) => text.includes(word));
			if (!element.hidden) open.add(group);
		}
		for (const group of groups.children) if (group instanceof HTMLDetailsElement) {
			group.hidden = !open.has(group);
			group.open = words.length > 0;
		}
	}

	/** @param {T.Setting} setting @param {HTMLDetailsElement} group */
	function row(setting, group) {
		const { key, kind, meaning, built, choices = [] } = setting;
		const id = `set-${key}`;
		const error = h('p.error-text', { role: 'alert', id: `${id}-error`, hidden: true });
		const from = h('span.muted');
		const reset = h('button.small.quiet', { 'aria-label': `Back to the default: ${key}`, onclick: () => put(null) }, 'Back to the default');
		const props = { id, 'aria-describedby': error.id, onchange: () => put(read()) };
		const control = kind === 'switch' ? h('input', { type: 'checkbox', role: 'switch', class: 'switch', ...props })
			: kind === 'choice' ? h('select', props, choices.includes(String(setting.default)) ? null : h('option', { value: '' }, 'not set'), choices.map((word) => h('option', { value: word }, word)))
				: kind === 'list' ? h('textarea', { class: 'mono', rows: 2, spellcheck: 'false', placeholder: 'One on each line', ...props })
					: h('input', { type: kind === 'number' ? 'number' : 'text', class: kind === 'text' ? 'mono' : null, step: 'any', spellcheck: 'false', autocomplete: 'off', ...props });
		const unit = kind === 'number' ? UNITS[key.split(/[._]/).pop() ?? ''] : '';

		/** @returns {T.SettingValue} */
		function read() {
			if (control instanceof HTMLInputElement && kind === 'switch') return control.checked;
			const text = control.value.trim();
			if (kind === 'list') return text ? text.split('\n').map((line) => line.trim()).filter(Boolean) : null;
			// What is no number is sent as it is, and refused with what it must be.
			const wrong = control instanceof HTMLInputElement && control.validity.badInput;
			return kind === 'number' && text ? Number(text) : wrong ? 'not a number' : text || null;
		}

		/** @param {T.SettingValue} value */
		async function put(value) {
			try {
				const given = await api.set(key, value);
				fail('');
				show(given);
			} catch (reason) {
				fail(messageOf(reason));
			}
		}

		/** @param {string} why */
		function fail(why) {
			error.hidden = !why;
			replace(error, prose(why));
			control.setAttribute('aria-invalid', String(!!why));
		}

		/** @param {T.Setting} now */
		function update(now) {
			const { value, readOnly } = now;
			control.disabled = readOnly || !built;
			reset.hidden = now.from !== 'file' || readOnly;
			replace(from, !built ? 'Not in this version' : readOnly && now.why ? visible(now.why)
				: now.from === 'file' ? (now.line ? `Set in line ${now.line}` : 'Set in the file') + (now.default === null || kind === 'switch' ? '' : `; else ${[now.default].flat().join(', ') || 'none'}`) : '');
			// What was refused stays until it is put right.
			if (!error.hidden) return;
			if (control instanceof HTMLInputElement && kind === 'switch') control.checked = value === true && built;
			else control.value = Array.isArray(value) ? value.join('\n') : String(value ?? '');
		}

		update(setting);
		const element = h('li', { class: `setting ${kind}`, 'data-key': key },
			h('div.setting-text', h('label', { for: id }, prose(sentence(meaning).replace(/\.$/, ''))), h('p.bar', h('span.path.muted', key), from, reset), error),
			h('div.setting-control', control, unit ? h('span.muted', unit) : null));
		rows.set(key, { text: `${key} ${meaning} ${GROUPS[groupOf(setting)] ?? ''}`.toLowerCase(), element, group, update });
		return element;
	}

	api.settings().then(show, (error) => replace(groups, failure(error)));
	return section('Settings file', [restart, h('div.search-field', icon('search'), find), groups], file);
}
