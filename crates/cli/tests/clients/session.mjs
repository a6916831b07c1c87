// The client of the npm package `@modelcontextprotocol/sdk` as agents of several classes, or with several roots.
//
//   node session.mjs MODULES LUKASA PLAN
//
// LUKASA is the program to start, or the URL of a daemon whose token LUKASA_TOKEN has. PLAN is a JSON object: `class` is the
// class of the session (none when left out), `roots` its folders, `calls` the calls of its tool, each with `arguments` and perhaps
// `meta`. Prints what each came to, or why there is no session, as JSON.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, lukasa, text] = process.argv.slice(2);
const plan = JSON.parse(text);
const sdk = (name) => import(pathToFileURL(join(modules, '@modelcontextprotocol/sdk/dist/esm', name)).href);
const { Client } = await sdk('client/index.js');
const { StdioClientTransport } = await sdk('client/stdio.js');
const { StreamableHTTPClientTransport } = await sdk('client/streamableHttp.js');
const { ListRootsRequestSchema } = await sdk('types.js');

function connect() {
  if (!lukasa.startsWith('http://')) {
    return new StdioClientTransport({ command: lukasa, args: ['mcp', ...(plan.args ?? [])], env: process.env });
  }
  const headers = { Authorization: `Bearer ${process.env.LUKASA_TOKEN}` };
  if (plan.class) headers['X-Lukasa-Agent-Class'] = plan.class;
  return new StreamableHTTPClientTransport(new URL(lukasa), { requestInit: { headers } });
}

const capabilities = plan.roots ? { roots: { listChanged: true } } : {};
const client = new Client({ name: 'npm sdk', version: '1' }, { capabilities });
if (plan.roots) {
  const roots = plan.roots.map((folder) => ({ uri: pathToFileURL(folder).href }));
  client.setRequestHandler(ListRootsRequestSchema, () => ({ roots }));
}

const transport = connect();
try {
  await client.connect(transport);
  const seen = [];
  for (const call of plan.calls) {
    try {
      const params = { name: call.tool ?? 'memory', arguments: call.arguments, _meta: call.meta };
      const result = await client.callTool(params);
      const { ok, code } = result._meta.lukasa;
      seen.push({ outcome: ok ? 'ok' : code, text: result.content[0].text });
    } catch (error) {
      seen.push({ outcome: `error ${error.code}`, text: error.message });
    }
  }
  console.log(JSON.stringify(seen));
} catch (error) {
  console.log(JSON.stringify({ noSession: error.message }));
}
await client.close();
