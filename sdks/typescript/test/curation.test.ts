import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, ConflictError } from '@lukasa/client';
import { Daemon } from './support/daemon.js';

test('what a page for people does is a call', async (t) => {
  const { client } = await Daemon.start(t);
  for (const name of ['a', 'b']) {
    await client.memories.create(`/memories/global/${name}.md`, '- one\n- two\n');
  }
  const { memories } = await client.memories.list();
  assert.deepEqual(memories.map((item) => item.hasDescription), [false, false]);
  const stale = { do: 'delete' as const, path: '/memories/global/a.md', revision: '0'.repeat(64) };
  await assert.rejects(client.memories.batch([stale]), ConflictError);
  const { change } = await client.memories.batch([
    { do: 'delete', path: '/memories/global/a.md' },
    { do: 'move', from: '/memories/global/b.md', to: '/memories/global/new/b.md' },
  ]);
  const what = { changes: [Number(change)] };
  assert.equal((await client.changes.undoSeveral(what, { dryRun: true })).change, undefined);
  assert.equal((await client.changes.undoSeveral(what)).paths.length, 3);
  const revision = String(memories[0]?.revision);
  assert.equal((await client.memories.revision(revision)).text, '- one\n- two\n');
  assert.deepEqual((await client.changes.runs()).runs, []);
  const { advice } = await client.memories.health();
  assert.ok(advice.some(({ kind }) => kind === 'missing-description'));
  assert.deepEqual((await client.memories.repair()).done, []);
  assert.ok((await client.memories.hosts()).hosts.some(({ name }) => name === 'codex'));
  assert.equal((await client.memories.context({ bytesMax: 10_000 })).memories, 2);
  const { settings } = await client.settings.put('retention.days', 7);
  assert.equal(settings.find(({ key }) => key === 'retention.days')?.value, 7);
  await assert.rejects(client.settings.put('retention.days', 'long'), ApiError);
  assert.equal((await client.settings.list()).restartNeeded, true);
  const here = (await client.settings.trust()).here;
  assert.ok(here && !here.trusted);
  assert.equal((await client.settings.putTrust(here.path, true)).here?.trusted, true);
});
