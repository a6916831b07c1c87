// Writes the TypeScript examples of both READMEs to test/readme, so that the tests check and run them. What was
// compiled before goes away, so that nothing runs that is no longer there.

import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';

const here = new URL('..', import.meta.url);
const folder = new URL('test/readme/', here);
for (const old of [folder, new URL('build/', here)]) await rm(old, { recursive: true, force: true });
await mkdir(folder, { recursive: true });
for (const [name, path] of [
  ['project', '../../README.md'],
  ['package', 'README.md'],
]) {
  const readme = await readFile(new URL(path, here), 'utf8');
  const examples = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code);
  if (examples.length === 0) throw new Error(`${path} has no example`);
  for (const [index, code] of examples.entries()) {
    // A module, whatever it imports.
    await writeFile(new URL(`${name}-${index + 1}.ts`, folder), `${code}export {};\n`);
  }
}
