/** The client: connection options, and the parts of the API. */

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
import type { CallOptions, TransportOptions } from './transport.js';
import type { Capabilities, Health, SessionBegun, Stats } from './wire.js';

/** Address and credentials of a daemon. */
export interface ClientOptions {
  /** The daemon's address: default `http://127.0.0.1:4170`. */
  url?: string | URL;
  /** The daemon's token, as `lukasa token` prints it. */
  token: string;
  /** The id of a workspace; default: the daemon's first one. */
  workspace?: string;
  /** The id of a registered client; {@link LukasaClient.beginSession} returns one. */
  clientId?: string;
  /** Sends the requests; default: the global `fetch`. */
  fetch?: typeof fetch;
}

/** A registered client: it alone sees its tasks. */
export interface Session extends SessionBegun {
  /** Calls as the registered client. */
  readonly client: LukasaClient;
  /** Opens the event stream of its tasks. */
  events(options?: EventsOptions): Promise<EventStream>;
  /** Ends the session: its client id becomes invalid, and its streams end. */
  end(options?: CallOptions): Promise<void>;
}

/** A client of one daemon. Constructing it sends no request. */
export class LukasaClient {
  /** Tasks: remember, forget, dream. */
  readonly tasks: Tasks;
  /** Single memories: read, write, search. */
  readonly memories: Memories;
  /** History and undo. */
  readonly changes: Changes;
  /** Proposals that wait for a person's decision. */
  readonly pending: Pending;
  /** Settings and trusted folders. */
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
    const transportOptions: TransportOptions = { url: new URL(url), authorization, workspace, clientId, fetch: send };
    this.#transport = new Transport(transportOptions);
    this.tasks = new Tasks(this.#transport);
    this.memories = new Memories(this.#transport);
    this.changes = new Changes(this.#transport);
    this.pending = new Pending(this.#transport);
    this.settings = new Settings(this.#transport);
    this.contextFiles = new ContextFiles(this.#transport);
  }

  /** Returns a client of another workspace, by its id in {@link Capabilities}. */
  inWorkspace(workspace: string): LukasaClient {
    return this.#clone({ workspace });
  }

  /** Returns a client that calls as a registered one. */
  withClientId(clientId: string): LukasaClient {
    return this.#clone({ clientId });
  }

  #clone(other: Partial<ClientOptions>): LukasaClient {
    return new LukasaClient({ ...this.#options, ...other });
  }

  /** Returns whether the daemon is running. */
  async health(options?: CallOptions): Promise<Health> {
    return this.#transport.value({ method: 'GET', route: '/health' }, options);
  }

  /** Returns what the daemon supports, and the workspaces it serves. */
  async capabilities(options?: CallOptions): Promise<Capabilities> {
    return this.#transport.value({ method: 'GET', route: '/capabilities' }, options);
  }

  /** Returns the counts of the workspace. */
  async stats(options?: CallOptions): Promise<Stats> {
    const call = this.#transport.inWorkspace({ method: 'GET', route: '/v1/stats' });
    return this.#transport.value(call, options);
  }

  /**
   * Opens the stream of all changes to memories of the workspace, by any program.
   * The stream is open when the promise resolves: later events are delivered.
   */
  async events(options?: EventsOptions): Promise<EventStream> {
    const call = this.#transport.inWorkspace({ method: 'GET', route: '/v1/events' } as const);
    return EventStream.open(this.#transport, call, options);
  }

  /** Registers a session with the workspace of a folder, or with the daemon's first one. */
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
