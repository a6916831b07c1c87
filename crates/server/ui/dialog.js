import { messageOf } from './api.js';
import { h, plain, replace, visible } from './dom.js';
import { icon } from './icons.js';

/**
 * Asks before something is done. `act` runs while the dialog is open, so that a refusal is shown in it.
 * @param {T.ConfirmOptions} options
 * @returns {Promise<boolean>} whether it was confirmed
 */
export function confirmDialog({ title, content, action, danger = false, act, wide = false, again, ready }) {
	return new Promise((resolve) => {
		const before = document.activeElement;
		let confirmed = false;
		let busy = false;
		const error = h('p.error-text', { role: 'alert', hidden: true });
		const confirm = h('button', { class: danger ? 'danger' : 'primary' }, action ?? 'Close');
		confirm.type = 'submit';
		const cancel = h('button', 'Cancel');
		const anew = h('button', { hidden: true, onclick: () => {
			dialog.close();
			again?.();
		} }, 'Look again');
		const form = h('form', {
			onsubmit: async (event) => {
				event.preventDefault();
				busy = confirm.disabled = cancel.disabled = true;
				error.hidden = true;
				try {
					await act?.();
					confirmed = true;
				} catch (reason) {
					replace(error, messageOf(reason));
					error.hidden = false;
					anew.hidden = !again;
				}
				busy = confirm.disabled = cancel.disabled = false;
				if (confirmed) dialog.close();
			},
		}, h('h2', visible(title)), h('div.stack', content), error, h('div.dialog-actions.bar', anew, action ? cancel : null, confirm));
		/** @type {HTMLDialogElement} */
		const dialog = h('dialog', { class: wide ? 'wide' : '', 'aria-label': plain(title) }, form);
		cancel.onclick = () => dialog.close();
		// A running action keeps the dialog open: it shows the result.
		dialog.onkeydown = (event) => {
			if (busy && event.key === 'Escape') event.preventDefault();
		};
		dialog.oncancel = (event) => {
			if (busy) event.preventDefault();
		};
		dialog.onclose = () => {
			if (busy) return dialog.showModal();
			dialog.remove();
			if (before instanceof HTMLElement && before.isConnected) before.focus();
			resolve(confirmed);
		};
		ready?.((on) => {
			confirm.disabled = !on;
			error.hidden = true;
		});
		document.body.append(dialog);
		dialog.showModal();
		const field = dialog.querySelector('input, textarea, select');
		(field instanceof HTMLElement ? field : danger ? cancel : confirm).focus();
	});
}

export const dialogOpen = () => document.querySelector('dialog[open]') !== null;

const TOAST_MS = 8000;

/**
 * A message at the edge of the page, with at most one action.
 * @param {string} text
 * @param {{action?: string, act?: () => Promise<unknown> | void, error?: boolean}} [options]
 */
export function toast(text, { action, act, error = false } = {}) {
	const region = /** @type {HTMLElement} */ (document.getElementById('toasts'));
	if (region.children.length > 2) region.firstElementChild?.remove();
	let timer = 0;
	const close = () => {
		clearTimeout(timer);
		element.remove();
	};
	const run = async () => {
		close();
		try {
			await act?.();
		} catch (reason) {
			toast(messageOf(reason), { error: true });
		}
	};
	const start = () => { timer = setTimeout(close, TOAST_MS); };
	const hold = () => clearTimeout(timer);
	/** @type {HTMLElement} */
	const element = h(error ? 'div.toast.error' : 'div.toast', {
		// A message that is hovered or focused stays.
		onpointerenter: hold, onpointerleave: start, onfocusin: hold, onfocusout: start,
	}, h('span', visible(text)), action ? h('button', { onclick: run }, action) : null,
	h('button.icon-button', { 'aria-label': 'Dismiss', onclick: close }, icon('close')));
	region.append(element);
	start();
}
