// Drives a daemon with the published client of its task API, and reports what it saw.
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
    errors,
    closedTwice: true,
  }),
);
