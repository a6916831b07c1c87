import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ApiError, ConflictError, NotFoundError, ScreenedError } from '@lukasa/client';
import { Daemon } from './support/daemon.js';

test('context files are listed, added to and replaced', async (t) => {
  const daemon = await Daemon.start(t);
  const { contextFiles } = daemon.client;
  const events = await daemon.client.events();
  assert.deepEqual((await contextFiles.list()).files, []);
  const added = await contextFiles.append('workspace', '- Builds with make.');
  assert.deepEqual([added.mode, added.changed], ['append', true]);
  assert.equal((await contextFiles.append('workspace', ' ')).changed, false);
  const there = daemon.client.inWorkspace(daemon.workspace).contextFiles;
  const [file] = (await there.list()).files;
  assert.deepEqual([file?.path, file?.scope], [added.filePath, 'workspace']);
  const revision = file?.revision ?? '';
  const replaced = await there.replace('workspace', 'new\n', { revision });
  assert.deepEqual([replaced.mode, replaced.bytesWritten], ['replace', 4]);
  assert.equal(await readFile(join(daemon.checkout, 'QWEN.md'), 'utf8'), 'new\n');
  const late = await contextFiles
    .replace('workspace', 'newer\n', { revision })
    .catch((error: unknown) => error);
  assert.ok(late instanceof ConflictError, String(late));
  assert.equal(late.revision, (await contextFiles.list()).files[0]?.revision);
  await contextFiles.replace('global', 'mine\n');

  const told = [];
  for await (const event of events) {
    if (event.type !== 'workspace.memory.changed') continue;
    if (event.scope !== 'workspace' && event.scope !== 'global') continue;
    told.push([event.scope, event.mode, event.bytesWritten]);
    if (event.scope === 'global') break;
  }
  assert.deepEqual(told, [
    ['workspace', 'append', added.bytesWritten],
    ['workspace', 'replace', 4],
    ['global', 'replace', 5],
  ]);
});

test('what is not written to a context file is an error of its kind', async (t) => {
  const { client } = await Daemon.start(t);
  const { contextFiles } = client;
  const secret = `ghp_${'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'}`;
  await assert.rejects(contextFiles.append('global', secret), ScreenedError);
  await assert.rejects(
    contextFiles.replace('global', 'x'.repeat(2 ** 20 + 1)),
    (error) => error instanceof ApiError && error.code === 'too_large',
  );
  await assert.rejects(client.inWorkspace('nowhere').contextFiles.list(), NotFoundError);
});
