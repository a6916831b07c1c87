import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FrameReader } from '#dist/frames.js';
import { decodeEvent } from '#dist/event-types.js';

const frame = (id: number | undefined, event: string, data: string) => ({ id, event, data });

test('frames are read whatever ends their lines, and in any pieces', () => {
  const text = ['retry: 3000', '', ': sign of life', '', 'id: 3', 'event:a', 'data: {"x":', 'data:1}', '']
    .concat(['colour: red', 'id: x', 'data', '', 'event: no data', '', 'data:  two', '', 'id: 9'])
    .map((line) => `${line}|`)
    .join('');
  const expected = [frame(3, 'a', '{"x":\n1}'), frame(undefined, '', ''), frame(undefined, '', ' two')];
  for (const end of ['\n', '\r\n', '\r']) {
    const whole = text.replaceAll('|', end) + end;
    for (let size = 1; size < 9; size += 1) {
      const reader = new FrameReader();
      const frames = [];
      for (let at = 0; at < whole.length; at += size) {
        frames.push(...reader.push(whole.slice(at, at + size)));
      }
      assert.deepEqual(frames, expected, `${JSON.stringify(end)} ${size}`);
    }
  }
});

test('a frame without end is given up', () => {
  const reader = new FrameReader();
  assert.throws(() => reader.push(`data: ${'x'.repeat(5_000_000)}`), { code: 'protocol' });
  const lines = new FrameReader();
  assert.throws(() => lines.push(`data: ${'x'.repeat(1_000)}\n`.repeat(5_000)), { code: 'protocol' });
});

/** Returns the event that an envelope becomes. */
function news(envelope: object): object | undefined {
  const { id, type } = envelope as { id?: number; type?: string };
  return decodeEvent({ id, event: type ?? '', data: JSON.stringify(envelope) });
}

test('both forms of a change of memories become one type', () => {
  const about = { v: 1, type: 'memory_changed', _meta: { serverTimestamp: 5 } };
  const managed = { source: 'workspace_memory_remember', taskId: 'remember-1', touchedScopes: ['user'] };
  assert.deepEqual(
    news({ ...about, id: 7, data: { scope: 'managed', ...managed }, originatorClientId: 'ide' }),
    {
      type: 'workspace.memory.changed',
      scope: 'managed',
      ...managed,
      eventId: 7,
      serverTimestamp: 5,
      originatorClientId: 'ide',
    },
  );
  const file = { path: '/memories/global/a.md', kind: 'save', actor: 'person', revision: 'r', change: 3 };
  assert.deepEqual(news({ ...about, id: 8, data: { scope: 'file', ...file } }), {
    type: 'workspace.memory.changed',
    scope: 'file',
    ...file,
    eventId: 8,
    serverTimestamp: 5,
    originatorClientId: undefined,
  });
});

test('proposals that were made or decided have a type of their own', () => {
  const data = { action: 'accepted', ids: [3], actor: 'person', change: 7 };
  assert.deepEqual(news({ v: 1, id: 9, type: 'proposal', _meta: { serverTimestamp: 5 }, data }), {
    type: 'workspace.proposal.changed',
    ...data,
    eventId: 9,
    serverTimestamp: 5,
    originatorClientId: undefined,
  });
});

test('what is not known is told as it is, and what is no event is none', () => {
  const unknown = { type: 'unknown', eventId: 1, serverTimestamp: undefined, originatorClientId: undefined };
  const check = (name: string, data: unknown): void =>
    assert.deepEqual(news({ id: 1, type: name, data }), { ...unknown, name, data });
  check('moon_rose', { phase: 'full' });
  check('memory_changed', { scope: 'galaxy' });
  check('memory_changed', 'managed');
  check('replay_complete', null);
  for (const data of ['', '{', 'null', '3', '"x"']) {
    assert.equal(decodeEvent({ id: 1, event: 'memory_changed', data }), undefined, data);
  }
});
