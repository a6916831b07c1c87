/** Tasks: submit, get, wait, cancel. */

import {
  ApiError,
  LukasaError,
  NotFoundError,
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

/** Delay before the first poll of a task. Rules take a few milliseconds. */
const POLL_MIN_MS = 2;

/** Longest interval between two polls. A model takes seconds. */
const POLL_MAX_MS = 500;

/** Default wait for a task: a little longer than the daemon lets one run. */
const WAIT_TIMEOUT_MS = 310_000;

/** A task of one kind. */
export type TaskOf<Result> = Omit<Task, 'result'> & { result?: Result | null };

/** A completed task. */
export type CompletedTask<Result> = Omit<Task, 'result'> & { result: Result };

/** Options for waiting. */
export interface WaitOptions {
  /** Aborts the wait, not the task. */
  signal?: AbortSignal | undefined;
  /** Longest wait; default 310 seconds, which no task takes. */
  timeoutMs?: number | undefined;
}

export class Tasks {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Submits a text to remember. */
  async remember(
    content: string,
    request: Omit<RememberRequest, 'content'> = {},
    options?: CallOptions,
  ): Promise<TaskOf<RememberResult>> {
    return this.#submit('remember', { ...request, content }, options);
  }

  /** Submits a query: the entries that match are forgotten. */
  async forget(
    query: string,
    request: Omit<ForgetRequest, 'query'> = {},
    options?: CallOptions,
  ): Promise<TaskOf<ForgetResult>> {
    return this.#submit('forget', { ...request, query }, options);
  }

  /** Submits a dream, which tidies memories. */
  async dream(options?: CallOptions): Promise<TaskOf<DreamResult>> {
    return this.#submit('dream', {}, options);
  }

  /** Returns a task, by its id. */
  async get(id: string, options?: CallOptions): Promise<Task> {
    return this.#state('GET', id, options);
  }

  /** Lists the tasks that this client may see, newest first. */
  async list(query: TasksQuery = {}, options?: CallOptions): Promise<ListedTask[]> {
    const call = this.#transport.inWorkspace({ method: 'GET', route: '/v1/tasks', query });
    return (await this.#transport.value<{ tasks: ListedTask[] }>(call, options)).tasks;
  }

  /**
   * Cancels a task. A running one is stopped and may end a little later; one that has ended is not changed.
   * The returned task says which.
   */
  async cancel(task: string | { taskId: string }, options?: CallOptions): Promise<Task> {
    return this.#state('DELETE', taskId(task), options);
  }

  /**
   * Waits until a task is completed. Retries while the daemon is unreachable, full or restarting: tasks
   * survive a restart.
   *
   * @throws {TaskFailedError} when it failed or was cancelled
   * @throws {TaskUnfinishedError} after `timeoutMs`; the task continues
   */
  async waitFor<Result = TaskResult>(
    task: string | TaskOf<Result>,
    { signal, timeoutMs = WAIT_TIMEOUT_MS }: WaitOptions = {},
  ): Promise<CompletedTask<Result>> {
    const end = performance.now() + timeoutMs;
    let latest: Task | LukasaError = new TimeoutError(timeoutMs);
    for (let delay = POLL_MIN_MS; ; delay = Math.min(delay * 2, POLL_MAX_MS)) {
      const left = end - performance.now();
      if (left <= 0) {
        throw latest instanceof LukasaError ? latest : new TaskUnfinishedError(latest, timeoutMs);
      }
      let wanted = 0;
      try {
        const look = { signal, timeoutMs: Math.ceil(Math.min(left, CALL_TIMEOUT_MS)) };
        latest = await this.get(taskId(task), look);
        if (latest.status === 'completed') return latest as CompletedTask<Result>;
        if (latest.status === 'failed') throw new TaskFailedError(latest, latest.error ?? UNKNOWN_ERROR);
      } catch (error) {
        if (!(error instanceof LukasaError && error.isTemporary)) throw error;
        // The last state of the task says more than a timeout.
        if (latest instanceof LukasaError || !(error instanceof TimeoutError)) latest = error;
        if (error instanceof ApiError) wanted = error.retryAfterMs ?? 0;
      }
      const pause = Math.min(Math.max(delay, wanted), Math.max(end - performance.now(), 0));
      await sleep(pause, signal);
    }
  }

  async #submit<T>(kind: TaskKind, json: unknown, options?: CallOptions): Promise<T> {
    return this.#transport.value({ method: 'POST', ...this.#kindRoute(kind), json }, options);
  }

  /** Returns the route of a kind, in this workspace. */
  #kindRoute(kind: string): Pick<Call, 'route' | 'path'> {
    const { workspace } = this.#transport.options;
    return workspace === undefined
      ? { route: '/workspace/memory/{kind}', path: { kind } }
      : { route: '/workspaces/{workspace}/memory/{kind}', path: { workspace, kind } };
  }

  /** Sends a call about one task and returns its state. */
  async #state(method: 'GET' | 'DELETE', task: string, options?: CallOptions): Promise<Task> {
    try {
      return await this.#transport.value<Task>(this.#taskCall(method, task), options);
    } catch (error) {
      if (!(error instanceof NotFoundError) || error.code !== 'route_not_found') throw error;
      // The kind is a part of the route.
      const message = `no task has the id '${task}': ids begin with a kind, such as \`remember-\``;
      throw new NotFoundError(error.status, { code: 'task_not_found', error: message }, undefined);
    }
  }

  /** Returns a call about one task; its id begins with its kind. */
  #taskCall(method: 'GET' | 'DELETE', task: string): Call {
    const { workspace } = this.#transport.options;
    const kind = task.split('-', 1)[0] || task;
    return workspace === undefined
      ? { method, route: '/workspace/memory/{kind}/{task}', path: { kind, task } }
      : {
          method,
          route: '/workspaces/{workspace}/memory/{kind}/{task}',
          path: { workspace, kind, task },
        };
  }
}

/** The error of a failed task without one. */
const UNKNOWN_ERROR = { code: 'unknown', message: 'The task failed.' };

function taskId(task: string | { taskId: string }): string {
  return typeof task === 'string' ? task : task.taskId;
}
