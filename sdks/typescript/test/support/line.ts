/** A line between a client and a daemon that a test can cut, and peers that are no daemons. */

import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import type { TestContext } from 'node:test';

/** Carries connections on to a daemon. */
export class Line {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  #farEnd: URL;
  #headsAlone = 0;

  private constructor(url: string) {
    this.#farEnd = new URL(url);
    this.#server = createServer((near) => {
      const { hostname, port } = this.#farEnd;
      const far = connect(Number(port), hostname);
      for (const [end, other] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#open.add(end);
        if (end === far && this.#headsAlone > 0) this.#carryHead(far, near);
        else end.pipe(other);
        // One end that breaks takes the other with it.
        end.on('error', () => other.destroy());
        end.on('close', () => {
          other.destroy();
          this.#open.delete(end);
        });
      }
    });
  }

  /** Lays a line that lasts as long as the test. */
  static async to(test: TestContext, url: string): Promise<Line> {
    const line = new Line(url);
    await listening(line.#server);
    test.after(() => {
      line.#server.close();
      line.cut();
    });
    return line;
  }

  /** Where the near end is. */
  get url(): string {
    return urlOf(this.#server);
  }

  /** Leads new connections to another daemon. */
  leadTo(url: string): void {
    this.#farEnd = new URL(url);
  }

  /** Cuts each of the next connections when the head of an answer has come, and nothing after it. */
  cutAfterHeads(connections: number): void {
    this.#headsAlone = connections;
  }

  #carryHead(from: Socket, to: Socket): void {
    this.#headsAlone -= 1;
    let come = '';
    from.on('data', (bytes) => {
      come += bytes.toString('latin1');
      const end = come.indexOf('\r\n\r\n');
      if (end >= 0) to.end(come.slice(0, end + 4), 'latin1', () => from.destroy());
    });
  }

  /** Cuts all connections that are open. */
  cut(): void {
    for (const end of this.#open) end.destroy();
  }
}

/** Returns the address of a server that sends this text to every client and hangs up; silent if the text is empty. */
export async function saying(test: TestContext, answer: string): Promise<string> {
  const open = new Set<Socket>();
  const server = createServer((peer) => {
    open.add(peer);
    peer.on('error', () => peer.destroy());
    peer.once('data', () => {
      if (answer !== '') peer.end(answer);
    });
  });
  await listening(server);
  test.after(() => {
    server.close();
    for (const peer of open) peer.destroy();
  });
  return urlOf(server);
}

async function listening(server: Server): Promise<void> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
