/** Tasks: asked for, looked at, waited for, taken back. */

import {
  ApiError,
  LukasaError,
  TaskFailedError,
  TaskUnfinishedError,
  TimeoutError,
} from './errors.js';
import { CALL_TIMEOUT_MS, sleep } from './transport.js';
import type { Call, CallOptions, Transport } from './transport.js';
import type {
  DreamResult,
  ForgetRequest,
  ForgetResult,
  ListedTask,
  RememberRequest,
  RememberResult,
  Task,
  TaskKind,
  TaskResult,
  TasksQuery,
} from './wire.js';

/** How soon a task is looked at after it was asked for. Rules take a few milliseconds. */
const POLL_MIN_MS = 2;

/** How long at most between two looks. A model takes seconds. */
const POLL_MAX_MS = 500;

/** How long a task is waited for: a little longer than the daemon lets any run. */
const WAIT_TIMEOUT_MS = 310_000;

/** A task whose kind is known. */
export type TaskOf<Result> = Omit<Task, 'result'> & { result?: Result | null };

/** A task that is done. */
export type CompletedTask<Result> = Omit<Task, 'result'> & { result: Result };

/** How a task is waited for. */
export interface WaitOptions {
  /** Ends the waiting, not the task. */
  signal?: AbortSignal | undefined;
  /** Waits no longer than this: 310 seconds when left out, which no task takes. */
  timeoutMs?: number | undefined;
}

export class Tasks {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Asks to remember a text. */
  async remember(
    content: string,
    request: Omit<RememberRequest, 'content'> = {},
    options?: CallOptions,
  ): Promise<TaskOf<RememberResult>> {
    return this.#ask('remember', { ...request, content }, options);
  }

  /** Asks to forget what a query means. */
  async forget(
    query: string,
    request: Omit<ForgetRequest, 'query'> = {},
    options?: CallOptions,
  ): Promise<TaskOf<ForgetResult>> {
    return this.#ask('forget', { ...request, query }, options);
  }

  /** Asks to tidy up. */
  async dream(options?: CallOptions): Promise<TaskOf<DreamResult>> {
    return this.#ask('dream', {}, options);
  }

  /** Looks at a task, by its id. */
  async get(id: string, options?: CallOptions): Promise<Task> {
    return this.#transport.value(this.#about('GET', id), options);
  }

  /** Lists the tasks that this client may see, the latest first. */
  async list(query: TasksQuery = {}, options?: CallOptions): Promise<ListedTask[]> {
    const call = this.#transport.here({ method: 'GET', route: '/v1/tasks', query });
    return (await this.#transport.value<{ tasks: ListedTask[] }>(call, options)).tasks;
  }

  /**
   * Takes a task back. One that is being done is stopped and may end a little later; one that has ended
   * stays as it is. What is returned says which.
   */
  async cancel(task: string | { taskId: string }, options?: CallOptions): Promise<Task> {
    return this.#transport.value(this.#about('DELETE', idOf(task)), options);
  }

  /**
   * Waits until a task is completed. A daemon that is away, full or restarting meanwhile is asked again:
   * tasks outlive it.
   *
   * @throws {TaskFailedError} when it was given up or taken back
   * @throws {TaskUnfinishedError} when `timeoutMs` are over; the task goes on
   */
  async waitFor<Result = TaskResult>(
    task: string | TaskOf<Result>,
    { signal, timeoutMs = WAIT_TIMEOUT_MS }: WaitOptions = {},
  ): Promise<CompletedTask<Result>> {
    const end = performance.now() + timeoutMs;
    let heard: Task | LukasaError = new TimeoutError(timeoutMs);
    for (let delay = POLL_MIN_MS; ; delay = Math.min(delay * 2, POLL_MAX_MS)) {
      const left = end - performance.now();
      if (left <= 0) {
        throw heard instanceof LukasaError ? heard : new TaskUnfinishedError(heard, timeoutMs);
      }
      let wanted = 0;
      try {
        const look = { signal, timeoutMs: Math.ceil(Math.min(left, CALL_TIMEOUT_MS)) };
        heard = await this.get(idOf(task), look);
        if (heard.status === 'completed') return heard as CompletedTask<Result>;
        if (heard.status === 'failed') throw new TaskFailedError(heard, heard.error ?? UNTOLD);
      } catch (error) {
        if (!(error instanceof LukasaError && error.isTemporary)) throw error;
        // That time ran out says less than how far the task was when it was seen last.
        if (heard instanceof LukasaError || !(error instanceof TimeoutError)) heard = error;
        if (error instanceof ApiError) wanted = error.retryAfterMs ?? 0;
      }
      const pause = Math.min(Math.max(delay, wanted), Math.max(end - performance.now(), 0));
      await sleep(pause, signal);
    }
  }

  async #ask<T>(kind: TaskKind, json: unknown, options?: CallOptions): Promise<T> {
    return this.#transport.value({ method: 'POST', ...this.#of(kind), json }, options);
  }

  /** Returns the route of a kind, in the workspace that is meant. */
  #of(kind: string): Pick<Call, 'route' | 'path'> {
    const { workspace } = this.#transport.door;
    return workspace === undefined
      ? { route: '/workspace/memory/{kind}', path: { kind } }
      : { route: '/workspaces/{workspace}/memory/{kind}', path: { workspace, kind } };
  }

  /** Returns a call about one task; its id begins with its kind. */
  #about(method: 'GET' | 'DELETE', task: string): Call {
    const { workspace } = this.#transport.door;
    const kind = task.split('-', 1)[0] ?? '';
    return workspace === undefined
      ? { method, route: '/workspace/memory/{kind}/{task}', path: { kind, task } }
      : {
          method,
          route: '/workspaces/{workspace}/memory/{kind}/{task}',
          path: { workspace, kind, task },
        };
  }
}

/** Why a task failed whose daemon does not say. */
const UNTOLD = { code: 'unknown', message: 'The task failed.' };

function idOf(task: string | { taskId: string }): string {
  return typeof task === 'string' ? task : task.taskId;
}
