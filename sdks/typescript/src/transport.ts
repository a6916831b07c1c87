/** One request and its response: headers, deadline, abort, errors. */

import {
  ConnectionError,
  ProtocolError,
  LukasaError,
  TimeoutError,
  TooLargeError,
  errorFromResponse,
} from './errors.js';
import type { Route } from './wire.js';

/** Default timeout of a call: only a large import takes longer. */
export const CALL_TIMEOUT_MS = 30_000;

/** Default limit of a response, in bytes: only a huge export has more. */
export const ANSWER_BYTES_MAX = 256 * 1024 * 1024;

/** Limit of an error response, in bytes: it may hold diffs of memories. */
const REFUSAL_BYTES_MAX = 16 * 1024 * 1024;

/** Options of every call. */
export interface CallOptions {
  /** Aborts the call, which rejects with the signal's reason. A write that was sent takes effect completely. */
  signal?: AbortSignal | undefined;
  /** Timeout of the call; default 30 seconds. */
  timeoutMs?: number | undefined;
  /** Largest response that is read, in bytes; default 256 MiB. */
  maxBytes?: number | undefined;
}

/** Address and credentials of a daemon. */
export interface TransportOptions {
  url: URL;
  authorization: string;
  fetch: typeof fetch;
  clientId?: string | undefined;
  workspace?: string | undefined;
}

/** A request. */
export interface Call {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  /** The route, as in the OpenAPI description. */
  route: Route;
  /** Values for each `{name}` in the route. */
  path?: Record<string, string>;
  query?: Record<string, string | number | boolean | null | undefined>;
  headers?: Record<string, string>;
  json?: unknown;
  bytes?: Uint8Array;
}

export class Transport {
  constructor(readonly options: TransportOptions) {}

  /** Returns the call with this workspace. */
  inWorkspace<C extends Call>(call: C): C {
    return { ...call, query: { ...call.query, workspace: this.options.workspace } };
  }

  /** Sends a call; returns the JSON of the response. */
  async value<T>(call: Call, options?: CallOptions): Promise<T> {
    const { status, text } = await this.text(call, options);
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      throw new ProtocolError(status, "the daemon's answer cannot be read", { cause });
    }
  }

  /** Sends a call; returns the text of the response. */
  async text(call: Call, options: CallOptions = {}): Promise<{ status: number; text: string }> {
    return this.within(options, async (signal) => {
      const response = await this.send(call, signal);
      const bytes = await readBounded(response, options.maxBytes);
      return { status: response.status, text: new TextDecoder().decode(bytes) };
    });
  }

  /** Sends a call; returns the bytes of the response. */
  async bytes(call: Call, options: CallOptions = {}): Promise<Uint8Array> {
    return this.within(options, async (signal) => {
      const response = await this.send(call, signal);
      return readBounded(response, options.maxBytes);
    });
  }

  /** Sends a call whose response is streamed until `signal` is aborted; the deadline covers only its head. */
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

  /** Runs a function under a deadline and a signal; its error says which one ended it. */
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

  /** Returns a successful response; throws for any other. */
  private async send(call: Call, signal: AbortSignal): Promise<Response> {
    const { authorization, clientId, fetch } = this.options;
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
    const response = await asConnectionError(fetch(this.target(call), init));
    if (response.ok) return response;
    const text = new TextDecoder().decode(await readBounded(response, REFUSAL_BYTES_MAX));
    throw errorFromResponse(response.status, text, response.headers.get('retry-after'));
  }

  private target({ route, path = {}, query = {} }: Call): URL {
    const named = route.replace(/\{(\w+)\}/g, (_, name: string) => encode(name, path[name] ?? ''));
    const url = new URL(this.options.url);
    url.pathname = url.pathname.replace(/\/$/, '') + named;
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined && value !== null) url.searchParams.set(name, String(value));
    }
    return url;
  }
}

/** Encodes a value for a URL. Only a path has several segments. An empty value is refused: it leads to another route. */
function encode(name: string, value: string): string {
  if (value === '') throw new LukasaError(name === 'path' ? 'invalid_path' : 'invalid_id', `the ${name} is empty`);
  const encoded = encodePath(value);
  return name === 'path' ? encoded : encoded.replaceAll('/', '%2F');
}

/** Encodes a path for a URL. Segments of dots are refused: URLs resolve them to another path. */
function encodePath(path: string): string {
  const segments = path.split('/');
  if (segments.some((segment) => segment === '.' || segment === '..')) {
    throw new LukasaError('invalid_path', `a path must not contain \`.\` or \`..\`: ${path}`);
  }
  return segments.map(encodeURIComponent).join('/');
}

/** Reads a response body, up to the limit. */
async function readBounded(response: Response, max = ANSWER_BYTES_MAX): Promise<Uint8Array> {
  const reader = response.body?.getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const part = reader && (await asConnectionError(reader.read()));
    if (part?.value === undefined) break;
    length += part.value.length;
    if (length > max) {
      // The rest is not read.
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

/** Turns any failure of a connection into a `ConnectionError`. */
async function asConnectionError<T>(brought: Promise<T>): Promise<T> {
  try {
    return await brought;
  } catch (cause) {
    throw new ConnectionError(cause);
  }
}

/** Returns the error to throw: the signal's reason, a timeout, or the error itself. */
function failure(
  error: unknown,
  signal: AbortSignal | undefined,
  late: AbortSignal,
  timeoutMs: number,
): unknown {
  if (signal?.aborted) return signal.reason;
  return late.aborted ? new TimeoutError(timeoutMs) : error;
}

/** Waits; rejects with the signal's reason on abort. */
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

export function ifMatch(revision: string): Record<string, string> {
  return { 'if-match': `"${revision}"` };
}
