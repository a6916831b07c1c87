// Drives `lukasa acp` with a client library of the Agent Client Protocol by other authors, and prints a report.
//
// Arguments: the folder of the library, the program, the folder to work in. Two generations of libraries are known: in the
// older one a connection is an object with a method for each call, in the newer one a client is run with a context.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';

const [folder, program, cwd] = process.argv.slice(2);
const { main, exports } = JSON.parse(readFileSync(join(folder, 'package.json')));
const entry = exports?.['.']?.import ?? main;
const library = await import(pathToFileURL(join(folder, entry)));

const agent = spawn(program, ['--acp'], { cwd, stdio: ['pipe', 'pipe', 'inherit'] });
const stream = library.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

const hello = { protocolVersion: library.PROTOCOL_VERSION ?? 1, clientCapabilities: {} };
const method = (name) => `qwen/control/workspace/memory/${name}`;

async function failure(call) {
  try {
    return { unexpected: await call };
  } catch (error) {
    return { code: error.code, errorKind: error.data?.errorKind ?? null };
  }
}

async function tour(initialize, ext, newSession, prompt) {
  const greeting = await initialize(hello);
  const { agentInfo, agentCapabilities, protocolVersion } = greeting;
  const available = await ext(method('remember/availability'), { cwd });
  const remembered = await ext(method('remember'), { cwd, content: 'I prefer green tea.' });
  const known = await ext(method('remember'), { content: 'I prefer green tea.' });
  const dreamt = await ext(method('dream'), {});
  const forgotten = await ext(method('forget'), { query: 'my green tea preference' });
  const params = { cwd, mcpServers: [] };
  return {
    protocolVersion,
    name: agentInfo?.name ?? null,
    loadSession: agentCapabilities.loadSession,
    available: available.available,
    remembered: [remembered.filesTouched.length, remembered.touchedScopes],
    known: known.filesTouched.length,
    dreamt: dreamt.summary,
    forgotten: [forgotten.summary, forgotten.removedEntries.length, forgotten.touchedTopics],
    blank: await failure(ext(method('remember'), { content: ' ' })),
    mode: await failure(ext(method('remember'), { content: 'a', contextMode: 'all' })),
    query: await failure(ext(method('forget'), {})),
    unknown: (await failure(ext('somebody/else', {}))).code,
    session: await failure(newSession(params)),
    prompt: await failure(prompt({ sessionId: 'none', prompt: [{ type: 'text', text: 'Hi' }] })),
  };
}

let seen;
if (library.ClientSideConnection) {
  const client = { requestPermission: fail, sessionUpdate: fail };
  const connection = new library.ClientSideConnection(() => client, stream);
  seen = await tour(
    (params) => connection.initialize(params),
    (name, params) => connection.extMethod(name, params),
    (params) => connection.newSession(params),
    (params) => connection.prompt(params),
  );
} else {
  const { methods } = library;
  seen = await library.client({ name: 'a-foreign-client' }).connectWith(stream, (context) =>
    tour(
      (params) => context.request(methods.agent.initialize, params),
      (name, params) => context.request(`_${name}`, params),
      (params) => context.request(methods.agent.session.new, params),
      (params) => context.request(methods.agent.session.prompt, params),
    ),
  );
}

function fail() {
  throw new Error('an agent without sessions has nothing to tell of them');
}

const ended = new Promise((resolve) => agent.on('exit', (status) => resolve(status)));
agent.stdin.end();
console.log(JSON.stringify({ ...seen, status: await ended }));
process.exit(0);
