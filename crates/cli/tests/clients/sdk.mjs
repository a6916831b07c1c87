// The client of the npm package `@modelcontextprotocol/sdk`, as a host application uses it.
//
//   node sdk.mjs MODULES QUIPU REVISION FILE < CALLS
//
// Prints what it saw as one JSON object. CALLS is a JSON list of the tool's arguments; FILE is the
// memory that is changed from outside once it is subscribed to.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, quipu, revision, file] = process.argv.slice(2);
const calls = JSON.parse(readFileSync(0, "utf8"));
const sdk = (name) =>
  import(pathToFileURL(join(modules, "@modelcontextprotocol/sdk/dist/esm", name)).href);
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { ResourceUpdatedNotificationSchema } = await sdk("types.js");

// The package always offers its newest revision; the one to test is put in its place.
class OfRevision extends StdioClientTransport {
  send(message) {
    if (message.method === "initialize") {
      message = { ...message, params: { ...message.params, protocolVersion: revision } };
    }
    return super.send(message);
  }

  setProtocolVersion(version) {
    this.spoken = version;
  }
}

const transport = new OfRevision({ command: quipu, args: ["mcp"], env: process.env });
const client = new Client({ name: "npm sdk", version: "1" });
await client.connect(transport);

const seen = { revision: transport.spoken };
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.calls = [];
for (const call of calls) {
  const result = await client.callTool({ name: "memory", arguments: call });
  const { ok, code } = result.structuredContent;
  seen.calls.push({ ok, code: code ?? null, isError: result.isError, text: result.content[0].text });
}
seen.resources = (await client.listResources()).resources.map((resource) => resource.uri);
const uri = seen.resources[0];
seen.read = (await client.readResource({ uri })).contents[0].text;

const updated = new Promise((resolve) => {
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, (notice) =>
    resolve(notice.params.uri),
  );
});
await client.subscribeResource({ uri });
writeFileSync(file, "edited outside\n");
seen.updated = await updated;
seen.readAgain = (await client.readResource({ uri })).contents[0].text;

await client.close();
console.log(JSON.stringify(seen));
