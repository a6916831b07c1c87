/**
 * Memories: listed, read, written with a precondition, moved, pinned, searched.
 *
 * A memory is named by its path, `/memories/<scope>/…`.
 */

import { pages } from './pages.js';
import { ifMatch } from './transport.js';
import type { Call, CallOptions, Transport } from './transport.js';
import type {
  AgentHosts,
  BatchResponse,
  ContextQuery,
  ExplainedContext,
  SearchResponse,
  HostWorkspaces,
  ImportOutcome,
  MemoriesQuery,
  Memory,
  MemoryHealth,
  MemoryItem,
  MemoryPage,
  Pin,
  RecallQuery,
  RecalledBlock,
  RemovedWorkspace,
  RepairResponse,
  RevisionText,
  SearchQuery,
  BatchStep,
  ToolReply,
  WriteResponse,
} from './wire.js';

export class Memories {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns one page of memories. */
  async list(query: MemoriesQuery = {}, options?: CallOptions): Promise<MemoryPage> {
    return this.#value({ method: 'GET', route: '/v1/memories', query }, options);
  }

  /** Iterates over all memories. */
  async *all(query: MemoriesQuery = {}, options?: CallOptions): AsyncGenerator<MemoryItem, void> {
    for await (const page of pages(query, (next) => this.list(next, options))) yield* page.memories;
  }

  /** Reads a memory, with the revision to name in a later write. */
  async read(path: string, options?: CallOptions): Promise<Memory> {
    return this.#value(pathCall('GET', '/v1/memories/{path}', path), options);
  }

  /**
   * Creates a memory.
   *
   * @throws {ConflictError} with the current revision when the path is taken
   */
  async create(path: string, text: string, options?: CallOptions): Promise<WriteResponse> {
    const call = pathCall('PUT', '/v1/memories/{path}', path);
    return this.#value({ ...call, json: { text }, headers: { 'if-none-match': '*' } }, options);
  }

  /**
   * Replaces a memory, if it still has this revision.
   *
   * @throws {ConflictError} with the current revision when it has changed
   */
  async save(path: string, text: string, revision: string, options?: CallOptions): Promise<WriteResponse> {
    const call = pathCall('PUT', '/v1/memories/{path}', path);
    return this.#value({ ...call, json: { text }, headers: ifMatch(revision) }, options);
  }

  /**
   * Deletes a memory, or a folder with its content; with a revision, only if the memory still has it.
   *
   * @throws {ConflictError} with the current revision when it has changed
   */
  async delete(
    path: string,
    { revision }: { revision?: string } = {},
    options?: CallOptions,
  ): Promise<WriteResponse> {
    const call = pathCall('DELETE', '/v1/memories/{path}', path);
    const headers = revision === undefined ? {} : ifMatch(revision);
    return this.#value({ ...call, headers }, options);
  }

  /** Moves a memory or folder within its scope. */
  async move(from: string, to: string, options?: CallOptions): Promise<WriteResponse> {
    return this.#value({ method: 'POST', route: '/v1/memories/move', json: { from, to } }, options);
  }

  /** Pins a memory: agents get it whole in their context. */
  async pin(path: string, options?: CallOptions): Promise<Pin> {
    return this.#value(pathCall('PUT', '/v1/pins/{path}', path), options);
  }

  /** Unpins a memory. */
  async unpin(path: string, options?: CallOptions): Promise<Pin> {
    return this.#value(pathCall('DELETE', '/v1/pins/{path}', path), options);
  }

  /** Searches the text of memories, ignoring case. */
  async search(text: string, query: SearchQuery = {}, options?: CallOptions): Promise<SearchResponse> {
    return this.#value({ method: 'GET', route: '/v1/search', query: { ...query, q: text } }, options);
  }

  /**
   * Finds the memories that fit a prompt, best first, with a score and the reason for each: at most five, all of
   * them below `path` if that is given. `text` is what a model is shown. It is empty when none fits.
   */
  async recall(prompt: string, query: RecallQuery = {}, options?: CallOptions): Promise<RecalledBlock> {
    return this.#value({ method: 'GET', route: '/v1/recall', query: { ...query, q: prompt } }, options);
  }

  /** Returns the context that a new session of a model gets: facts, context files and index. */
  async context(query: ContextQuery = {}, options?: CallOptions): Promise<ExplainedContext> {
    return this.#value({ method: 'GET', route: '/v1/context', query }, options);
  }

  /** Lists the agents that show memories to their model, with their size limits. */
  async hosts(options?: CallOptions): Promise<AgentHosts> {
    return this.#transport.value({ method: 'GET', route: '/v1/hosts' }, options);
  }

  /**
   * Deletes or moves several memories as one change: all or none.
   *
   * @throws {ConflictError} when a memory does not have the revision that its step names
   */
  async batch(steps: BatchStep[], options?: CallOptions): Promise<BatchResponse> {
    return this.#value({ method: 'POST', route: '/v1/batch', json: { steps } }, options);
  }

  /** Reads an earlier revision, while history keeps it. */
  async revision(revision: string, options?: CallOptions): Promise<RevisionText> {
    const path = { revision };
    return this.#value({ method: 'GET', route: '/v1/revisions/{revision}', path }, options);
  }

  /** Reads an earlier revision, with its diff to another one. */
  async compare(from: string, to: string, options?: CallOptions): Promise<RevisionText> {
    const [path, query] = [{ revision: to }, { against: from }];
    return this.#value({ method: 'GET', route: '/v1/revisions/{revision}', path, query }, options);
  }

  /** Checks all memories; returns problems and suggestions. May take some seconds. */
  async health(options?: CallOptions): Promise<MemoryHealth> {
    return this.#value({ method: 'GET', route: '/v1/health/memories' }, options);
  }

  /** Repairs what can be repaired without loss. */
  async repair(options?: CallOptions): Promise<RepairResponse> {
    return this.#value({ method: 'POST', route: '/v1/health/memories/repair' }, options);
  }

  /** Lists the workspaces with memories on the daemon's host, served or not. */
  async hostWorkspaces(options?: CallOptions): Promise<HostWorkspaces> {
    return this.#transport.value({ method: 'GET', route: '/v1/workspaces' }, options);
  }

  /**
   * Deletes the memories of a workspace on the host as one change, which can be undone, and removes its
   * folder. Refused with `workspace_busy` while it has unfinished tasks.
   */
  async removeWorkspace(id: string, options?: CallOptions): Promise<RemovedWorkspace> {
    const call: Call = { method: 'DELETE', route: '/v1/workspaces/{id}', path: { id } };
    return this.#transport.value(call, options);
  }

  /**
   * Calls the memory tool as a model does, with the arguments of a command. A refusal is a reply for the
   * model, with `ok: false`.
   */
  async tool(
    command: Record<string, unknown>,
    agentClass: 'exec' | 'plan' | 'explore' = 'exec',
    options?: CallOptions,
  ): Promise<ToolReply> {
    const headers = { 'x-lukasa-agent-class': agentClass };
    return this.#value({ method: 'POST', route: '/v1/tool', json: command, headers }, options);
  }

  /** Exports all memories as a tar archive, with a folder for each scope. */
  async export(options?: CallOptions): Promise<Uint8Array> {
    return this.#transport.bytes(this.#transport.inWorkspace({ method: 'GET', route: '/v1/export' }), options);
  }

  /**
   * Imports the Markdown files of a tar archive, as one change: into a scope or folder, or, without `to`, into
   * the scopes that its top folders name. Existing memories are not changed; they are listed in the result.
   */
  async import(
    archive: Uint8Array,
    { to }: { to?: string } = {},
    options?: CallOptions,
  ): Promise<ImportOutcome> {
    const call: Call = { method: 'POST', route: '/v1/import', query: { to }, bytes: archive };
    return this.#value(call, options);
  }

  async #value<T>(call: Call, options?: CallOptions): Promise<T> {
    return this.#transport.value(this.#transport.inWorkspace(call), options);
  }
}

function pathCall(
  method: Call['method'],
  route: '/v1/memories/{path}' | '/v1/pins/{path}',
  path: string,
): Call {
  return { method, route, path: { path: path.replace(/^\/memories(\/|$)/, '') } };
}
