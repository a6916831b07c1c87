/** A daemon as a process of its own, in a throw-away home. */

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, mkdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { LukasaClient } from '@lukasa/client';

/** How long a test waits for anything before it fails. */
export const PATIENCE_MS = 30_000;

const TOKEN = 'a-token-for-tests-only';

/** The program: the one that is named, or the one that a plain build makes. */
const PROGRAM =
  process.env['LUKASA_PROGRAM'] ??
  new URL('../../../../../target/debug/lukasa', import.meta.url).pathname;

/** What a daemon says when it is ready. */
interface Said {
  url: string;
  workspaces: { id: string }[];
}

/** A home, a checkout, and a daemon that may start there again and again. */
export class Daemon {
  readonly token = TOKEN;
  readonly home: string;
  readonly checkout: string;
  #child: ChildProcess | undefined;
  #said: Said | undefined;

  private constructor(folder: string) {
    this.home = join(folder, 'home');
    this.checkout = join(folder, 'app');
  }

  /** Starts one that ends with the test. */
  static async start(test: TestContext, args: string[] = []): Promise<Daemon> {
    const folder = await mkdtemp(join(tmpdir(), 'lukasa-client-'));
    const daemon = new Daemon(folder);
    test.after(async () => {
      await daemon.kill();
      await rm(folder, { recursive: true, force: true });
    });
    await Promise.all([mkdir(daemon.home), mkdir(daemon.checkout)]);
    const git = spawn('git', ['init', '--quiet'], { cwd: daemon.checkout, stdio: 'inherit' });
    await once(git, 'exit');
    await daemon.startAgain(args);
    return daemon;
  }

  async startAgain(args: string[] = []): Promise<void> {
    const { PATH } = process.env;
    const env = { PATH, HOME: this.home, LUKASA_HOME: this.home, LUKASA_TOKEN: TOKEN };
    const child = spawn(PROGRAM, ['serve', '--port', '0', '--json', ...args], {
      cwd: this.checkout,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child = child;
    const lines = createInterface(child.stdout);
    const [line] = (await once(lines, 'line')) as [string];
    this.#said = JSON.parse(line) as Said;
  }

  /** Kills it as `kill -9` does. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Has it end in its own way. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const exit = once(child, 'exit');
    child.kill(signal);
    await exit;
  }

  get url(): string {
    return this.#said?.url ?? '';
  }

  get workspace(): string {
    return this.#said?.workspaces[0]?.id ?? '';
  }

  get client(): LukasaClient {
    return this.clientAt(this.url);
  }

  clientAt(url: string): LukasaClient {
    return new LukasaClient({ url, token: TOKEN });
  }

  /** Takes the turn of the daemon's lane, so that its tasks wait; returns how to give it back. */
  async holdLane(): Promise<() => Promise<void>> {
    const file = join(this.home, 'state/locks', `lane-${this.workspace}.lock`);
    const holder = spawn('flock', [file, 'sh', '-c', 'echo held; cat'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    await once(holder.stdout, 'data');
    return async () => {
      const exit = once(holder, 'exit');
      holder.stdin.end();
      await exit;
    };
  }
}
