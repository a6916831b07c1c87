/** Proposals: changes that wait for a person's decision. */

import { pages } from './pages.js';
import type { Call, CallOptions, Transport } from './transport.js';
import type { Decisions, PendingPage, PendingProposal, PendingQuery } from './wire.js';

export class Pending {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns one page of open proposals, oldest first. */
  async list(query: PendingQuery = {}, options?: CallOptions): Promise<PendingPage> {
    return this.#value({ method: 'GET', route: '/v1/pending', query }, options);
  }

  /** Iterates over all open proposals, oldest first. */
  async *all(
    query: PendingQuery = {},
    options?: CallOptions,
  ): AsyncGenerator<PendingProposal, void> {
    for await (const page of pages(query, (next) => this.list(next, options))) {
      yield* page.proposals;
    }
  }

  /** Returns an open proposal, with its current diff for each memory. */
  async get(id: number, options?: CallOptions): Promise<PendingProposal> {
    const path = { id: String(id) };
    return this.#value({ method: 'GET', route: '/v1/pending/{id}', path }, options);
  }

  /** Accepts proposals, one by one: the result says which were accepted, and why the others were not. */
  async accept(ids: number[], options?: CallOptions): Promise<Decisions> {
    return this.#value({ method: 'POST', route: '/v1/pending/accept', json: { ids } }, options);
  }

  /** Rejects proposals, one by one: the same ones are not made again. */
  async reject(ids: number[], options?: CallOptions): Promise<Decisions> {
    return this.#value({ method: 'POST', route: '/v1/pending/reject', json: { ids } }, options);
  }

  async #value<T>(call: Call, options?: CallOptions): Promise<T> {
    return this.#transport.value(this.#transport.inWorkspace(call), options);
  }
}
