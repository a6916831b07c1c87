/** Proposals: changes that wait for a person, and what the person decides. */

import { pages } from './pages.js';
import type { Call, CallOptions, Transport } from './transport.js';
import type { Decisions, PendingPage, PendingProposal, PendingQuery } from './wire.js';

export class Pending {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the proposals that wait, the oldest first, one page of them. */
  async list(query: PendingQuery = {}, options?: CallOptions): Promise<PendingPage> {
    return this.#value({ method: 'GET', route: '/v1/pending', query }, options);
  }

  /** Lists the proposals that wait, the oldest first, page after page. */
  async *all(
    query: PendingQuery = {},
    options?: CallOptions,
  ): AsyncGenerator<PendingProposal, void> {
    for await (const page of pages(query, (next) => this.list(next, options))) {
      yield* page.proposals;
    }
  }

  /** Shows a proposal that waits, with what it would do to each memory now. */
  async get(id: number, options?: CallOptions): Promise<PendingProposal> {
    const path = { id: String(id) };
    return this.#value({ method: 'GET', route: '/v1/pending/{id}', path }, options);
  }

  /** Accepts proposals, each on its own: the answer says which were accepted, and why the others were not. */
  async accept(ids: number[], options?: CallOptions): Promise<Decisions> {
    return this.#value({ method: 'POST', route: '/v1/pending/accept', json: { ids } }, options);
  }

  /** Rejects proposals, each on its own: the same are not made again. */
  async reject(ids: number[], options?: CallOptions): Promise<Decisions> {
    return this.#value({ method: 'POST', route: '/v1/pending/reject', json: { ids } }, options);
  }

  async #value<T>(call: Call, options?: CallOptions): Promise<T> {
    return this.#transport.value(this.#transport.here(call), options);
  }
}
