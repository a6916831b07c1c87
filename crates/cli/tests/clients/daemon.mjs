// Drives a daemon with the published client of its task API, and prints a report.
//
//   node daemon.mjs PACKAGE_FOLDER URL TOKEN

import { createRequire } from 'node:module';
import { join } from 'node:path';

const [folder, baseUrl, token] = process.argv.slice(2);
const sdk = createRequire(import.meta.url)(join(folder, 'dist/daemon/index.cjs'));
const { DaemonClient } = sdk;
const client = new DaemonClient({ baseUrl, token });

async function until(get, task, opts) {
  for (;;) {
    const now = await get.call(client, task.taskId, opts);
    if (now.status === 'completed' || now.status === 'failed') return now;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

async function refused(call) {
  try {
    await call();
  } catch (error) {
    return [error.status, error.body?.code];
  }
  return 'it was not refused';
}

const capabilities = await client.capabilities();
const wanted = ['remember', 'forget', 'dream'].map((kind) => `workspace_memory_${kind}`);
const session = await client.createOrAttachSession({ workspaceCwd: capabilities.workspaceCwd });
const other = await client.createOrAttachSession({});
const me = { clientId: session.clientId };

// Listens from here on.
const listening = new AbortController();
const events = [];
const heard = (async () => {
  for await (const event of client.subscribeEvents(session.sessionId, { signal: listening.signal })) {
    events.push(event);
    if (event.data?.source === 'workspace_memory_forget') return;
  }
})();
// The stream is open once the daemon counts it.
for (;;) {
  const answer = await fetch(`${baseUrl}/v1/stats`, { headers: { Authorization: `Bearer ${token}` } });
  if ((await answer.json()).eventStreams === 1) break;
}

const remember = async (content, opts = {}) => {
  const task = await client.rememberWorkspaceMemory(content, { ...me, ...opts });
  return until(client.getWorkspaceMemoryRememberTask, task, me);
};
const remembered = await remember('I like tea in the morning.');
const known = await remember('I like tea in the morning.');
const dream = await client.dreamWorkspaceMemory(me);
const dreamt = await until(client.getWorkspaceMemoryDreamTask, dream, me);
const forget = await client.forgetWorkspaceMemory('tea in the morning', me);
const forgotten = await until(client.getWorkspaceMemoryForgetTask, forget, me);
await heard;

const replayed = [];
for await (const event of client.subscribeEvents(session.sessionId, { lastEventId: 1 })) {
  replayed.push(event.id ?? event.type);
  if (event.type === 'replay_complete') break;
}

// The versions tell by their features whether a scope can be given.
let scoped = null;
if (typeof client.requireCapability === 'function') {
  const task = await remember('This project builds with make.', { scope: 'project' });
  scoped = task.result.touchedScopes;
}

// Context files, which this API calls the memory of a workspace.
const here = client.workspaceById(capabilities.workspaces[0].id);
const write = (scope, content, mode, by = client) =>
  by.writeWorkspaceMemory({ scope, content, mode }, session.clientId);
const writes = [
  await write('workspace', 'Builds with make.', undefined),
  await write('workspace', 'Tests with just.', 'append', here),
  await write('global', 'Be brief.\n', 'replace'),
  await write('global', ' ', 'append'),
];
const byFolder = await client.workspaceByCwd(capabilities.workspaceCwd).workspaceMemory();
const files = await client.workspaceMemory();
const sameFiles = [await here.workspaceMemory(), byFolder].every(
  (other) => JSON.stringify(other) === JSON.stringify(files),
);
const fileEvents = [];
for await (const event of client.subscribeEvents(session.sessionId, { lastEventId: 0 })) {
  if (event.type === 'replay_complete') break;
  if (['workspace', 'global'].includes(event.data.scope)) fileEvents.push(event);
}
const inFolder = (path) => path.split('/').slice(-2).join('/');

const stranger = new DaemonClient({ baseUrl, token: 'wrong-wrong-wrong-wrong' });
const errors = {
  blank: await refused(() => client.rememberWorkspaceMemory('  ', me)),
  mode: await refused(() => client.rememberWorkspaceMemory('x', { ...me, contextMode: 'all' })),
  query: await refused(() => client.forgetWorkspaceMemory('', me)),
  stranger: await refused(() => client.dreamWorkspaceMemory({ clientId: 'nobody' })),
  unknown: await refused(() => client.getWorkspaceMemoryDreamTask('dream-x', me)),
  theirs: await refused(() =>
    client.getWorkspaceMemoryRememberTask(remembered.taskId, { clientId: other.clientId }),
  ),
  noContent: await refused(() => write('workspace', undefined, 'append')),
  noMode: await refused(() => write('workspace', 'x', 'insert')),
  noScope: await refused(() => write('user', 'x', 'append')),
  secret: await refused(() => write('global', `ghp_${'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'}`)),
  tooLarge: await refused(() => write('global', 'x'.repeat(2 ** 20 + 1), 'replace')),
  nobody: await refused(() => client.writeWorkspaceMemory({ scope: 'global', content: 'x' }, 'nobody')),
  nowhere: await refused(() => client.workspaceById('nowhere').workspaceMemory()),
  noToken: await refused(() => stranger.workspaceMemory()),
  token: await refused(() => stranger.capabilities()),
  session: await refused(async () => {
    for await (const event of client.subscribeEvents('nowhere')) return event;
  }),
};
await client.detachSession(session.sessionId, session.clientId);
errors.detached = await refused(() =>
  client.getWorkspaceMemoryRememberTask(remembered.taskId, me),
);
await client.closeSession(other.sessionId, other.clientId);
await client.closeSession(session.sessionId);

console.log(
  JSON.stringify({
    health: (await client.health()).status,
    mode: capabilities.mode,
    offered: wanted.every((feature) => capabilities.features.includes(feature)),
    remembered: {
      status: remembered.status,
      files: remembered.result.filesTouched.length,
      scopes: remembered.result.touchedScopes,
    },
    known: {
      status: known.status,
      files: known.result.filesTouched.length,
      scopes: known.result.touchedScopes,
    },
    scoped,
    dreamt: { status: dreamt.status, deduped: dreamt.result.dedupedEntries },
    forgotten: {
      status: forgotten.status,
      removed: forgotten.result.removedEntries.length,
      topics: forgotten.result.touchedTopics,
      scopes: forgotten.result.touchedScopes,
    },
    events: events.map((event) => ({
      id: event.id,
      known: sdk.asKnownDaemonEvent(event) !== undefined,
      source: event.data.source,
      mine: event.originatorClientId === session.clientId,
    })),
    replayed,
    contextFiles: {
      offered: capabilities.features.includes('workspace_memory'),
      writes: writes.map(({ filePath, ...rest }) => ({ file: inFolder(filePath), ...rest })),
      files: files.files.map(({ path, kind, scope, bytes }) => [inFolder(path), kind, scope, bytes]),
      counts: [files.v, files.initialized, files.totalBytes, files.fileCount, files.ruleCount],
      sameFiles,
      events: fileEvents.map((event) => {
        const [told] = sdk.normalizeDaemonEvent(event);
        return {
          known: sdk.asKnownDaemonEvent(event) !== undefined,
          told: [told.type, told.scope, inFolder(told.filePath), told.mode, told.bytesWritten],
          mine: event.originatorClientId === session.clientId,
        };
      }),
    },
    errors,
    closedTwice: true,
  }),
);
