/** The event stream of the daemon. `EventSource` cannot send the token, so the stream is read by hand. */
import { send, session } from './api.js';

const DELAY_MIN = 500;
const DELAY_MAX = 15_000;

export class EventReader {
	/** @type {string | null} */ #lastId = null;
	/** @type {string | null} */ #epoch = null;
	#delay = DELAY_MIN;
	#stopped = false;
	/** @type {AbortController | null} */ #request = null;
	/** @type {(() => void) | null} */ #wake = null;

	/** @param {T.Listener} listener */
	constructor(listener) {
		this.listener = listener;
	}

	async run() {
		while (!this.#stopped) {
			try {
				await this.#read();
			} catch {
				// `send` has reported the failure. Only the next attempt matters here.
			}
			if (this.#stopped) return;
			this.listener.waiting(this.#delay);
			await new Promise((done) => {
				this.#wake = () => done(undefined);
				setTimeout(done, this.#delay);
			});
			this.#wake = null;
			this.#delay = Math.min(DELAY_MAX, this.#delay * 2);
		}
	}

	retry() {
		this.#delay = DELAY_MIN;
		this.#wake?.();
	}

	stop() {
		this.#stopped = true;
		this.#request?.abort();
		this.#wake?.();
	}

	async #read() {
		this.#request = new AbortController();
		/** @type {Record<string, string>} */
		const headers = { accept: 'text/event-stream' };
		if (this.#lastId !== null) headers['last-event-id'] = this.#lastId;
		if (this.#epoch !== null) headers['x-qwen-event-epoch'] = this.#epoch;
		const response = await send(`/v1/events?workspace=${encodeURIComponent(session.workspace)}`,
			{ headers, signal: this.#request.signal });
		const epoch = response.headers.get('x-qwen-event-epoch');
		// A restarted daemon numbers its events from one.
		if (this.#epoch !== null && epoch !== this.#epoch) this.listener.missed();
		this.#epoch = epoch;
		this.#lastId = response.headers.get('x-lukasa-event-cursor') ?? this.#lastId;
		this.#delay = DELAY_MIN;
		const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
		const decoder = new TextDecoder();
		let rest = '';
		for (;;) {
			const { done, value } = await reader.read();
			if (done) return;
			rest += decoder.decode(value, { stream: true });
			const frames = rest.split('\n\n');
			rest = frames.pop() ?? '';
			for (const frame of frames) this.#frame(frame);
		}
	}

	/** @param {string} frame */
	#frame(frame) {
		let data = '';
		for (const line of frame.split('\n')) {
			if (line.startsWith('id:')) this.#lastId = line.slice(3).trim();
			else if (line.startsWith('data:')) data += line.slice(5).trimStart();
		}
		if (!data) return;
		const event = /** @type {T.ServerEvent} */ (JSON.parse(data));
		if (event.type === 'state_resync_required') {
			this.#lastId = null;
			this.listener.missed();
		} else {
			this.listener.event(event);
		}
	}
}
