import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NotFoundError } from '@lukasa/client';
import type { EventStream, LukasaEvent } from '@lukasa/client';
import { Daemon } from './support/daemon.js';
import { Line } from './support/line.js';

async function next(events: EventStream): Promise<LukasaEvent> {
  const { value, done } = await events.next();
  assert.ok(done !== true && value !== undefined, 'the stream has ended');
  return value;
}

/** Returns number and memory of the next change of one. */
async function changed(events: EventStream): Promise<[number | undefined, string]> {
  for (;;) {
    const event = await next(events);
    if (event.type === 'stream.replay_complete') continue;
    assert.equal(event.type, 'workspace.memory.changed');
    assert.equal(event.scope, 'file');
    return [event.eventId, event.path];
  }
}

async function make(daemon: Daemon, name: string): Promise<void> {
  await daemon.client.memories.create(path(name), 'x\n');
}

const path = (name: string): string => `/memories/global/${name}.md`;

test('every change is told, whoever makes it, in one form', async (t) => {
  const daemon = await Daemon.start(t);
  const { client } = daemon;
  const session = await client.beginSession();
  const events = await client.events();
  await client.memories.create(path('a'), 'x\n');
  await client.memories.move(path('a'), path('b'));
  await client.memories.tool({ command: 'delete', path: path('b') });
  const told = [];
  for await (const event of events) {
    assert.ok(event.type === 'workspace.memory.changed' && event.scope === 'file');
    assert.ok((event.serverTimestamp ?? 0) > 0);
    told.push([event.eventId, event.kind, event.actor, event.path, event.movedTo]);
    if (told.length === 3) break;
  }
  assert.deepEqual(told, [
    [1, 'save', 'person', path('a'), undefined],
    [2, 'rename', 'person', path('a'), path('b')],
    [3, 'delete', 'agent', path('b'), undefined],
  ]);
  assert.deepEqual(await events.next(), { value: undefined, done: true }, 'left by `break`');

  const ours = await session.events({ from: 'oldest' });
  assert.equal((await next(ours)).type, 'stream.replay_complete');
  const { tasks } = session.client;
  const task = await tasks.waitFor(await tasks.remember('I like tea.'));
  const event = await next(ours);
  assert.ok(event.type === 'workspace.memory.changed' && event.scope === 'managed');
  const { eventId, originatorClientId, source, taskId, touchedScopes } = event;
  assert.deepEqual(
    { eventId, originatorClientId, source, taskId, touchedScopes },
    {
      eventId: 1,
      originatorClientId: session.clientId,
      source: 'workspace_memory_remember',
      taskId: task.taskId,
      touchedScopes: ['user'],
    },
  );
  await session.end();
  await assert.rejects(ours.next(), NotFoundError);
});

test('a stream goes on where it was cut', async (t) => {
  const daemon = await Daemon.start(t);
  const line = await Line.to(t, daemon.url);
  await make(daemon, 'before');
  const events = await daemon.clientAt(line.url).events();
  // The connection is cut before the first event: events published meanwhile are delivered all the same.
  line.cut();
  await make(daemon, 'a');
  await make(daemon, 'b');
  assert.deepEqual(await changed(events), [2, path('a')]);
  assert.deepEqual(await changed(events), [3, path('b')]);
  for (const [id, name] of [
    [4, 'c'],
    [5, 'd'],
    [6, 'e'],
  ] as const) {
    line.cut();
    await make(daemon, name);
    assert.deepEqual(await changed(events), [id, path(name)]);
  }
  const { cursor } = events;
  assert.equal(cursor?.lastEventId, 6);
  events.close();
  await make(daemon, 'f');
  const later = await daemon.client.events({ from: cursor });
  assert.deepEqual(await changed(later), [7, path('f')]);
  later.close();
  const all = await daemon.client.events({ from: 'oldest' });
  for (let id = 1; id <= 7; id += 1) assert.equal((await next(all)).eventId, id);
  all.close();
});

test('a daemon that starts anew says that something may be missed', async (t) => {
  const daemon = await Daemon.start(t);
  const line = await Line.to(t, daemon.url);
  const events = await daemon.clientAt(line.url).events();
  await make(daemon, 'a');
  assert.deepEqual(await changed(events), [1, path('a')]);
  await daemon.kill();
  line.cut();
  await daemon.startAgain();
  line.leadTo(daemon.url);
  const resync = await next(events);
  assert.equal(resync.type, 'stream.resync_required');
  assert.deepEqual([resync.reason, resync.lastDeliveredId], ['epoch_reset', 1]);
  // From here on the daemon numbers from one again, also across a cut.
  for (const [id, name] of [
    [1, 'b'],
    [2, 'c'],
  ] as const) {
    line.cut();
    await make(daemon, name);
    assert.deepEqual(await changed(events), [id, path(name)]);
  }
  events.close();
});

test('who is cut off before the first frame is still told what may be missed', async (t) => {
  const daemon = await Daemon.start(t);
  const line = await Line.to(t, daemon.url);
  const events = await daemon.clientAt(line.url).events();
  await make(daemon, 'a');
  assert.deepEqual(await changed(events), [1, path('a')]);
  await daemon.kill();
  await daemon.startAgain();
  line.leadTo(daemon.url);
  line.cutAfterHeads(2);
  line.cut();
  assert.equal((await next(events)).type, 'stream.resync_required');
  assert.equal(events.cursor?.lastEventId, 0);
  events.close();
});

test('a stream ends when it is closed, aborted, or left alone by the daemon', async (t) => {
  const daemon = await Daemon.start(t);
  const { client } = daemon;
  const closed = await client.events();
  const waiting = closed.next();
  closed.close();
  assert.deepEqual(await waiting, { value: undefined, done: true });
  assert.deepEqual(await closed.next(), { value: undefined, done: true });

  const abort = new AbortController();
  const aborted = await client.events({ signal: abort.signal });
  const pending = aborted.next();
  const reason = new Error('no longer wanted');
  abort.abort(reason);
  await assert.rejects(pending, reason);
  assert.deepEqual(await aborted.next(), { value: undefined, done: true });
  await assert.rejects(client.events({ signal: abort.signal }), reason);

  // The daemon has noticed that the reader stopped.
  while ((await client.stats()).eventStreams > 0);
  const once = await client.events({ reconnect: false });
  await daemon.stop();
  assert.deepEqual(await once.next(), { value: undefined, done: true });
});

test('two readers hear the same', async (t) => {
  const daemon = await Daemon.start(t);
  const readers = await Promise.all([daemon.client.events(), daemon.client.events()]);
  const names = ['a', 'b', 'c'];
  for (const name of names) await make(daemon, name);
  const expected = names.map((name, index) => [index + 1, path(name)]);
  for (const reader of readers) {
    const heard = [];
    while (heard.length < names.length) heard.push(await changed(reader));
    assert.deepEqual(heard, expected);
    reader.close();
  }
});

test('a stream that cannot be opened says why', async (t) => {
  const daemon = await Daemon.start(t);
  const nowhere = daemon.client.inWorkspace('nowhere');
  await assert.rejects(nowhere.events(), { code: 'workspace_not_found' });
  await assert.rejects(daemon.client.withClientId('nobody').tasks.dream(), {
    code: 'invalid_client_id',
  });
});
