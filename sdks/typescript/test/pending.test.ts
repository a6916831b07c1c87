import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NotFoundError } from '@lukasa/client';
import { Daemon } from './support/daemon.js';

test('where nothing waits, nothing is decided', async (t) => {
  const { client } = await Daemon.start(t);
  assert.deepEqual(await client.pending.list(), { proposals: [], waiting: 0 });
  for await (const proposal of client.pending.all()) assert.fail(String(proposal.id));
  await assert.rejects(client.pending.get(7), NotFoundError);
  for (const { decisions } of [await client.pending.accept([7]), await client.pending.reject([7])]) {
    assert.deepEqual(
      decisions.map(({ id, done, code }) => ({ id, done, code })),
      [{ id: 7, done: false, code: 'not_found' }],
    );
  }
});
