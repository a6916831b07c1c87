/** The settings file, and the trusted folders. */

import type { CallOptions, Transport } from './transport.js';
import type { Setting, Settings as AllSettings, TrustStatus } from './wire.js';

export class Settings {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the settings, with the source of each value. */
  async list(options?: CallOptions): Promise<AllSettings> {
    return this.#transport.value({ method: 'GET', route: '/v1/settings' }, options);
  }

  /** Sets a value in the settings file; null removes it. A daemon reads its settings when it starts. */
  async put(key: string, value: Setting['value'], options?: CallOptions): Promise<AllSettings> {
    const path = { key };
    const json = { value };
    return this.#transport.value({ method: 'PUT', route: '/v1/settings/{key}', path, json }, options);
  }

  /** Lists the trusted folders, and the project files that models would be shown if it were trusted. */
  async trust(options?: CallOptions): Promise<TrustStatus> {
    return this.#transport.value(
      this.#transport.inWorkspace({ method: 'GET', route: '/v1/trust' }),
      options,
    );
  }

  /** Trusts a folder with all folders below it, or ends that trust. */
  async putTrust(path: string, trusted: boolean, options?: CallOptions): Promise<TrustStatus> {
    const json = { path, trusted };
    return this.#transport.value(
      this.#transport.inWorkspace({ method: 'PUT', route: '/v1/trust', json }),
      options,
    );
  }
}
