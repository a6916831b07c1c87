/**
 * Memories: listed, read, written with a precondition, moved, pinned, searched.
 *
 * A memory is named by its path, `/memories/<scope>/…`.
 */

import { pages } from './pages.js';
import { match } from './transport.js';
import type { Call, CallOptions, Transport } from './transport.js';
import type {
  AgentHosts,
  BatchDone,
  ContextQuery,
  ExplainedContext,
  Found,
  HostWorkspaces,
  ImportOutcome,
  MemoriesQuery,
  Memory,
  MemoryHealth,
  MemoryItem,
  MemoryPage,
  Pin,
  RecalledBlock,
  RemovedWorkspace,
  Repaired,
  RevisionText,
  SearchQuery,
  Step,
  ToolReply,
  Written,
} from './wire.js';

export class Memories {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists memories, one page of them. */
  async list(query: MemoriesQuery = {}, options?: CallOptions): Promise<MemoryPage> {
    return this.#value({ method: 'GET', route: '/v1/memories', query }, options);
  }

  /** Lists memories, page after page. */
  async *all(query: MemoriesQuery = {}, options?: CallOptions): AsyncGenerator<MemoryItem, void> {
    for await (const page of pages(query, (next) => this.list(next, options))) yield* page.memories;
  }

  /** Reads a memory, with the revision that a later write names. */
  async read(path: string, options?: CallOptions): Promise<Memory> {
    return this.#value(about('GET', '/v1/memories/{path}', path), options);
  }

  /**
   * Makes a memory where nothing is.
   *
   * @throws {ConflictError} with the revision of what is there
   */
  async create(path: string, text: string, options?: CallOptions): Promise<Written> {
    const call = about('PUT', '/v1/memories/{path}', path);
    return this.#value({ ...call, json: { text }, headers: { 'if-none-match': '*' } }, options);
  }

  /**
   * Replaces the text that was read at this revision.
   *
   * @throws {ConflictError} with the current revision when it is another one by now
   */
  async save(path: string, text: string, revision: string, options?: CallOptions): Promise<Written> {
    const call = about('PUT', '/v1/memories/{path}', path);
    return this.#value({ ...call, json: { text }, headers: match(revision) }, options);
  }

  /**
   * Deletes a memory, or a folder with all that is in it; with a revision, only the text that was read
   * then.
   *
   * @throws {ConflictError} with the current revision when it is another one by now
   */
  async delete(
    path: string,
    { revision }: { revision?: string } = {},
    options?: CallOptions,
  ): Promise<Written> {
    const call = about('DELETE', '/v1/memories/{path}', path);
    const headers = revision === undefined ? {} : match(revision);
    return this.#value({ ...call, headers }, options);
  }

  /** Gives a memory or folder another path in its scope. */
  async move(from: string, to: string, options?: CallOptions): Promise<Written> {
    return this.#value({ method: 'POST', route: '/v1/memories/move', json: { from, to } }, options);
  }

  /** Keeps a memory in the agents' context. */
  async pin(path: string, options?: CallOptions): Promise<Pin> {
    return this.#value(about('PUT', '/v1/pins/{path}', path), options);
  }

  /** Keeps a memory in the agents' context no longer. */
  async unpin(path: string, options?: CallOptions): Promise<Pin> {
    return this.#value(about('DELETE', '/v1/pins/{path}', path), options);
  }

  /** Searches the text of memories, in either case. */
  async search(text: string, query: SearchQuery = {}, options?: CallOptions): Promise<Found> {
    return this.#value({ method: 'GET', route: '/v1/search', query: { ...query, q: text } }, options);
  }

  /**
   * Finds the memories that fit a question, in any words, with the reason for each. When nothing fits, the
   * text is empty.
   */
  async recall(question: string, options?: CallOptions): Promise<RecalledBlock> {
    return this.#value({ method: 'GET', route: '/v1/recall', query: { q: question } }, options);
  }

  /** Returns what a session of a model would begin with now: context files, index and hot set. */
  async context(query: ContextQuery = {}, options?: CallOptions): Promise<ExplainedContext> {
    return this.#value({ method: 'GET', route: '/v1/context', query }, options);
  }

  /** Lists the agents that show their model what memories there are, and how much of it. */
  async hosts(options?: CallOptions): Promise<AgentHosts> {
    return this.#transport.value({ method: 'GET', route: '/v1/hosts' }, options);
  }

  /**
   * Deletes or moves several memories as one change, all of them or none.
   *
   * @throws {ConflictError} when one is at another revision than its step names
   */
  async batch(steps: Step[], options?: CallOptions): Promise<BatchDone> {
    return this.#value({ method: 'POST', route: '/v1/batch', json: { steps } }, options);
  }

  /** Reads what a memory said at a revision, while history keeps it. */
  async revision(revision: string, options?: CallOptions): Promise<RevisionText> {
    const path = { revision };
    return this.#value({ method: 'GET', route: '/v1/revisions/{revision}', path }, options);
  }

  /** Reads what a memory said at a revision, with how that differs from another one. */
  async compare(from: string, to: string, options?: CallOptions): Promise<RevisionText> {
    const [path, query] = [{ revision: to }, { against: from }];
    return this.#value({ method: 'GET', route: '/v1/revisions/{revision}', path, query }, options);
  }

  /** Looks at every memory: what is wrong, and what could be better. May take some seconds. */
  async health(options?: CallOptions): Promise<MemoryHealth> {
    return this.#value({ method: 'GET', route: '/v1/health/memories' }, options);
  }

  /** Mends what can be mended without losing anything. */
  async repair(options?: CallOptions): Promise<Repaired> {
    return this.#value({ method: 'POST', route: '/v1/health/memories/repair' }, options);
  }

  /** Lists the workspaces whose memories lie on the host of the daemon, whether or not it serves them. */
  async hostWorkspaces(options?: CallOptions): Promise<HostWorkspaces> {
    return this.#transport.value({ method: 'GET', route: '/v1/workspaces' }, options);
  }

  /**
   * Deletes the memories of one of the host's workspaces as one change, which `undo` takes back, and removes its
   * folder. Refused with `workspace_busy` while its tasks wait or run.
   */
  async removeWorkspace(id: string, options?: CallOptions): Promise<RemovedWorkspace> {
    const call: Call = { method: 'DELETE', route: '/v1/workspaces/{id}', path: { id } };
    return this.#transport.value(call, options);
  }

  /**
   * Calls the memory tool as a model does, with the arguments of one of its commands. A refusal is a reply
   * that the model reads, with `ok: false`.
   */
  async tool(
    command: Record<string, unknown>,
    agentClass: 'exec' | 'plan' | 'explore' = 'exec',
    options?: CallOptions,
  ): Promise<ToolReply> {
    const headers = { 'x-lukasa-agent-class': agentClass };
    return this.#value({ method: 'POST', route: '/v1/tool', json: command, headers }, options);
  }

  /** Returns all memories as a tar archive, a folder for each scope. */
  async export(options?: CallOptions): Promise<Uint8Array> {
    return this.#transport.bytes(this.#transport.here({ method: 'GET', route: '/v1/export' }), options);
  }

  /**
   * Takes over the Markdown files of a tar archive, as one change: into a scope or folder, or, when `to` is
   * left out, into the scopes that the folders at its top name. What is there already is left as it is, and
   * told.
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
    return this.#transport.value(this.#transport.here(call), options);
  }
}

function about(
  method: Call['method'],
  route: '/v1/memories/{path}' | '/v1/pins/{path}',
  path: string,
): Call {
  return { method, route, path: { path: path.replace(/^\/memories\//, '') } };
}
