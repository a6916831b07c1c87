/** History: changes, their diffs, and undo. */

import { pages } from './pages.js';
import type { Call, CallOptions, Transport } from './transport.js';
import type {
  Change,
  ChangePage,
  ChangeWithDiffs,
  ChangesQuery,
  ModelRun,
  ModelRunPage,
  Run,
  RunPage,
  RunsQuery,
  UndoSeveral,
  UndoResponse,
} from './wire.js';

export class Changes {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns one page of changes, newest first. */
  async list(query: ChangesQuery = {}, options?: CallOptions): Promise<ChangePage> {
    return this.#value({ method: 'GET', route: '/v1/changes', query }, options);
  }

  /** Iterates over all changes, newest first. */
  async *all(query: ChangesQuery = {}, options?: CallOptions): AsyncGenerator<Change, void> {
    for await (const page of pages(query, (next) => this.list(next, options))) yield* page.changes;
  }

  /** Returns a change, with its diff for each memory. */
  async get(id: number, options?: CallOptions): Promise<ChangeWithDiffs> {
    const call: Call = { method: 'GET', route: '/v1/changes/{id}', path: { id: String(id) } };
    return this.#value(call, options);
  }

  /**
   * Undoes a change, as a new change. With `dryRun`, only returns what would happen.
   *
   * @throws {UndoBlockedError} when any of its memories was changed since
   */
  async undo(
    id: number,
    { dryRun }: { dryRun?: boolean } = {},
    options?: CallOptions,
  ): Promise<UndoResponse> {
    const path = { id: String(id) };
    const query = { dryRun };
    return this.#value({ method: 'POST', route: '/v1/changes/{id}/undo', path, query }, options);
  }

  /**
   * Undoes several changes, as one new change: the given ones, or all of a task, a session or a time span.
   *
   * @throws {UndoBlockedError} when any of their memories was changed since; nothing is undone then
   */
  async undoSeveral(
    what: UndoSeveral,
    { dryRun }: { dryRun?: boolean } = {},
    options?: CallOptions,
  ): Promise<UndoResponse> {
    const query = { dryRun };
    return this.#value({ method: 'POST', route: '/v1/undo', query, json: what }, options);
  }

  /** Returns one page of changes grouped by task and session, newest first. */
  async runs(query: RunsQuery = {}, options?: CallOptions): Promise<RunPage> {
    return this.#value({ method: 'GET', route: '/v1/runs', query }, options);
  }

  /** Iterates over all runs, newest first. A run that a page cuts off is yielded again, with its older changes. */
  async *allRuns(query: RunsQuery = {}, options?: CallOptions): AsyncGenerator<Run, void> {
    for await (const page of pages(query, (next) => this.runs(next, options))) yield* page.runs;
  }

  /** Returns one page of model runs for tasks, newest first. */
  async modelRuns(query: RunsQuery = {}, options?: CallOptions): Promise<ModelRunPage> {
    return this.#value({ method: 'GET', route: '/v1/runs/models', query }, options);
  }

  /** Iterates over all model runs for tasks, newest first. */
  async *allModelRuns(query: RunsQuery = {}, options?: CallOptions): AsyncGenerator<ModelRun, void> {
    for await (const page of pages(query, (next) => this.modelRuns(next, options))) yield* page.runs;
  }

  async #value<T>(call: Call, options?: CallOptions): Promise<T> {
    return this.#transport.value(this.#transport.inWorkspace(call), options);
  }
}
