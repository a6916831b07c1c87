// A daemon, a browser and an agent for one scenario. Everything ends with the process.
import { execFileSync, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.LUKASA_TEST_NODE_MODULES}/`);
const { chromium } = require('playwright-core');
export const { AxeBuilder } = require('@axe-core/playwright');

const lukasa = process.env.LUKASA_TEST_PROGRAM;
const cwd = process.env.LUKASA_TEST_CHECKOUT;
// A project on another machine, instead of the checkout.
const project = process.env.LUKASA_TEST_PROJECT;
export const TOKEN = 'a-token-for-tests-only';

/** Runs a command and returns what it prints. */
export function run(...args) {
  return execFileSync(lukasa, args, { cwd, encoding: 'utf8', stdio: ['pipe', 'pipe', 'pipe'] });
}

export class Daemon {
  static async start(port = 0) {
    const daemon = new Daemon();
    daemon.child = spawn(lukasa, ['serve', '--port', String(port), '--json', ...(project ? ['--workspace', project] : [])], { cwd, env: { ...process.env, LUKASA_TOKEN: TOKEN }, stdio: ['ignore', 'pipe', 'inherit'] });
    process.on('exit', () => daemon.child.kill('SIGKILL'));
    const lines = createInterface({ input: daemon.child.stdout });
    daemon.url = await new Promise((resolve) => lines.once('line', (line) => resolve(JSON.parse(line).url)));
    return daemon;
  }

  get port() {
    return Number(new URL(this.url).port);
  }

  /** Ends it as `kill -9` does. */
  async kill() {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await ended;
  }

  async ask(method, path, body) {
    const response = await fetch(this.url + path, {
      method, headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }, body: body && JSON.stringify(body),
    });
    return response.json();
  }

  async address() {
    const { ticket } = await this.ask('POST', '/ui/tickets', {});
    return `${this.url}/ui/#ticket=${ticket}`;
  }
}

/** An agent: a real MCP server over pipes. */
export class Agent {
  static async start(name = 'claude-code') {
    const agent = new Agent();
    agent.child = spawn(lukasa, ['mcp'], { cwd, stdio: ['pipe', 'pipe', 'ignore'] });
    process.on('exit', () => agent.child.kill('SIGKILL'));
    agent.waiting = new Map();
    agent.last = 0;
    createInterface({ input: agent.child.stdout }).on('line', (line) => {
      const message = JSON.parse(line);
      agent.waiting.get(message.id)?.(message);
    });
    await agent.request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name, version: '1' } });
    agent.send({ method: 'notifications/initialized' });
    return agent;
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  request(method, params) {
    const id = ++this.last;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.send({ id, method, params });
    });
  }

  async tool(args) {
    const { result } = await this.request('tools/call', { name: 'memory', arguments: args });
    assert.equal(result.isError, false, JSON.stringify(result));
    return result.content[0].text;
  }
}

let browser;

/** Opens the page in a browser of its own, which fails on whatever its console complains of. */
export async function open(address, options = {}) {
  browser ??= await chromium.launch({ executablePath: process.env.LUKASA_TEST_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.complaints = [];
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  page.on('console', (message) => {
    // The browser reports an unreachable daemon too.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) page.complaints.push(message.text());
  });
  await page.goto(address);
  return page;
}

/** Fails if the page has complained, of its policy above all. */
export function check(page) {
  assert.deepEqual(page.complaints, []);
}

export async function done() {
  await browser?.close();
  process.exit(0);
}
