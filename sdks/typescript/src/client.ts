/** The client: where the daemon is, as whom it is called, and what can be asked. */

import { Changes } from './changes.js';
import { Pending } from './pending.js';
import { ContextFiles } from './context-files.js';
import { LukasaError } from './errors.js';
import { EventStream } from './events.js';
import type { EventsOptions } from './events.js';
import { Memories } from './memories.js';
import { Settings } from './settings.js';
import { Tasks } from './tasks.js';
import { Transport } from './transport.js';
import type { CallOptions, Door } from './transport.js';
import type { Capabilities, Health, SessionBegun, Stats } from './wire.js';

/** Where a daemon is, and as whom it is called. */
export interface ClientOptions {
  /** The daemon's address: `http://127.0.0.1:4170` when left out. */
  url?: string | URL;
  /** The daemon's token, as `lukasa token` prints it. */
  token: string;
  /** The id of a workspace; the daemon's first one when left out. */
  workspace?: string;
  /** The id of a registered client; {@link LukasaClient.beginSession} returns one. */
  clientId?: string;
  /** What requests are sent with, instead of the global `fetch`. */
  fetch?: typeof fetch;
}

/** A registered client: it alone sees its tasks. */
export interface Session extends SessionBegun {
  /** Calls as the registered client. */
  readonly client: LukasaClient;
  /** Opens the stream of what tasks do. */
  events(options?: EventsOptions): Promise<EventStream>;
  /** Ends the session: its client is known no more, and its streams end. */
  end(options?: CallOptions): Promise<void>;
}

/** Somebody who may call a daemon. Making one sends nothing. */
export class LukasaClient {
  /** What is to be remembered, forgotten and tidied up. */
  readonly tasks: Tasks;
  /** Memories, one by one. */
  readonly memories: Memories;
  /** What was done to memories, and taking it back. */
  readonly changes: Changes;
  /** Changes that wait for a person. */
  readonly pending: Pending;
  /** What a person sets, and which folders they trust. */
  readonly settings: Settings;
  /** The instruction files of the person and of the project. */
  readonly contextFiles: ContextFiles;
  readonly #options: ClientOptions;
  readonly #transport: Transport;

  constructor(options: ClientOptions) {
    this.#options = options;
    const { url = 'http://127.0.0.1:4170', token, workspace, clientId } = options;
    const send = options.fetch ?? ((...request: Parameters<typeof fetch>) => fetch(...request));
    const authorization = `Bearer ${token.trim()}`;
    if (!/^[\x20-\x7e]+$/.test(authorization)) {
      throw new LukasaError('invalid_token', 'the token has characters that no header has');
    }
    const door: Door = { url: new URL(url), authorization, workspace, clientId, fetch: send };
    this.#transport = new Transport(door);
    this.tasks = new Tasks(this.#transport);
    this.memories = new Memories(this.#transport);
    this.changes = new Changes(this.#transport);
    this.pending = new Pending(this.#transport);
    this.settings = new Settings(this.#transport);
    this.contextFiles = new ContextFiles(this.#transport);
  }

  /** Returns a client of another workspace, by its id in {@link Capabilities}. */
  inWorkspace(workspace: string): LukasaClient {
    return this.#with({ workspace });
  }

  /** Returns a client that calls as a registered one. */
  withClientId(clientId: string): LukasaClient {
    return this.#with({ clientId });
  }

  #with(other: Partial<ClientOptions>): LukasaClient {
    return new LukasaClient({ ...this.#options, ...other });
  }

  /** Asks whether the daemon lives. */
  async health(options?: CallOptions): Promise<Health> {
    return this.#transport.value({ method: 'GET', route: '/health' }, options);
  }

  /** Asks what the daemon can do, and which workspaces it serves. */
  async capabilities(options?: CallOptions): Promise<Capabilities> {
    return this.#transport.value({ method: 'GET', route: '/capabilities' }, options);
  }

  /** Asks how much the workspace holds. */
  async stats(options?: CallOptions): Promise<Stats> {
    const call = this.#transport.here({ method: 'GET', route: '/v1/stats' });
    return this.#transport.value(call, options);
  }

  /**
   * Opens the stream of all that changes in the memories of the workspace, through whatever program.
   * The stream is open when the promise resolves: what happens from then on is told.
   */
  async events(options?: EventsOptions): Promise<EventStream> {
    const call = this.#transport.here({ method: 'GET', route: '/v1/events' } as const);
    return EventStream.open(this.#transport, call, options);
  }

  /** Begins a session of the workspace in a folder, or of the daemon's first one. */
  async beginSession(request: { cwd?: string } = {}, options?: CallOptions): Promise<Session> {
    const call = { method: 'POST', route: '/session', json: request } as const;
    const begun = await this.#transport.value<SessionBegun>(call, options);
    const path = { id: begun.sessionId };
    const client = this.withClientId(begun.clientId);
    const transport = client.#transport;
    return {
      ...begun,
      client,
      events: (options) =>
        EventStream.open(transport, { method: 'GET', route: '/session/{id}/events', path }, options),
      end: async (options) => {
        await transport.text({ method: 'DELETE', route: '/session/{id}', path }, options);
      },
    };
  }
}
