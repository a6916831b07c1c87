/**
 * Errors, one class for each way to handle them.
 *
 * An aborted call throws the reason of its signal, as `fetch` does.
 */

import type { Blocked, ErrorBody, Task, TaskError } from './wire.js';

/** Base class of all errors that this client throws. */
export class LukasaError extends Error {
  override readonly name: string = 'LukasaError';

  constructor(
    /** A stable code. */
    readonly code: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Whether a retry may succeed: the daemon is unreachable, busy or full. */
  get isTemporary(): boolean {
    return false;
  }
}

/** The daemon is unreachable, or the connection broke. In the latter case the request may have taken effect. */
export class ConnectionError extends LukasaError {
  override readonly name = 'ConnectionError';

  constructor(cause: unknown) {
    super('connection', 'the daemon cannot be reached', { cause });
  }

  override get isTemporary(): boolean {
    return true;
  }
}

/** The daemon did not answer in time. The request may have taken effect. */
export class TimeoutError extends LukasaError {
  override readonly name = 'TimeoutError';

  constructor(readonly timeoutMs: number) {
    super('timeout', `the daemon did not answer within ${timeoutMs} ms`);
  }

  override get isTemporary(): boolean {
    return true;
  }
}

/** The response exceeds the size limit and was not read. The request has taken effect. */
export class TooLargeError extends LukasaError {
  override readonly name = 'TooLargeError';

  constructor(readonly maxBytes: number) {
    super('answer_too_large', `the daemon's answer is larger than ${maxBytes} bytes`);
  }
}

/** The response does not follow this API. */
export class ProtocolError extends LukasaError {
  override readonly name = 'ProtocolError';

  constructor(
    readonly status: number,
    message: string,
    options?: ErrorOptions,
  ) {
    super('protocol', message, options);
  }

  override get isTemporary(): boolean {
    return this.status >= 502 && this.status <= 504;
  }
}

/** The daemon refused the request, with one of its codes. Nothing was changed. */
export class ApiError extends LukasaError {
  override readonly name: string = 'ApiError';
  /** Further fields of the error body. */
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(
    readonly status: number,
    body: ErrorBody,
    /** When to retry, if the daemon says so. */
    readonly retryAfterMs: number | undefined,
  ) {
    const { error, code, ...facts } = body;
    super(code, error);
    this.facts = facts;
  }
}

/** The token is missing or wrong. */
export class UnauthorizedError extends ApiError {
  override readonly name = 'UnauthorizedError';
}

/** The object does not exist, or this client may not see it. */
export class NotFoundError extends ApiError {
  override readonly name = 'NotFoundError';
}

/** The daemon is overloaded or shutting down. */
export class BusyError extends ApiError {
  override readonly name = 'BusyError';

  override get isTemporary(): boolean {
    return true;
  }
}

/** The memory was changed since it was read. */
export class ConflictError extends ApiError {
  override readonly name = 'ConflictError';

  /** The current revision; `undefined` when the memory is gone. */
  get revision(): string | undefined {
    const { revision } = this.facts as { revision?: string };
    return revision;
  }
}

/** Screening refused the text: it looks like a secret or a prompt injection. */
export class ScreenedError extends ApiError {
  override readonly name = 'ScreenedError';

  /** The screening rule. */
  get rule(): string | undefined {
    return (this.facts as { rule?: string }).rule;
  }

  /** The line, counted from 1. */
  get line(): number | undefined {
    return (this.facts as { line?: number }).line;
  }
}

/** A change cannot be undone, because memories were changed since. */
export class UndoBlockedError extends ApiError {
  override readonly name = 'UndoBlockedError';

  /** Those memories, with the later changes. */
  get blocked(): readonly Blocked[] {
    return (this.facts as { blocked?: Blocked[] }).blocked ?? [];
  }
}

/** The task failed or was cancelled. It changed nothing. */
export class TaskFailedError extends LukasaError {
  override readonly name = 'TaskFailedError';

  constructor(
    readonly task: Task,
    error: TaskError,
  ) {
    super(error.code, error.details ? `${error.message} ${error.details}` : error.message);
  }
}

/** The task has not ended yet; it continues. */
export class TaskUnfinishedError extends LukasaError {
  override readonly name = 'TaskUnfinishedError';

  constructor(
    /** Its state when last polled. */
    readonly task: Task,
    readonly timeoutMs: number,
  ) {
    super('task_unfinished', `the task has not ended within ${timeoutMs} ms`);
  }
}

/** Returns the error for a response. */
export function errorFromResponse(status: number, text: string, retryAfter: string | null): LukasaError {
  const body = errorBody(text);
  if (body === undefined) return new ProtocolError(status, `the daemon answered ${status}`);
  const seconds = retryAfter === null ? NaN : Number(retryAfter);
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1_000 : undefined;
  return new (errorClass(status, body))(status, body, retryAfterMs);
}

function errorClass(status: number, body: ErrorBody): typeof ApiError {
  switch (body.code) {
    case 'conflict':
      return 'blocked' in body ? UndoBlockedError : ConflictError;
    case 'screened':
      return ScreenedError;
  }
  switch (status) {
    case 401:
      return UnauthorizedError;
    case 404:
      return NotFoundError;
    case 408:
    case 429:
    case 503:
      return BusyError;
    default:
      return ApiError;
  }
}

function errorBody(text: string): ErrorBody | undefined {
  try {
    const body: unknown = JSON.parse(text);
    const { error, code } = body as Partial<Record<string, unknown>>;
    return typeof error === 'string' && typeof code === 'string' ? (body as ErrorBody) : undefined;
  } catch {
    return undefined;
  }
}
