/** History: what was done, line by line, and taking it back. */

import { pages } from './pages.js';
import type { Call, CallOptions, Transport } from './transport.js';
import type {
  Change,
  ChangePage,
  ChangeWithDiffs,
  ChangesQuery,
  ModelRunPage,
  RunPage,
  RunsQuery,
  UndoSeveral,
  Undone,
} from './wire.js';

export class Changes {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists changes, the newest first, one page of them. */
  async list(query: ChangesQuery = {}, options?: CallOptions): Promise<ChangePage> {
    return this.#value({ method: 'GET', route: '/v1/changes', query }, options);
  }

  /** Lists changes, the newest first, page after page. */
  async *all(query: ChangesQuery = {}, options?: CallOptions): AsyncGenerator<Change, void> {
    for await (const page of pages(query, (next) => this.list(next, options))) yield* page.changes;
  }

  /** Shows a change, with what it did to each memory. */
  async get(id: number, options?: CallOptions): Promise<ChangeWithDiffs> {
    const call: Call = { method: 'GET', route: '/v1/changes/{id}', path: { id: String(id) } };
    return this.#value(call, options);
  }

  /**
   * Takes a change back, as a new change; with `dryRun` it is only said what would happen.
   *
   * @throws {UndoBlockedError} when any of its memories was changed since
   */
  async undo(
    id: number,
    { dryRun }: { dryRun?: boolean } = {},
    options?: CallOptions,
  ): Promise<Undone> {
    const path = { id: String(id) };
    const query = { dryRun };
    return this.#value({ method: 'POST', route: '/v1/changes/{id}/undo', path, query }, options);
  }

  /**
   * Takes several changes back, as one new change: those that are named, or all of a task, a session or a time.
   *
   * @throws {UndoBlockedError} when any of their memories was changed since; all stay then
   */
  async undoSeveral(
    what: UndoSeveral,
    { dryRun }: { dryRun?: boolean } = {},
    options?: CallOptions,
  ): Promise<Undone> {
    const query = { dryRun };
    return this.#value({ method: 'POST', route: '/v1/undo', query, json: what }, options);
  }

  /** Lists what tasks and sessions changed, each as one, the latest first, one page of them. */
  async runs(query: RunsQuery = {}, options?: CallOptions): Promise<RunPage> {
    return this.#value({ method: 'GET', route: '/v1/runs', query }, options);
  }

  /** Lists what models did for tasks, the newest first, one page of them. */
  async modelRuns(query: RunsQuery = {}, options?: CallOptions): Promise<ModelRunPage> {
    return this.#value({ method: 'GET', route: '/v1/runs/models', query }, options);
  }

  async #value<T>(call: Call, options?: CallOptions): Promise<T> {
    return this.#transport.value(this.#transport.here(call), options);
  }
}
