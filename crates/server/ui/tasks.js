import { api, messageOf } from './api.js';
import { h, replace, visible } from './dom.js';
import { memoryLink } from './changes.js';
import { drafts } from './drafts.js';
import { count, STATUS, TASKS } from './format.js';
import { emptyState, failure, pageHead, section, time } from './page.js';
import { href } from './router.js';
import { runList } from './runs.js';
import { store } from './store.js';

const POLL_MS = 700;
const UNFINISHED = ['queued', 'running'];

/** @param {T.ModelRun} run */
const modelRow = (run) => h('li.run', h('div.run-main',
	h('p.run-name', TASKS[run.agent.split('-').at(-1) ?? ''] ?? run.agent, h('span.group-kind', visible(run.model)),
		run.ended === 'completed' ? null : h('span.status.status-failed', visible(run.ended))),
	h('p.muted', `${count(run.tokensIn + run.tokensOut, 'token')}, ${count(run.calls, 'call')}`, run.refused ? `, ${run.refused} refused` : '', run.cost ? `, $${run.cost.toFixed(4)}` : '', ' · ', time(run.endedAt)),
	run.why ? h('p.muted', visible(run.why)) : null));

export function tasksView() {
	const list = h('div');
	const draft = drafts.get('task');
	/** @returns {void} */
	const keep = () => {
		if (text.value) drafts.set('task', { text: text.value, scope: scope.value });
		else drafts.drop('task');
	};
	/** @type {HTMLTextAreaElement} */
	const text = h('textarea', { id: 'task-text', value: draft?.text ?? '', oninput: () => keep(), rows: 4, required: true, dir: 'auto', placeholder: 'We deploy on Tuesdays, after the smoke test has passed.' });
	/** @type {HTMLSelectElement} */
	const scope = h('select', { id: 'task-scope', value: draft?.scope ?? '', onchange: () => keep() }, h('option', { value: '' }, 'Where it belongs'), h('option', { value: 'user' }, 'Global'), h('option', { value: 'project' }, 'Project'));
	const error = h('p.error-text', { role: 'alert', hidden: true });
	const submit = h('button.primary', { type: 'submit' }, 'Remember');
	/** @type {Map<string, T.Task>} */
	const tasks = new Map();
	let timer = 0;
	let disposed = false;
	let shown = '';

	async function load() {
		clearTimeout(timer);
		try {
			for (const task of (await api.tasks()).tasks) tasks.set(task.taskId, task);
			render();
		} catch (reason) {
			if (!tasks.size) replace(list, failure(reason));
		}
		if (!disposed && [...tasks.values()].some((task) => UNFINISHED.includes(task.status))) timer = setTimeout(() => load(), POLL_MS);
	}

	function render() {
		const sorted = [...tasks.values()].sort((a, b) => b.createdAt.localeCompare(a.createdAt));
		// Unchanged tasks keep their elements, and with them the focus.
		const state = JSON.stringify(sorted);
		if (state === shown) return;
		shown = state;
		replace(list, sorted.length ? h('ul.card.task-list', { 'aria-live': 'polite' }, sorted.map(row))
			: emptyState('tasks', 'No tasks', 'Finished tasks are listed for a while. What they changed stays below.'));
	}

	/** @param {T.Task} task */
	function row(task) {
		const result = task.result;
		const entries = result?.changes ?? [];
		const unfinished = UNFINISHED.includes(task.status);
		const kind = task.kind || task.taskId.split('-')[0] || '';
		return h('li.task.stack',
			h('div.task-head.bar',
				h('span', { class: `status status-${task.status}` }, STATUS[task.status] ?? task.status),
				h('strong', TASKS[kind] ?? kind),
				time(task.createdAt),
				h('span.spacer'),
				entries.length ? h('a.button.small', { href: href('history', '', { task: task.taskId }), 'aria-label': 'What this task changed' }, 'Changes and undo') : null),
			unfinished ? h('div.progress', { role: 'progressbar', 'aria-label': 'Working' }) : null,
			result ? h('p', visible(result.summary)) : null,
			task.error ? h('p.error-text', visible(task.error.message), task.error.details ? visible(` ${task.error.details}`) : '') : null,
			h('ul.outcome', entries.map((entry) => h('li', h('span.badge.plain', entry.action), visible(entry.summary), ' ', memoryLink(entry.filePath)))),
			result?.proposals ? h('p', h('a', { href: href('inbox') }, `${count(result.proposals, 'proposal')} for you to decide`)) : null);
	}

	/** @param {string} kind @param {unknown} body */
	async function start(kind, body) {
		error.hidden = true;
		submit.disabled = true;
		try {
			const task = await api.startTask(kind, body);
			tasks.set(task.taskId, { ...task, kind });
			render();
			await load();
			return true;
		} catch (reason) {
			replace(error, messageOf(reason));
			error.hidden = false;
			return false;
		} finally {
			submit.disabled = false;
		}
	}

	const form = h('form.card.task-form.stack', {
		onsubmit: async (event) => {
			event.preventDefault();
			const body = { content: text.value, ...(scope.value ? { scope: scope.value } : {}) };
			if (!await start('remember', body)) return;
			// Only what was sent goes; the view may be another by now.
			const field = document.getElementById('task-text');
			const now = field instanceof HTMLTextAreaElement ? field : text;
			if (now.value.startsWith(body.content)) now.value = now.value.slice(body.content.length).trimStart();
			now.dispatchEvent(new Event('input'));
		},
	},
	h('label', { for: 'task-text' }, 'What should be remembered?'), text,
	h('div.task-options.bar', h('label', { for: 'task-scope' }, 'Scope'), scope, h('span.spacer'), submit), error);

	const runs = runList();
	const models = h('ul.card.runs');
	const byModels = section('What models did', [models]);
	const loadModels = () => api.modelRuns().then((page) => {
		byModels.hidden = !page.runs.length;
		replace(models, page.runs.map(modelRow));
	}, () => { byModels.hidden = true; });
	let soon = 0;
	const off = store.on('changes', () => {
		load();
		clearTimeout(soon);
		soon = setTimeout(() => { runs.load(); loadModels(); }, 400);
	});
	load();
	loadModels();
	return {
		title: 'Tasks and runs',
		element: h('div.page', pageHead('Tasks and runs', ['Text is split into facts that go where they belong'],
			h('button', { onclick: () => start('dream', {}) }, 'Tidy up now')), form, section('Recent tasks', [list]), byModels, runs.element),
		dispose() {
			disposed = true;
			clearTimeout(timer);
			clearTimeout(soon);
			off();
		},
	};
}
