/**
 * What can go wrong, as classes: each says what the caller can do about it.
 *
 * An aborted call is none of these: it throws the reason of its signal, as `fetch` does.
 */

import type { Blocked, ErrorBody, Task, TaskError } from './wire.js';

/** Anything that this client throws of itself. */
export class LukasaError extends Error {
  override readonly name: string = 'LukasaError';

  constructor(
    /** What went wrong, in a word that stays the same. */
    readonly code: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Whether the same call may work a little later: the daemon is away, busy or full. */
  get isTemporary(): boolean {
    return false;
  }
}

/** Nobody is there, or the connection broke. In the latter case what was asked may have been done. */
export class ConnectionError extends LukasaError {
  override readonly name = 'ConnectionError';

  constructor(cause: unknown) {
    super('connection', 'the daemon cannot be reached', { cause });
  }

  override get isTemporary(): boolean {
    return true;
  }
}

/** The daemon did not answer in time. What was asked may have been done. */
export class TimeoutError extends LukasaError {
  override readonly name = 'TimeoutError';

  constructor(readonly timeoutMs: number) {
    super('timeout', `the daemon did not answer within ${timeoutMs} ms`);
  }

  override get isTemporary(): boolean {
    return true;
  }
}

/** The answer has more bytes than it may, and was not read. What was asked is done. */
export class TooLargeError extends LukasaError {
  override readonly name = 'TooLargeError';

  constructor(readonly maxBytes: number) {
    super('answer_too_large', `the daemon's answer is larger than ${maxBytes} bytes`);
  }
}

/** The answer is none of this API. */
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

/** The daemon says no, with one of its codes. Nothing was changed. */
export class ApiError extends LukasaError {
  override readonly name: string = 'ApiError';
  /** What belongs to the code. */
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(
    readonly status: number,
    body: ErrorBody,
    /** When the same call may work, if the daemon knows. */
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

/** There is no such thing, or none that this client may see. */
export class NotFoundError extends ApiError {
  override readonly name = 'NotFoundError';
}

/** The daemon has too much to do, or is ending. */
export class BusyError extends ApiError {
  override readonly name = 'BusyError';

  override get isTemporary(): boolean {
    return true;
  }
}

/** Somebody else was quicker: the memory is not what the write was to replace. */
export class ConflictError extends ApiError {
  override readonly name = 'ConflictError';

  /** The revision that the memory has; `undefined` when it is gone. */
  get revision(): string | undefined {
    const { revision } = this.facts as { revision?: string };
    return revision;
  }
}

/** The text looks like a secret or an attack on the model. */
export class ScreenedError extends ApiError {
  override readonly name = 'ScreenedError';

  /** The rule that objects. */
  get rule(): string | undefined {
    return (this.facts as { rule?: string }).rule;
  }

  /** The line that it objects to, counted from 1. */
  get line(): number | undefined {
    return (this.facts as { line?: number }).line;
  }
}

/** A change cannot be taken back, for memories were changed since. */
export class UndoBlockedError extends ApiError {
  override readonly name = 'UndoBlockedError';

  /** Those memories, with what was changed. */
  get blocked(): readonly Blocked[] {
    return (this.facts as { blocked?: Blocked[] }).blocked ?? [];
  }
}

/** The task was given up, or taken back. It changed nothing. */
export class TaskFailedError extends LukasaError {
  override readonly name = 'TaskFailedError';

  constructor(
    readonly task: Task,
    error: TaskError,
  ) {
    super(error.code, error.details ? `${error.message} ${error.details}` : error.message);
  }
}

/** The task has not ended yet. It goes on. */
export class TaskUnfinishedError extends LukasaError {
  override readonly name = 'TaskUnfinishedError';

  constructor(
    /** How far it was when it was last looked at. */
    readonly task: Task,
    readonly timeoutMs: number,
  ) {
    super('task_unfinished', `the task has not ended within ${timeoutMs} ms`);
  }
}

/** Returns the error that an answer stands for. */
export function errorOf(status: number, text: string, retryAfter: string | null): LukasaError {
  const body = errorBody(text);
  if (body === undefined) return new ProtocolError(status, `the daemon answered ${status}`);
  const seconds = retryAfter === null ? NaN : Number(retryAfter);
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1_000 : undefined;
  return new (classOf(status, body))(status, body, retryAfterMs);
}

function classOf(status: number, body: ErrorBody): typeof ApiError {
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
