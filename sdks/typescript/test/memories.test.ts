import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConflictError, NotFoundError, ScreenedError, UndoBlockedError } from '@lukasa/client';
import { Daemon } from './support/daemon.js';

/** Returns the revision that a conflict tells. */
async function conflict(call: Promise<unknown>): Promise<string | undefined> {
  const error = await call.catch((error: unknown) => error);
  assert.ok(error instanceof ConflictError, String(error));
  assert.deepEqual([error.status, error.code], [412, 'conflict']);
  return error.revision;
}

test('a write that lost is a conflict that names the winner', async (t) => {
  const { client } = await Daemon.start(t);
  const { memories } = client;
  const path = '/memories/global/a b/ä#%+&.md';
  const first = (await memories.create(path, 'one\n')).revision ?? '';
  assert.equal(await conflict(memories.create(path, 'two\n')), first);
  const second = (await memories.save(path, 'two\n', first)).revision ?? '';
  assert.equal(await conflict(memories.save(path, 'three\n', first)), second);
  assert.equal(await conflict(memories.delete(path, { revision: first })), second);
  const read = await memories.read(path);
  assert.deepEqual([read.path, read.text, read.revision], [path, 'two\n', second]);
  await memories.delete(path, { revision: second });
  assert.equal(await conflict(memories.save(path, 'three\n', second)), undefined, 'it is gone');
  await assert.rejects(memories.read(path), NotFoundError);
});

test('of two writers who read the same, one wins', async (t) => {
  const { client } = await Daemon.start(t);
  const path = '/memories/global/shared.md';
  await client.memories.create(path, '- start\n');
  const add = async (line: string): Promise<void> => {
    for (;;) {
      const { text, revision } = await client.memories.read(path);
      try {
        await client.memories.save(path, `${text}- ${line}\n`, revision);
        return;
      } catch (error) {
        if (!(error instanceof ConflictError)) throw error;
      }
    }
  };
  const lines = ['a', 'b', 'c', 'd', 'e', 'f'];
  await Promise.all(lines.map(add));
  const { text } = await client.memories.read(path);
  assert.deepEqual(text.trimEnd().split('\n').sort(), [...lines, 'start'].map((line) => `- ${line}`));
});

test('all that the store can do is a call', async (t) => {
  const daemon = await Daemon.start(t);
  assert.equal((await daemon.client.health()).status, 'ok');
  const client = daemon.client.inWorkspace(daemon.workspace);
  const { memories } = client;
  await memories.create('/memories/global/tea.md', '- Likes tea & milk.\n');
  await memories.create('/memories/project/make.md', '- Builds with make.\n');

  assert.equal((await memories.pin('/memories/global/tea.md')).changed, true);
  const recalled = await memories.recall('Which tea do I like?');
  assert.equal(recalled.memories[0]?.path, '/memories/global/tea.md');
  assert.match(recalled.text, /Likes tea &amp; milk|Likes tea & milk/);
  assert.ok(recalled.memories[0]?.why);
  assert.deepEqual(await memories.recall('What do penguins eat?'), { text: '', memories: [] });
  const below = async (path: string): Promise<number> => (await memories.recall('Which tea?', { path })).memories.length;
  assert.deepEqual([await below('/memories/global'), await below('/memories/project')], [1, 0]);
  await assert.rejects(memories.recall('Which tea?', { path: '/etc' }), { code: 'invalid_path' });
  const context = await memories.context();
  assert.match(context.text, /\n\/memories\/global\/tea\.md\n- Likes tea & milk\.\n/);
  assert.deepEqual(context.hot?.filter(({ pinned }) => pinned).map(({ path }) => path), ['/memories/global/tea.md']);
  assert.deepEqual((await memories.context({ bytesMax: 10 })).parts, []);

  const page = await memories.list({ scope: 'global', q: 'TEA', pinned: true, sort: 'modified' });
  assert.deepEqual([page.total, page.memories[0]?.path], [1, '/memories/global/tea.md']);
  assert.equal((await memories.unpin('/memories/global/tea.md')).pinned, false);
  const all = [];
  for await (const memory of memories.all({ max: 1 })) all.push(memory.path);
  assert.deepEqual(all, ['/memories/global/tea.md', '/memories/project/make.md']);
  const found = await memories.search('TEA & milk', { path: '/memories/global', max: 5 });
  assert.deepEqual(found.matches.map(({ line }) => line), [1]);

  await memories.move('/memories/global/tea.md', '/memories/global/drinks.md');
  const view = { command: 'view', path: '/memories/global/drinks.md' };
  assert.match((await memories.tool(view, 'explore')).text, /tea & milk/);
  const refused = await memories.tool({ ...view, command: 'delete' }, 'explore');
  assert.deepEqual([refused.ok, refused.code], [false, 'read_only']);

  const archive = await memories.export();
  await memories.delete('/memories/global/drinks.md');
  const taken = await memories.import(archive);
  assert.deepEqual([taken.memories.length, taken.skipped.length], [1, 1]);
  const copies = await memories.import(archive, { to: '/memories/global/copies' });
  assert.equal(copies.memories.length, 2);
  const noTar = new TextEncoder().encode('no tar');
  await assert.rejects(memories.import(noTar), { code: 'invalid_archive' });
  assert.equal((await client.stats()).workspaceId, daemon.workspace);
});

test('history is read and taken back', async (t) => {
  const { client } = await Daemon.start(t);
  const path = '/memories/global/a.md';
  const first = await client.memories.create(path, 'one\n');
  const second = await client.memories.save(path, 'two\n', first.revision ?? '');
  const listed = [];
  for await (const change of client.changes.all({ path, max: 1 })) listed.push(change.id);
  assert.deepEqual(listed, [second.change, first.change]);
  const id = second.change ?? 0;
  assert.match((await client.changes.get(id)).diffs[0]?.diff ?? '', /\+two/);

  const blocked = await client.changes.undo(first.change ?? 0).catch((error: unknown) => error);
  assert.ok(blocked instanceof UndoBlockedError, String(blocked));
  assert.equal(blocked.code, 'conflict');
  assert.equal(blocked.blocked[0]?.path, path);
  assert.equal((await client.changes.undo(id, { dryRun: true })).change ?? null, null);
  assert.equal((await client.memories.read(path)).text, 'two\n');
  assert.deepEqual((await client.changes.undo(id)).undone, [id]);
  assert.equal((await client.memories.read(path)).text, 'one\n');
  await assert.rejects(client.changes.get(999), NotFoundError);
});

test('runs are the changes of each task, latest first', async (t) => {
  const { client } = await Daemon.start(t);
  const { changes, tasks } = client;
  const ids: string[] = [];
  for (const text of ['I like tea.', 'I drive a bus.', 'I live in Brenn.']) {
    ids.unshift((await tasks.waitFor(await tasks.remember(text))).taskId);
  }
  await client.memories.create('/memories/global/a.md', 'by a person\n');
  const listed = [];
  for await (const run of changes.allRuns({ max: 1 })) listed.push([run.kind, run.id, run.changes.length]);
  assert.deepEqual(listed, ids.map((id) => ['task', id, 1]));
  const [latest] = (await changes.runs()).runs;
  assert.deepEqual([latest?.id, latest?.actor, latest?.memories], [ids[0], 'task', 1]);
  assert.deepEqual((await changes.undoSeveral({ task: ids[0] ?? '' })).undone, latest?.changes);
  for await (const run of changes.allModelRuns()) assert.fail(`no model is set: ${run.model}`);
});

test('what may not be written is refused with its code', async (t) => {
  const { client } = await Daemon.start(t);
  const { memories } = client;
  const key = 'key: sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKl\n';
  const screened = await memories.create('/memories/global/key.md', key).catch((e: unknown) => e);
  assert.ok(screened instanceof ScreenedError, String(screened));
  assert.deepEqual([screened.status, screened.line], [422, 1]);
  assert.match(screened.rule ?? '', /^secrets\./);
  // A URL would lead elsewhere.
  for (const path of ['/memories/global/../../pins/x.md', '/memories/./x.md', '..']) {
    await assert.rejects(memories.delete(path), { code: 'invalid_path' }, path);
  }
  await assert.rejects(memories.create('/memories/global/%2e%2e/x.md', 'x'), {
    code: 'invalid_path',
  });
  await assert.rejects(memories.create('/memories/nowhere/x.md', 'x'), { code: 'invalid_path' });
  assert.equal((await memories.list()).total, 0);
});
