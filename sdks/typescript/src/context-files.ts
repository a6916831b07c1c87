/**
 * Context files: the instruction files of a person and of a project, such as `AGENTS.md`.
 *
 * They are not memories: what is written here is in no history.
 */

import { match } from './transport.js';
import type { Call, CallOptions, Transport } from './transport.js';
import type { ContextScope, WorkspaceMemory, WriteMode, WroteMemory } from './wire.js';

export class ContextFiles {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the context files of the workspace, as they are loaded. */
  async list(options?: CallOptions): Promise<WorkspaceMemory> {
    return this.#transport.value({ method: 'GET', ...this.#here() }, options);
  }

  /** Adds a fact on one line, or several lines as they are, to the section of added memories. */
  async append(
    scope: ContextScope,
    content: string,
    options?: CallOptions,
  ): Promise<WroteMemory> {
    return this.#write({ json: body(scope, content, 'append') }, options);
  }

  /**
   * Replaces all of a context file; with a revision, only the text that was listed then.
   *
   * @throws {ConflictError} with the current revision when it is another one by now
   */
  async replace(
    scope: ContextScope,
    content: string,
    { revision }: { revision?: string } = {},
    options?: CallOptions,
  ): Promise<WroteMemory> {
    const headers = revision === undefined ? {} : match(revision);
    return this.#write({ json: body(scope, content, 'replace'), headers }, options);
  }

  async #write(call: Pick<Call, 'json' | 'headers'>, options?: CallOptions): Promise<WroteMemory> {
    return this.#transport.value({ method: 'POST', ...this.#here(), ...call }, options);
  }

  /** Returns the route of the workspace that is meant. */
  #here(): Pick<Call, 'route' | 'path'> {
    const { workspace } = this.#transport.door;
    return workspace === undefined
      ? { route: '/workspace/memory' }
      : { route: '/workspaces/{workspace}/memory', path: { workspace } };
  }
}

function body(scope: ContextScope, content: string, mode: WriteMode): unknown {
  return { scope, content, mode };
}
