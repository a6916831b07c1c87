import { api, ApiError, messageOf, session } from './api.js';
import { confirmDialog, toast } from './dialog.js';
import { h, replace, visible } from './dom.js';
import { icon } from './icons.js';
import { memoryCount, number, sentence } from './format.js';
import { keysOn, setKeysOn } from './keys.js';
import { failure, pageHead, prose, section } from './page.js';
import { trustSection } from './trust.js';

/** @type {Record<string, string>} */
const GROUPS = {
	'': 'General', features: 'What is on', retention: 'History', tasks: 'Tasks', dream: 'Tidying up', context: 'Context files',
	models: 'Models', embeddings: 'Vectors for recall', screening: 'Screening',
};
/** Units, by the last word of a key. @type {Record<string, string>} */
const UNITS = { days: 'days', mib: 'MiB', minutes: 'minutes', hours: 'hours', sessions: 'sessions', ms: 'ms', max: 'memories' };

/** Without these, no page can switch them on again. @type {Record<string, string>} */
const LOCKS = { 'features.page': 'this page', 'features.memory': 'memories, and with them this page' };

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
			replace(about, `Lukasa ${capabilities.lukasaVersion}`);
		} catch (error) {
			replace(workspaces, failure(error));
		}
	})();
	const box = h('input', { type: 'checkbox', id: 'single-keys', checked: keysOn(), onchange: (event) => setKeysOn(event.target.checked) });
	const file = fileSection(route.query.get('find') ?? '');
	return {
		title: 'Settings', dispose: file.dispose,
		element: h('div.page', pageHead('Settings', ['The theme follows your system']), section('Workspace', [workspaces]), trustSection(),
			section('This tab', [h('div.card.padded', h('label.check', { for: 'single-keys' }, box, 'Shortcuts of a single key; ? lists them'))]),
			file.element, about),
	};
}

/** @param {string} initial what is looked for at first */
function fileSection(initial) {
	const file = h('span.path.muted');
	let path = '';
	const restart = h('p.notice', { role: 'status', hidden: true });
	const groups = h('div.stack');
	const find = h('input', { type: 'search', value: initial, placeholder: 'Find a setting', 'aria-label': 'Find a setting', spellcheck: 'false', oninput: () => filter() });
	/** @type {Map<string, {text: string, element: HTMLElement, group: HTMLDetailsElement, isSet: () => boolean, update: (setting: T.Setting) => void}>} */
	const rows = new Map();
	let asked = 0;
	let answered = 0;

	/** Sends a request; an answer that is older than what is shown is dropped. @param {() => Promise<T.Settings>} request */
	async function ask(request) {
		const mine = ++asked;
		const given = await request();
		if (mine < answered) return;
		answered = mine;
		show(given);
	}

	/** @param {T.Settings} given */
	function show(given) {
		path = given.file;
		replace(file, visible(path));
		restart.hidden = !given.restartNeeded;
		replace(restart, given.restartNeeded ? h('span', prose('The daemon uses new settings after a restart: `lukasa service restart`, or end `lukasa serve` and start it again.')) : null);
		for (const setting of given.settings) rows.get(setting.key)?.update(setting);
		if (rows.size) return filter(false);
		const keys = [...new Set(given.settings.map(groupOf))].sort((a, b) => Number(a !== '') - Number(b !== ''));
		replace(groups, keys.map((key) => {
			const settings = given.settings.filter((setting) => groupOf(setting) === key);
			const list = h('ul');
			const group = h('details.card', { open: key === '' }, h('summary', icon('chevron'), h('span.part-name', GROUPS[key] ?? key), h('span.muted')), list);
			for (const setting of settings) list.append(row(setting, group));
			return group;
		}));
		filter(initial !== '');
	}

	function filter(open = true) {
		const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
		for (const { text, element } of rows.values()) element.hidden = !words.every((word) => text.includes(word));
		for (const group of groups.children) if (group instanceof HTMLDetailsElement) {
			const all = [...rows.values()].filter((one) => one.group === group);
			const found = all.filter(({ element }) => !element.hidden).length;
			const set = all.filter(({ isSet }) => isSet()).length;
			group.hidden = !found;
			if (open) group.open = words.length > 0;
			replace(/** @type {Element} */ (group.querySelector('summary .muted')), words.length ? `${number(found)} of ${number(all.length)}` : set ? `${set} of ${all.length} set` : number(all.length));
		}
	}

	/** @param {T.Setting} setting @param {HTMLDetailsElement} group */
	function row(setting, group) {
		const { key, kind, meaning, built, choices = [] } = setting;
		const id = `set-${key}`;
		const error = h('p.error-text', { role: 'alert', id: `${id}-error`, hidden: true });
		const from = h('span.muted');
		const reset = h('button.small.quiet', { 'aria-label': `Back to the default: ${key}`, onclick: () => put(null) }, 'Back to the default');
		const save = h('button.small.primary', { 'aria-label': `Save ${key}`, hidden: true, onclick: () => put(read()) }, 'Save');
		const typed = kind === 'text' || kind === 'number' || kind === 'list';
		const props = { id, 'aria-describedby': error.id, ...typed ? {
			oninput: () => mark(), onblur: () => update(latest),
			onkeydown: (/** @type {KeyboardEvent} */ event) => {
				if (event.key === 'Escape') {
					fail('');
					write(shown);
				} else if (event.key === 'Enter' && (kind !== 'list' || event.ctrlKey || event.metaKey)) {
					event.preventDefault();
					if (isChanged()) put(read());
				}
			},
		} : { onchange: () => put(read()) } };
		const control = kind === 'switch' ? h('input', { type: 'checkbox', role: 'switch', class: 'switch', ...props })
			: kind === 'choice' ? h('select', props, choices.includes(String(setting.default)) ? null : h('option', { value: '' }, 'not set'), choices.map((word) => h('option', { value: word }, word)))
				: kind === 'list' ? h('textarea', { class: 'mono', rows: 2, spellcheck: 'false', placeholder: 'One on each line', ...props })
					: h('input', { type: kind === 'number' ? 'number' : 'text', class: kind === 'text' ? 'mono' : null, step: 'any', spellcheck: 'false', autocomplete: 'off', ...props });
		const isSwitch = control instanceof HTMLInputElement && kind === 'switch';
		/** The last value from the daemon, and what the control shows of it. */
		let latest = setting;
		let value = setting.value;
		let shown = '';

		// A number that is none is an empty text to a script.
		const held = () => isSwitch ? String(control.checked) : control instanceof HTMLInputElement && control.validity.badInput ? '?' : control.value;
		const isChanged = () => held() !== shown;
		function mark() {
			save.hidden = !typed || !isChanged();
			element.toggleAttribute('data-unsaved', !save.hidden);
		}
		/** An edit replaces the last value that the daemon sent. */
		function adoptLatest() {
			value = latest.value;
			shown = textOf(value);
			mark();
		}
		/** @param {T.SettingValue} of */
		const textOf = (of) => isSwitch ? String(of === true && built) : Array.isArray(of) ? of.join('\n') : String(of ?? '');
		/** @param {string} text */
		function write(text) {
			if (isSwitch) control.checked = text === 'true';
			else control.value = text;
			shown = text;
			mark();
		}
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

		/** @param {T.SettingValue} wanted */
		async function put(wanted) {
			if (key in LOCKS && wanted === false && !await warned()) {
				write(shown);
				return;
			}
			const sent = held();
			try {
				await ask(() => api.set(key, wanted, value));
				fail('');
				// What was typed meanwhile stays.
				if (wanted !== null && held() !== sent) adoptLatest();
				else update(latest, true);
			} catch (reason) {
				fail(messageOf(reason));
				if (!typed) write(shown);
				if (reason instanceof ApiError && reason.code === 'conflict') reloadSetting();
			}
		}

		/** The setting was changed elsewhere: shows that value, and offers to replace it. */
		async function reloadSetting() {
			const before = textOf(value);
			await ask(() => api.settings()).catch(() => {});
			if (textOf(latest.value) === before) return;
			adoptLatest();
			if (typed) fail(`Somebody else has set this meanwhile, to ${[value ?? 'nothing'].flat().join(', ') || 'nothing'}. Save again to replace that.`);
			else update(latest, true);
		}

		const warned = () => confirmDialog({
			title: `Switch off ${LOCKS[key]}?`, danger: true, action: 'Switch off', act: async () => {},
			content: [h('p', 'This takes effect when the daemon is started again. Then only the settings file switches it on, with this line below [features]:'),
				h('pre.path-list', `${key.slice(key.indexOf('.') + 1)} = true`), h('p.path.muted', visible(path))],
		});

		/** @param {string} why */
		function fail(why) {
			error.hidden = !why;
			replace(error, prose(why));
			control.setAttribute('aria-invalid', String(!!why));
		}

		/** @param {T.Setting} now @param {boolean} [own] whether it was set here */
		function update(now, own = false) {
			const { readOnly } = latest = now;
			control.disabled = readOnly || !built;
			reset.hidden = now.from !== 'file' || readOnly;
			replace(from, !built ? 'Not in this version' : readOnly && now.why ? visible(now.why)
				: now.from === 'file' ? (now.line ? `Set in line ${now.line}` : 'Set in the file') + (now.default === null || kind === 'switch' ? '' : `; else ${[now.default].flat().join(', ') || 'none'}`) : '');
			// What is being typed stays, and so does what was refused until it is put right.
			if (!own && (isChanged() || (typed && document.activeElement === control))) return;
			value = now.value;
			write(textOf(value));
		}

		const element = h('li', { class: `setting kind-${kind}`, 'data-key': key },
			h('div.setting-text', h('label', { for: id }, prose(sentence(meaning).replace(/\.$/, ''))), h('p.bar', h('span.path.muted', key), from, reset), error),
			h('div.setting-control', control, unit ? h('span.muted', unit) : null, save));
		update(setting, true);
		rows.set(key, { text: `${key} ${meaning} ${GROUPS[groupOf(setting)] ?? ''}`.toLowerCase(), element, group, isSet: () => latest.from !== 'default', update });
		return element;
	}

	const load = () => ask(() => api.settings()).catch((error) => { if (!rows.size) replace(groups, failure(error)); });
	// Another tab or an editor may have changed the file.
	const back = () => { if (document.visibilityState === 'visible') load(); };
	document.addEventListener('visibilitychange', back);
	load();
	return {
		element: section('Settings file', [restart, h('div.search-field', icon('search'), find), groups], file),
		dispose() {
			document.removeEventListener('visibilitychange', back);
			const left = [...rows].filter(([, { element }]) => element.hasAttribute('data-unsaved')).map(([key]) => key);
			if (left.length) toast(`Not saved: ${left.join(', ')}`);
		},
	};
}
