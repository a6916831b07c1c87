// The client of the npm package `@modelcontextprotocol/sdk`, as a host application uses it.
//
//   node sdk.mjs MODULES LUKASA REVISION FILE < CALLS
//
// LUKASA is the program to start, or the URL of a daemon whose token LUKASA_TOKEN has. Prints a report as
// one JSON object. CALLS is a JSON list of the tool's arguments; FILE is the
// memory that is changed from outside once it is subscribed to.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, lukasa, revision, file] = process.argv.slice(2);
const calls = JSON.parse(readFileSync(0, "utf8"));
const sdk = (name) =>
  import(pathToFileURL(join(modules, "@modelcontextprotocol/sdk/dist/esm", name)).href);
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");
const { ResourceUpdatedNotificationSchema } = await sdk("types.js");

// The package always offers its newest revision; the one to test is put in its place.
const ofRevision = (Transport) =>
  class extends Transport {
    send(message, options) {
      if (message.method === "initialize") {
        message = { ...message, params: { ...message.params, protocolVersion: revision } };
      }
      return super.send(message, options);
    }

    setProtocolVersion(version) {
      this.spoken = version;
      super.setProtocolVersion?.(version);
    }
  };

const connect = () => {
  if (lukasa.startsWith("http://")) {
    const headers = { Authorization: `Bearer ${process.env.LUKASA_TOKEN}` };
    const OverHttp = ofRevision(StreamableHTTPClientTransport);
    return new OverHttp(new URL(lukasa), { requestInit: { headers } });
  }
  const OverPipes = ofRevision(StdioClientTransport);
  return new OverPipes({ command: lukasa, args: ["mcp"], env: process.env });
};

const transport = connect();
const client = new Client({ name: "npm sdk", version: "1" });
await client.connect(transport);

const seen = { revision: transport.spoken };
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.calls = [];
for (const call of calls) {
  const result = await client.callTool({ name: "memory", arguments: call });
  const { ok, code } = result._meta.lukasa;
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
