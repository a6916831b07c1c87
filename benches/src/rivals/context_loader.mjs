// Times how Qwen Code gathers context files for a folder; prints nanoseconds, a line each, then how many bytes
// of text they came to.
//
// Arguments: the folder of the package, the folder to gather for, how often. The function is not part of what the package
// offers, so it is looked for among its chunks.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';

const [, , pack, folder, times] = process.argv;
const chunks = path.join(pack, 'chunks');
const declared = 'async function loadServerHierarchicalMemory(';
const file = readdirSync(chunks)
  .map((name) => path.join(chunks, name))
  .find((name) => name.endsWith('.js') && readFileSync(name, 'utf8').includes(declared));
if (file === undefined) {
  throw new Error(`no chunk of ${pack} gathers context files`);
}
console.debug = () => {};
const { loadServerHierarchicalMemory: load } = await import(pathToFileURL(file).href);
const gather = () => load(folder, [], {}, [], true, 'tree', []);
// The first calls are compiled.
for (let call = 0; call < 20; call += 1) {
  await gather();
}
let bytes = 0;
for (let call = 0; call < Number(times); call += 1) {
  const began = process.hrtime.bigint();
  const gathered = await gather();
  console.log(String(process.hrtime.bigint() - began));
  bytes = Buffer.byteLength(gathered.memoryContent);
}
console.log(String(bytes));
process.exit(0);
