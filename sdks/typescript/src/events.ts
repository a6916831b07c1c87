/**
 * Event streams that resume after a lost connection.
 *
 * A stream keeps a cursor: the id of the last event delivered, and the epoch of the daemon that numbered it.
 * It reconnects with that cursor. Lost events are reported as `stream.resync_required`, never dropped
 * silently.
 */

import { ConnectionError, ProtocolError, LukasaError } from './errors.js';
import { FrameReader } from './frames.js';
import { decodeEvent } from './event-types.js';
import type { LukasaEvent } from './event-types.js';
import { sleep } from './transport.js';
import type { Call, Transport } from './transport.js';

/** Longest silence before a reconnect: three heartbeats of the daemon. */
const SILENCE_MAX_MS = 45_000;

/** Delay before the first reconnect; doubled for each further attempt. */
const RECONNECT_MIN_MS = 50;

/** Longest delay before a reconnect: the daemon's advice. */
const RECONNECT_MAX_MS = 3_000;

/** Most failed attempts in a row. A restart takes fewer. */
const RECONNECT_ATTEMPTS_MAX = 10;

/** A cursor in a stream. */
export interface Cursor {
  /** The id of the last event seen. */
  lastEventId: number;
  /** The epoch that numbered it. */
  epoch?: string | undefined;
}

/** Start and end of a stream. */
export interface EventsOptions {
  /** Start with new events, with the oldest event kept, or after a cursor. */
  from?: 'now' | 'oldest' | Cursor | undefined;
  /** Whether it reconnects when the connection ends; default true. */
  reconnect?: boolean | undefined;
  /** Ends the stream; a pending `next` rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** An open connection, and how to close it. */
interface StreamConnection {
  reader: ReadableStreamDefaultReader<string>;
  close: AbortController;
  /**
   * The cursor that the server announced. Adopted with the first frame, which may report lost events: a
   * connection cut before that frame must report them again.
   */
  serverCursor: Cursor | undefined;
}

/**
 * An async iterator over events. It ends on `close`, on `break`, and with the connection if `reconnect` is
 * off. Events are fetched as they are read, so a slow reader costs no memory here.
 */
export class EventStream implements AsyncIterableIterator<LukasaEvent> {
  readonly #transport: Transport;
  readonly #call: Call;
  readonly #reconnects: boolean;
  readonly #end = new AbortController();
  readonly #ended: AbortSignal;
  readonly #events: AsyncGenerator<LukasaEvent, void, undefined>;
  #cursor: Cursor | undefined;
  #connection: StreamConnection | undefined;
  #attempts = 0;

  private constructor(transport: Transport, call: Call, options: EventsOptions) {
    const { from = 'now', reconnect = true, signal } = options;
    this.#transport = transport;
    this.#call = call;
    this.#reconnects = reconnect;
    this.#ended = signal ? AbortSignal.any([signal, this.#end.signal]) : this.#end.signal;
    if (from === 'oldest') this.#cursor = { lastEventId: 0 };
    else if (from !== 'now') this.#cursor = from;
    this.#events = this.#read();
  }

  /** Opens a stream; it is open when the promise resolves. */
  static async open(
    transport: Transport,
    call: Call,
    options: EventsOptions = {},
  ): Promise<EventStream> {
    const stream = new EventStream(transport, call, options);
    stream.#ended.throwIfAborted();
    stream.#connection = await stream.#connect();
    return stream;
  }

  /** The cursor after the last event delivered. Store it to resume there later. */
  get cursor(): Cursor | undefined {
    return this.#cursor;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /**
   * Waits for the next event.
   *
   * @throws {LukasaError} when the daemon refuses the stream (such as after its session ended), or stays
   *   unreachable for many attempts
   */
  next(): Promise<IteratorResult<LukasaEvent, void>> {
    return this.#events.next();
  }

  /** Ends the stream. */
  return(): Promise<IteratorResult<LukasaEvent, void>> {
    this.close();
    return this.#events.return();
  }

  /** Ends the stream; a pending `next` resolves with `done`. */
  close(): void {
    this.#end.abort();
  }

  async *#read(): AsyncGenerator<LukasaEvent, void, undefined> {
    try {
      for (;;) {
        const connection = this.#connection ?? (await this.#reconnect());
        this.#connection = connection;
        try {
          yield* this.#frames(connection);
        } finally {
          connection.close.abort();
          this.#connection = undefined;
        }
        if (!this.#reconnects) return;
      }
    } catch (error) {
      if (!this.#end.signal.aborted) throw error;
    } finally {
      this.#connection?.close.abort();
      this.#end.abort();
    }
  }

  /** Yields the events of a connection until it ends. */
  async *#frames(connection: StreamConnection): AsyncGenerator<LukasaEvent, void, undefined> {
    const frames = new FrameReader();
    for (;;) {
      const text = await this.#text(connection);
      if (text === undefined) return;
      for (const frame of frames.push(text)) {
        this.#attempts = 0;
        if (connection.serverCursor !== undefined) this.#cursor = connection.serverCursor;
        connection.serverCursor = undefined;
        if (frame.id !== undefined) this.#cursor = { ...this.#cursor, lastEventId: frame.id };
        const news = decodeEvent(frame);
        if (news !== undefined) yield news;
      }
    }
  }

  /** Returns the next text of a connection; `undefined` when it has ended or timed out. */
  async #text({ reader, close }: StreamConnection): Promise<string | undefined> {
    const silence = setTimeout(() => close.abort(), SILENCE_MAX_MS);
    try {
      const { value } = await reader.read();
      return value;
    } catch (error) {
      this.#ended.throwIfAborted();
      if (this.#reconnects) return undefined;
      throw new ConnectionError(error);
    } finally {
      clearTimeout(silence);
    }
  }

  /** Reconnects with backoff, until it succeeds or the attempts run out. */
  async #reconnect(): Promise<StreamConnection> {
    for (;;) {
      await sleep(Math.min(RECONNECT_MIN_MS * 2 ** this.#attempts, RECONNECT_MAX_MS), this.#ended);
      this.#attempts += 1;
      try {
        return await this.#connect();
      } catch (error) {
        const isTemporary = error instanceof LukasaError && error.isTemporary;
        if (!isTemporary || this.#attempts >= RECONNECT_ATTEMPTS_MAX) throw error;
      }
    }
  }

  async #connect(): Promise<StreamConnection> {
    const headers: Record<string, string> = { accept: 'text/event-stream' };
    if (this.#cursor !== undefined) {
      headers['last-event-id'] = String(this.#cursor.lastEventId);
      if (this.#cursor.epoch) headers['x-qwen-event-epoch'] = this.#cursor.epoch;
    }
    const close = new AbortController();
    const signal = AbortSignal.any([close.signal, this.#ended]);
    const response = await this.#transport.stream({ ...this.#call, headers }, signal);
    const begins = readCursor(response.headers);
    this.#cursor ??= begins;
    if (response.body === null) throw new ProtocolError(response.status, 'the stream has no body');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    return { reader, close, serverCursor: begins };
  }
}

/** Reads the cursor from the response headers. */
function readCursor(headers: Headers): Cursor | undefined {
  const begins = headers.get('x-lukasa-event-cursor');
  if (begins === null) return undefined;
  return { lastEventId: Number(begins), epoch: headers.get('x-qwen-event-epoch') ?? undefined };
}
