import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Daemon, PATIENCE_MS } from './support/daemon.js';

const folder = new URL('readme/', import.meta.url);

test('the examples of the READMEs run, one after the other', async (t) => {
  const daemon = await Daemon.start(t);
  const examples = (await readdir(folder)).filter((name) => name.endsWith('.js')).sort();
  assert.ok(examples.length > 0, 'there are none');
  for (const name of examples) {
    const env = { PATH: process.env['PATH'], LUKASA_URL: daemon.url, LUKASA_TOKEN: daemon.token };
    const program = new URL(name, folder).pathname;
    const { stderr } = await promisify(execFile)(process.execPath, [program], {
      env,
      timeout: PATIENCE_MS,
    });
    assert.equal(stderr, '', name);
  }
});
