/**
 * Streams of events that go on where they were cut off.
 *
 * A stream knows its place: the id of the event that was told last, in the numbering of one life of the
 * daemon. When the connection ends it comes back with that place. What cannot be told any more is told as
 * `stream.resync_required`, never passed over in silence.
 */

import { ConnectionError, ProtocolError, LukasaError } from './errors.js';
import { FrameReader } from './frames.js';
import { newsOf } from './news.js';
import type { LukasaEvent } from './news.js';
import { sleep } from './transport.js';
import type { Call, Transport } from './transport.js';

/** How long a stream may say nothing: three signs of life of a daemon. */
const SILENCE_MAX_MS = 45_000;

/** How long before the first attempt to come back; each further one waits twice as long as the last. */
const RECONNECT_MIN_MS = 50;

/** How long at most before an attempt: what a daemon advises. */
const RECONNECT_MAX_MS = 3_000;

/** How many attempts in a row may fail. A restart takes less than the first few. */
const RECONNECT_ATTEMPTS_MAX = 10;

/** A place in a stream. */
export interface Cursor {
  /** The id of the event that was seen last. */
  lastEventId: number;
  /** The numbering that it belongs to. */
  epoch?: string | undefined;
}

/** Where a stream begins, and when it ends. */
export interface EventsOptions {
  /** With what happens from now on, with the oldest event that is kept, or after what was seen. */
  from?: 'now' | 'oldest' | Cursor | undefined;
  /** Whether it comes back when the connection ends, as it does when this is left out. */
  reconnect?: boolean | undefined;
  /** Ends the stream; whoever waits for an event is thrown the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** An open connection, and how to close it. */
interface Connection {
  reader: ReadableStreamDefaultReader<string>;
  close: AbortController;
  /**
   * Where it says that it begins. Believed with its first frame: that may say that something was missed, and
   * whoever is cut off before it has to be told again.
   */
  begins: Cursor | undefined;
}

/**
 * Events as they come. It ends when it is closed, or left by `break`; and with the connection if it does not
 * reconnect. Events are fetched as they are read, so a reader that stops costs no memory here.
 */
export class EventStream implements AsyncIterableIterator<LukasaEvent> {
  readonly #transport: Transport;
  readonly #call: Call;
  readonly #reconnect: boolean;
  readonly #end = new AbortController();
  readonly #ended: AbortSignal;
  readonly #events: AsyncGenerator<LukasaEvent, void, undefined>;
  #cursor: Cursor | undefined;
  #connection: Connection | undefined;
  #attempts = 0;

  private constructor(transport: Transport, call: Call, options: EventsOptions) {
    const { from = 'now', reconnect = true, signal } = options;
    this.#transport = transport;
    this.#call = call;
    this.#reconnect = reconnect;
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

  /** Where the stream goes on: after the event that was told last. Whoever keeps it can go on there later. */
  get cursor(): Cursor | undefined {
    return this.#cursor;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /**
   * Waits for the next event.
   *
   * @throws {LukasaError} when the daemon refuses the stream, such as after its session ended, or stayed away
   *   for many attempts
   */
  next(): Promise<IteratorResult<LukasaEvent, void>> {
    return this.#events.next();
  }

  /** Ends the stream. */
  return(): Promise<IteratorResult<LukasaEvent, void>> {
    this.close();
    return this.#events.return();
  }

  /** Ends the stream; whoever waits for an event is told that there is none. */
  close(): void {
    this.#end.abort();
  }

  async *#read(): AsyncGenerator<LukasaEvent, void, undefined> {
    try {
      for (;;) {
        const connection = this.#connection ?? (await this.#comeBack());
        this.#connection = connection;
        try {
          yield* this.#frames(connection);
        } finally {
          connection.close.abort();
          this.#connection = undefined;
        }
        if (!this.#reconnect) return;
      }
    } catch (error) {
      if (!this.#end.signal.aborted) throw error;
    } finally {
      this.#connection?.close.abort();
      this.#end.abort();
    }
  }

  /** Tells what comes over a connection until that ends. */
  async *#frames(connection: Connection): AsyncGenerator<LukasaEvent, void, undefined> {
    const frames = new FrameReader();
    for (;;) {
      const text = await this.#text(connection);
      if (text === undefined) return;
      for (const frame of frames.take(text)) {
        this.#attempts = 0;
        if (connection.begins !== undefined) this.#cursor = connection.begins;
        connection.begins = undefined;
        if (frame.id !== undefined) this.#cursor = { ...this.#cursor, lastEventId: frame.id };
        const news = newsOf(frame);
        if (news !== undefined) yield news;
      }
    }
  }

  /** Returns the next text of a connection; `undefined` when it has ended, or says nothing for long. */
  async #text({ reader, close }: Connection): Promise<string | undefined> {
    const silence = setTimeout(() => close.abort(), SILENCE_MAX_MS);
    try {
      const { value } = await reader.read();
      return value;
    } catch (error) {
      this.#ended.throwIfAborted();
      if (this.#reconnect) return undefined;
      throw new ConnectionError(error);
    } finally {
      clearTimeout(silence);
    }
  }

  /** Tries to connect until it works, or there were too many attempts. */
  async #comeBack(): Promise<Connection> {
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

  async #connect(): Promise<Connection> {
    const headers: Record<string, string> = { accept: 'text/event-stream' };
    if (this.#cursor !== undefined) {
      headers['last-event-id'] = String(this.#cursor.lastEventId);
      if (this.#cursor.epoch) headers['x-qwen-event-epoch'] = this.#cursor.epoch;
    }
    const close = new AbortController();
    const signal = AbortSignal.any([close.signal, this.#ended]);
    const response = await this.#transport.stream({ ...this.#call, headers }, signal);
    const begins = placeOf(response.headers);
    this.#cursor ??= begins;
    if (response.body === null) throw new ProtocolError(response.status, 'the stream has no body');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    return { reader, close, begins };
  }
}

/** Returns where a stream says that it begins. */
function placeOf(headers: Headers): Cursor | undefined {
  const begins = headers.get('x-lukasa-event-cursor');
  if (begins === null) return undefined;
  return { lastEventId: Number(begins), epoch: headers.get('x-qwen-event-epoch') ?? undefined };
}
