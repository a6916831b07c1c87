/**
 * Context files: the instruction files of a person and of a project, such as `AGENTS.md`.
 *
 * They are not memories: writes to them have no history.
 */

import { ifMatch } from './transport.js';
import type { Call, CallOptions, Transport } from './transport.js';
import type { ContextScope, WorkspaceMemory, WriteMode, WriteMemoryResponse } from './wire.js';

export class ContextFiles {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the context files of the workspace, as they are loaded. */
  async list(options?: CallOptions): Promise<WorkspaceMemory> {
    return this.#transport.value({ method: 'GET', ...this.#route() }, options);
  }

  /** Adds a fact on one line, or several lines as they are, to the section of added memories. */
  async append(
    scope: ContextScope,
    content: string,
    options?: CallOptions,
  ): Promise<WriteMemoryResponse> {
    return this.#write({ json: body(scope, content, 'append') }, options);
  }

  /**
   * Replaces a whole context file; with a revision, only if the file still has it.
   *
   * @throws {ConflictError} with the current revision when it has changed
   */
  async replace(
    scope: ContextScope,
    content: string,
    { revision }: { revision?: string } = {},
    options?: CallOptions,
  ): Promise<WriteMemoryResponse> {
    const headers = revision === undefined ? {} : ifMatch(revision);
    return this.#write({ json: body(scope, content, 'replace'), headers }, options);
  }

  async #write(call: Pick<Call, 'json' | 'headers'>, options?: CallOptions): Promise<WriteMemoryResponse> {
    return this.#transport.value({ method: 'POST', ...this.#route(), ...call }, options);
  }

  /** Returns the route of this workspace. */
  #route(): Pick<Call, 'route' | 'path'> {
    const { workspace } = this.#transport.options;
    return workspace === undefined
      ? { route: '/workspace/memory' }
      : { route: '/workspaces/{workspace}/memory', path: { workspace } };
  }
}

function body(scope: ContextScope, content: string, mode: WriteMode): unknown {
  return { scope, content, mode };
}
