import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, NotFoundError } from '@lukasa/client';
import { Daemon } from './support/daemon.js';

test('one proposal is accepted and undone, another one is rejected', async (t) => {
  const { client } = await Daemon.start(t);
  const { memories, pending, tasks } = client;
  const path = '/memories/global/editor.md';
  const remember = async (text: string): Promise<string> => {
    const { taskId, result } = await tasks.waitFor(await tasks.remember(text, { scope: 'user' }));
    assert.equal(result.proposals, 1);
    return taskId;
  };
  await memories.create(path, '- Uses VS Code with vim keys\n');
  const zed = await remember('I switched from VS Code to Zed');
  const helix = await remember('I switched from VS Code to Helix');
  const kept = (await memories.read(path)).text;
  assert.match(kept, /^- Uses VS Code with vim keys\n/);

  const { proposals, waiting } = await pending.list({ max: 1 });
  assert.deepEqual([proposals.length, waiting], [1, 2]);
  const ids: number[] = [];
  for await (const { id, task } of pending.all({ max: 1 })) {
    assert.equal(task, ids.length === 0 ? zed : helix);
    ids.push(id);
  }
  const [first = 0, second = 0] = ids;
  const shown = await pending.get(first);
  assert.deepEqual([shown.kind, shown.origin], ['update', 'remember']);
  assert.ok(shown.diffs.some(({ diff }) => diff.includes('-- Uses VS Code with vim keys')));

  const [rejected] = (await pending.reject([second])).decisions;
  assert.deepEqual([rejected?.id, rejected?.done], [second, true]);
  const [accepted] = (await pending.accept([first])).decisions;
  assert.ok(accepted?.done && accepted.change);
  assert.doesNotMatch((await memories.read(path)).text, /vim keys/);
  await assert.rejects(pending.get(first), (error) => error instanceof ApiError && error.code === 'conflict');
  await client.changes.undo(accepted.change);
  assert.equal((await memories.read(path)).text, kept);
  assert.equal((await pending.list()).waiting, 0);
});

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
