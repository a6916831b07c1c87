/** One request and its answer: headers, deadline, abort, errors. */

import {
  ConnectionError,
  ProtocolError,
  LukasaError,
  TimeoutError,
  TooLargeError,
  errorOf,
} from './errors.js';
import type { Route } from './wire.js';

/** How long a call may take unless it is told: far more than any takes but a large import. */
export const CALL_TIMEOUT_MS = 30_000;

/** How many bytes an answer may have unless the call says otherwise: more than any but a huge export. */
export const ANSWER_BYTES_MAX = 256 * 1024 * 1024;

/** How many bytes a refusal may have: it may show differences of memories. */
const REFUSAL_BYTES_MAX = 16 * 1024 * 1024;

/** What every call takes. */
export interface CallOptions {
  /** Ends the call; it throws the signal's reason. A write that was sent by then is carried out whole. */
  signal?: AbortSignal | undefined;
  /** Gives the call so long: 30 seconds when left out. */
  timeoutMs?: number | undefined;
  /** Reads no answer of more bytes than so many: 256 MiB when left out. */
  maxBytes?: number | undefined;
}

/** Where a daemon is, and as whom it is called. */
export interface Door {
  url: URL;
  authorization: string;
  fetch: typeof fetch;
  clientId?: string | undefined;
  workspace?: string | undefined;
}

/** What is asked. */
export interface Call {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  /** The route, as the API's description spells it. */
  route: Route;
  /** What stands in the route for `{name}`. */
  path?: Record<string, string>;
  query?: Record<string, string | number | boolean | null | undefined>;
  headers?: Record<string, string>;
  json?: unknown;
  bytes?: Uint8Array;
}

export class Transport {
  constructor(readonly door: Door) {}

  /** Returns the call, about the workspace that is meant. */
  here<C extends Call>(call: C): C {
    return { ...call, query: { ...call.query, workspace: this.door.workspace } };
  }

  /** Returns the JSON that a call is answered with. */
  async value<T>(call: Call, options?: CallOptions): Promise<T> {
    const { status, text } = await this.text(call, options);
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      throw new ProtocolError(status, "the daemon's answer cannot be read", { cause });
    }
  }

  /** Returns the text that a call is answered with. */
  async text(call: Call, options: CallOptions = {}): Promise<{ status: number; text: string }> {
    return this.within(options, async (signal) => {
      const response = await this.send(call, signal);
      const bytes = await bytesOf(response, options.maxBytes);
      return { status: response.status, text: new TextDecoder().decode(bytes) };
    });
  }

  /** Returns the bytes that a call is answered with. */
  async bytes(call: Call, options: CallOptions = {}): Promise<Uint8Array> {
    return this.within(options, async (signal) => {
      const response = await this.send(call, signal);
      return bytesOf(response, options.maxBytes);
    });
  }

  /** Returns an answer whose body goes on until `signal` is aborted; only its head has a deadline. */
  async stream(call: Call, signal: AbortSignal, timeoutMs = CALL_TIMEOUT_MS): Promise<Response> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), timeoutMs);
    try {
      return await this.send(call, AbortSignal.any([signal, late.signal]));
    } catch (error) {
      throw failure(error, signal, late.signal, timeoutMs);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Does something under a deadline and a signal, and says which of them ended it. */
  private async within<T>(
    { signal, timeoutMs = CALL_TIMEOUT_MS }: CallOptions,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    const late = AbortSignal.timeout(timeoutMs);
    try {
      return await work(signal === undefined ? late : AbortSignal.any([signal, late]));
    } catch (error) {
      throw failure(error, signal, late, timeoutMs);
    }
  }

  /** Returns an answer that is a success; any other is thrown. */
  private async send(call: Call, signal: AbortSignal): Promise<Response> {
    const { authorization, clientId, fetch } = this.door;
    const headers = new Headers({ authorization, ...call.headers });
    if (clientId !== undefined) headers.set('x-lukasa-client-id', clientId);
    const init: RequestInit = { method: call.method, headers, signal };
    if (call.json !== undefined) {
      headers.set('content-type', 'application/json');
      init.body = JSON.stringify(call.json);
    } else if (call.bytes !== undefined) {
      headers.set('content-type', 'application/x-tar');
      init.body = call.bytes as Uint8Array<ArrayBuffer>;
    }
    const response = await connected(fetch(this.target(call), init));
    if (response.ok) return response;
    const text = new TextDecoder().decode(await bytesOf(response, REFUSAL_BYTES_MAX));
    throw errorOf(response.status, text, response.headers.get('retry-after'));
  }

  private target({ route, path = {}, query = {} }: Call): URL {
    const named = route.replace(/\{(\w+)\}/g, (_, name: string) => encoded(path[name] ?? ''));
    const url = new URL(this.door.url);
    url.pathname = url.pathname.replace(/\/$/, '') + named;
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined && value !== null) url.searchParams.set(name, String(value));
    }
    return url;
  }
}

/** Returns a path as a URL has it. Dots cannot be sent: URLs resolve them, and would lead elsewhere. */
function encoded(path: string): string {
  const segments = path.split('/');
  if (segments.some((segment) => segment === '.' || segment === '..')) {
    throw new LukasaError('invalid_path', `a path must not contain \`.\` or \`..\`: ${path}`);
  }
  return segments.map(encodeURIComponent).join('/');
}

/** Returns the body of an answer, if it has no more bytes than it may. */
async function bytesOf(response: Response, max = ANSWER_BYTES_MAX): Promise<Uint8Array> {
  const reader = response.body?.getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const part = reader && (await connected(reader.read()));
    if (part?.value === undefined) break;
    length += part.value.length;
    if (length > max) {
      // What else comes is not waited for.
      reader?.cancel().catch(() => undefined);
      throw new TooLargeError(max);
    }
    parts.push(part.value);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Returns what a connection brings; whatever breaks it is one error. */
async function connected<T>(brought: Promise<T>): Promise<T> {
  try {
    return await brought;
  } catch (cause) {
    throw new ConnectionError(cause);
  }
}

/** Returns what is to be thrown: whoever ended the call, or else the error. */
function failure(
  error: unknown,
  signal: AbortSignal | undefined,
  late: AbortSignal,
  timeoutMs: number,
): unknown {
  if (signal?.aborted) return signal.reason;
  return late.aborted ? new TimeoutError(timeoutMs) : error;
}

/** Waits; throws the signal's reason when it is aborted meanwhile. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', abort, { once: true });
  });
}

export function match(revision: string): Record<string, string> {
  return { 'if-match': `"${revision}"` };
}
