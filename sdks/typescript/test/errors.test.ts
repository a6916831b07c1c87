import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BusyError,
  ConnectionError,
  ProtocolError,
  LukasaClient,
  LukasaError,
  TimeoutError,
  TooLargeError,
  UnauthorizedError,
} from '@lukasa/client';
import { Daemon } from './support/daemon.js';
import { saying } from './support/line.js';

const token = 'a-token-for-tests-only';

async function thrown(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    (value) => assert.fail(`it answered ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
}

test('who brings another token is told so', async (t) => {
  const daemon = await Daemon.start(t);
  const stranger = new LukasaClient({ url: daemon.url, token: 'not-the-token-at-all' });
  const error = await thrown(stranger.capabilities());
  assert.ok(error instanceof UnauthorizedError);
  assert.deepEqual([error.status, error.code, error.isTemporary], [401, 'unauthorized', false]);
  assert.equal((await stranger.health()).status, 'ok');
  assert.throws(() => new LukasaClient({ url: daemon.url, token: 'a\nb' }), LukasaError);
  assert.throws(() => new LukasaClient({ url: 'no url', token }), TypeError);
});

test('who asks too often is told when to come again', async (t) => {
  const { client } = await Daemon.start(t, ['--rate-limit', '1']);
  const calls = Array.from({ length: 20 }, () => thrown(client.tasks.remember(' ')));
  const late = (await Promise.all(calls)).find((error) => error instanceof BusyError);
  assert.ok(late instanceof BusyError);
  assert.deepEqual([late.status, late.code, late.retryAfterMs], [429, 'rate_limited', 1_000]);
});

test('a daemon that is gone is a connection error', async (t) => {
  const daemon = await Daemon.start(t);
  const { client } = daemon;
  await daemon.kill();
  const error = await thrown(client.stats());
  assert.ok(error instanceof ConnectionError, String(error));
  assert.ok(error.isTemporary && error.cause instanceof Error);
  const waiting = await thrown(client.tasks.waitFor('dream-1', { timeoutMs: 100 }));
  assert.ok(waiting instanceof LukasaError && waiting.isTemporary, String(waiting));
  assert.ok((await thrown(client.events())) instanceof ConnectionError);
});

test('a peer that says nothing is given up', async (t) => {
  const client = new LukasaClient({ url: await saying(t, ''), token });
  const late = await thrown(client.stats({ timeoutMs: 100 }));
  assert.ok(late instanceof TimeoutError, String(late));
  assert.equal(late.timeoutMs, 100);
});

test('a call that is aborted throws the reason', async (t) => {
  const client = new LukasaClient({ url: await saying(t, ''), token });
  const abort = new AbortController();
  const calls = [
    client.stats({ signal: abort.signal }),
    client.memories.export({ signal: abort.signal }),
    client.tasks.waitFor('dream-1', { signal: abort.signal }),
    client.events({ signal: abort.signal }),
  ].map(thrown);
  const reason = new Error('no longer wanted');
  abort.abort(reason);
  assert.deepEqual(await Promise.all(calls), [reason, reason, reason, reason]);
  assert.equal(await thrown(client.stats({ signal: abort.signal })), reason);
});

test('a peer that is no daemon is told by what it answers', async (t) => {
  const stats = async (answer: string): Promise<unknown> =>
    thrown(new LukasaClient({ url: await saying(t, answer), token }).stats());
  assert.ok((await stats('220 mail.example ESMTP\r\n')) instanceof ConnectionError);
  const half = await stats('HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{');
  assert.ok(half instanceof ConnectionError, String(half));
  const page = await stats('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>');
  assert.ok(page instanceof ProtocolError && !page.isTemporary, String(page));
  const proxy = await stats('HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nno!');
  assert.ok(proxy instanceof ProtocolError && proxy.isTemporary, String(proxy));
  assert.equal(proxy.status, 502);
});

test('a base path and a fetch of one’s own are used', async () => {
  const asked: string[] = [];
  const client = new LukasaClient({
    url: 'http://gateway.example/lukasa/',
    token,
    fetch: (input) => {
      asked.push(String(input));
      return Promise.resolve(Response.json({ status: 'ok' }));
    },
  });
  await client.health();
  assert.deepEqual(asked, ['http://gateway.example/lukasa/health']);
});

test('an answer that is too large is not read', async (t) => {
  const check = async (answer: string, maxBytes: number): Promise<void> => {
    const url = await saying(t, answer);
    const error = await thrown(new LukasaClient({ url, token }).stats({ maxBytes }));
    assert.ok(error instanceof TooLargeError);
    assert.deepEqual([error.maxBytes, error.isTemporary], [maxBytes, false]);
  };
  await check('HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"abcdefgh"', 9);
  await check('HTTP/1.1 200 OK\r\n\r\n{"abcdefgh"', 9);
});
