import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BusyError,
  NotFoundError,
  TaskFailedError,
  TaskUnfinishedError,
  ApiError,
} from '@lukasa/client';
import { Daemon, PATIENCE_MS } from './support/daemon.js';
import { Line } from './support/line.js';

test('tasks are asked for, waited for and told apart', async (t) => {
  const { client } = await Daemon.start(t);
  const asked = await client.tasks.remember('This project builds with make.', {
    scope: 'project',
    contextMode: 'clean',
  });
  const done = await client.tasks.waitFor(asked);
  assert.deepEqual(done.result.touchedScopes, ['project']);
  assert.equal(done.result.filesTouched.length, 1);
  assert.deepEqual(await client.tasks.get(asked.taskId), done);

  const dreamt = await client.tasks.waitFor(await client.tasks.dream());
  assert.equal(dreamt.result.dedupedEntries, 0);
  const forgotten = await client.tasks.waitFor(await client.tasks.forget('forget that this project builds with make'));
  assert.equal(forgotten.result.removedEntries.length, 1);

  const listed = await client.tasks.list({ kind: 'forget' });
  assert.deepEqual(
    listed.map(({ taskId, status }) => [taskId, status]),
    [[forgotten.taskId, 'completed']],
  );
});

test('a task that is given up is an error with its reason', async (t) => {
  const { client } = await Daemon.start(t);
  const secret = 'The key is sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKl';
  const task = await client.tasks.remember(secret);
  const error = await client.tasks.waitFor(task).catch((error: unknown) => error);
  assert.ok(error instanceof TaskFailedError);
  assert.equal(error.code, 'screened');
  assert.equal(error.task.taskId, task.taskId);
  assert.ok(!error.message.includes('AbCdEf'), error.message);
});

test('a task that waits can be left alone or taken back', async (t) => {
  const daemon = await Daemon.start(t);
  const { tasks } = daemon.client;
  await tasks.waitFor(await tasks.remember('I like tea.'));
  const release = await daemon.holdLane();
  const [left, taken] = [await tasks.dream(), await tasks.dream()];

  const late = await tasks.waitFor(left, { timeoutMs: 500 }).catch((error: unknown) => error);
  assert.ok(late instanceof TaskUnfinishedError, String(late));
  assert.equal(late.task.status, 'queued');

  // Aborting the wait does not stop the task.
  const abort = new AbortController();
  const waiting = tasks.waitFor(left, { signal: abort.signal });
  const reason = new Error('no longer wanted');
  abort.abort(reason);
  await assert.rejects(waiting, reason);
  await assert.rejects(tasks.waitFor(left, { signal: AbortSignal.abort(reason) }), reason);

  const back = await tasks.cancel(taken);
  assert.equal(back.status, 'failed');
  await assert.rejects(tasks.waitFor(taken), { name: 'TaskFailedError', code: 'cancelled' });
  await release();
  const done = await tasks.waitFor(left);
  assert.equal(done.status, 'completed');
  assert.equal((await tasks.cancel(left.taskId)).status, 'completed', 'what has ended stays');
});

test('a full lane is busy, and has room again', async (t) => {
  const daemon = await Daemon.start(t);
  const { tasks } = daemon.client;
  await tasks.waitFor(await tasks.dream());
  const release = await daemon.holdLane();
  const asked = [];
  for (let count = 0; count < 8; count += 1) asked.push(await tasks.dream());
  const full = await tasks.dream().catch((error: unknown) => error);
  assert.ok(full instanceof BusyError, String(full));
  assert.deepEqual([full.status, full.code, full.retryAfterMs], [429, 'remember_queue_full', 1_000]);
  assert.ok(full.isTemporary);
  await release();
  await Promise.all(asked.map((task) => tasks.waitFor(task)));
});

test('each client sees its own tasks', async (t) => {
  const { client } = await Daemon.start(t);
  const cwd = (await client.capabilities()).workspaceCwd;
  const [ours, theirs] = [await client.beginSession({ cwd }), await client.beginSession()];
  const task = await ours.client.tasks.remember('I like tea.');
  await ours.client.tasks.waitFor(task);
  for (const stranger of [theirs.client, client]) {
    const error = await stranger.tasks.get(task.taskId).catch((error: unknown) => error);
    assert.ok(error instanceof NotFoundError);
    assert.equal(error.code, 'remember_task_not_found');
    assert.deepEqual(await stranger.tasks.list(), []);
  }
  await ours.end();
  const left = await ours.client.tasks.dream().catch((error: unknown) => error);
  assert.ok(left instanceof ApiError);
  assert.deepEqual([left.status, left.code], [400, 'invalid_client_id']);
  assert.equal(left.facts['clientId'], ours.clientId);
  await assert.rejects(client.beginSession({ cwd: '/nowhere' }), { code: 'workspace_mismatch' });
});

test('an id is one segment of the address, and an id of no task says so', async (t) => {
  const { client } = await Daemon.start(t);
  const { tasks } = client;
  for (const id of ['nope', 'nope-1', '-1', 'a/b', '?', 'nope#1']) {
    for (const call of [() => tasks.get(id), () => tasks.waitFor(id), () => tasks.cancel(id)]) {
      const error = await call().catch((error: unknown) => error);
      assert.ok(error instanceof NotFoundError, id);
      assert.deepEqual([error.status, error.code], [404, 'task_not_found']);
      assert.match(error.message, /no task has the id/);
    }
  }
  await assert.rejects(tasks.get('remember-1/2?a#b'), { code: 'remember_task_not_found' });
  const elsewhere = client.inWorkspace('no/where');
  await assert.rejects(elsewhere.tasks.dream(), { code: 'workspace_not_found' });
});

test('an empty id or path is refused before a request', async (t) => {
  const { client } = await Daemon.start(t);
  const { tasks, memories } = client;
  const calls = [
    () => tasks.get(''),
    () => tasks.waitFor(''),
    () => tasks.cancel(''),
    () => memories.removeWorkspace(''),
    () => client.inWorkspace('').tasks.dream(),
  ];
  for (const call of calls) await assert.rejects(call(), { code: 'invalid_id', message: /is empty/ });
  for (const path of ['', '/memories', '/memories/']) {
    await assert.rejects(memories.delete(path), { code: 'invalid_path', message: 'the path is empty' });
  }
});

test('another workspace has tasks of its own', async (t) => {
  const daemon = await Daemon.start(t);
  const here = daemon.client.inWorkspace(daemon.workspace);
  const task = await here.tasks.remember('I like tea.');
  await here.tasks.waitFor(task, { timeoutMs: PATIENCE_MS });
  assert.equal((await here.tasks.get(task.taskId)).status, 'completed');
  assert.equal((await here.tasks.cancel(task)).status, 'completed');
  const nowhere = here.inWorkspace('nowhere');
  await assert.rejects(nowhere.tasks.dream(), { code: 'workspace_not_found' });
  await assert.rejects(nowhere.tasks.list(), { code: 'workspace_not_found' });
});

test('a task is waited for while the daemon starts anew', async (t) => {
  const daemon = await Daemon.start(t);
  const line = await Line.to(t, daemon.url);
  const { tasks } = daemon.clientAt(line.url);
  await tasks.waitFor(await tasks.remember('I like tea.'));
  const release = await daemon.holdLane();
  const task = await tasks.remember('I drive a bus.');
  const waiting = tasks.waitFor(task, { timeoutMs: PATIENCE_MS });
  await daemon.kill();
  line.cut();
  await release();
  await daemon.startAgain();
  line.leadTo(daemon.url);
  assert.equal((await waiting).status, 'completed');
});
