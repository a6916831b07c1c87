/** What a person sets: the settings file, and the folders that they trust. */

import type { CallOptions, Transport } from './transport.js';
import type { Setting, Settings as AllSettings, Trust } from './wire.js';

export class Settings {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the settings, with where each value is from. */
  async list(options?: CallOptions): Promise<AllSettings> {
    return this.#transport.value({ method: 'GET', route: '/v1/settings' }, options);
  }

  /** Sets a value in the settings file; null takes it out. A daemon reads its settings when it starts. */
  async put(key: string, value: Setting['value'], options?: CallOptions): Promise<AllSettings> {
    const path = { key };
    const json = { value };
    return this.#transport.value({ method: 'PUT', route: '/v1/settings/{key}', path, json }, options);
  }

  /** Lists the trusted folders, and what the project of the workspace would say to models unasked. */
  async trust(options?: CallOptions): Promise<Trust> {
    return this.#transport.value(
      this.#transport.here({ method: 'GET', route: '/v1/trust' }),
      options,
    );
  }

  /** Trusts a folder with all below it, or trusts it no longer. */
  async putTrust(path: string, trusted: boolean, options?: CallOptions): Promise<Trust> {
    const json = { path, trusted };
    return this.#transport.value(
      this.#transport.here({ method: 'PUT', route: '/v1/trust', json }),
      options,
    );
  }
}
