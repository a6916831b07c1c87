// Sends bodies that a daemon refuses, and prints the answers that `fetch` and `node:http` received.
//
//   node large_body.mjs URL TOKEN

import { request } from 'node:http';

const [url, token] = process.argv.slice(2);
const MEBIBYTE = 1024 * 1024;

async function send(mebibytes, bearer, isStreamed) {
  const bytes = new Uint8Array(mebibytes * MEBIBYTE).fill(0x20);
  const body = isStreamed ? new Blob([bytes]).stream() : bytes;
  const headers = { Authorization: `Bearer ${bearer}`, 'Content-Type': 'application/json' };
  try {
    const answer = await fetch(`${url}/v1/tool`, { method: 'POST', headers, body, duplex: 'half' });
    return [answer.status, (await answer.json()).code, answer.headers.get('connection')];
  } catch (error) {
    return [String(error.cause ?? error)];
  }
}

// The older way of Node, by which axios and others send.
function sendByHttp(mebibytes, bearer) {
  const headers = { Authorization: `Bearer ${bearer}`, 'Content-Type': 'application/json' };
  return new Promise((resolve) => {
    const sent = request(`${url}/v1/tool`, { method: 'POST', headers }, (answer) => {
      const chunks = [];
      answer.on('data', (chunk) => chunks.push(chunk));
      answer.on('error', (error) => resolve([String(error)]));
      answer.on('end', () => {
        const { code } = JSON.parse(Buffer.concat(chunks).toString());
        resolve([answer.statusCode, code, answer.headers.connection ?? null]);
      });
    });
    sent.on('error', (error) => resolve([String(error)]));
    sent.end(Buffer.alloc(mebibytes * MEBIBYTE, 0x20));
  });
}

const seen = [];
// What a race hides once shows in one of several rounds.
for (let round = 0; round < 3; round += 1) {
  for (const mebibytes of [11, 20, 30]) {
    seen.push(await send(mebibytes, token, false), await send(mebibytes, token, true));
    seen.push(await sendByHttp(mebibytes, token));
  }
  seen.push(await send(20, 'a-wrong-token-for-tests', false));
  seen.push(await sendByHttp(20, 'a-wrong-token-for-tests'));
}
console.log(JSON.stringify([...new Set(seen.map((answer) => JSON.stringify(answer)))].map((line) => JSON.parse(line))));
