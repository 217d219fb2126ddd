// The way of the guide: a server that wants OAuth is added and signed in to, and an official client that knows only
// the address of the gate asks the owner for access and calls the server's tool.
// Usage: TOLLGATE=PROGRAM node by-url.mjs SERVER-URL
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { consent, OwnersBrowser } from './lib/owner.mjs';
import { ScriptedGate } from './lib/scripted-gate.mjs';
import { Provider } from '../pages/lib/oauth.mjs';

const REDIRECT = 'http://127.0.0.1:33418/';
const INFO = { name: 'tollgate-e2e-by-url', version: '1.0.0' };

/// `server sign-in`: the address that it prints is opened, and the redirect is pasted.
async function signIn(gate, server) {
  const words = ['--home', gate.home, 'server', 'sign-in', server, '--paste'];
  const child = spawn(process.env.TOLLGATE, words, { stdio: ['pipe', 'inherit', 'pipe'] });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  let at;
  for await (const line of createInterface({ input: child.stderr })) {
    if (/^https?:\/\//.test(line)) at = line.trim();
    if (line.includes('paste the whole address')) child.stdin.end(`${await consent(at)}\n`);
  }
  assert.equal(await ended, 0);
}

async function connect(url, provider) {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  const client = new Client(INFO);
  const error = await client.connect(transport).then(() => undefined, (thrown) => thrown);
  return { client, transport, error };
}

const gate = new ScriptedGate();
try {
  assert.match(gate.run('server', 'add', 's', '--url', process.argv.at(-1)), /requires a sign-in/);
  await signIn(gate, 's');
  const { url, dashboard } = await gate.up();
  const browser = await OwnersBrowser.open(dashboard);

  const provider = new Provider(REDIRECT, 'An editor');
  const first = await connect(url, provider);
  assert.ok(provider.authorizeUrl, `the client was not told to sign in: ${first.error?.message}`);
  const back = new URL(await browser.allow(provider.authorizeUrl, 's'));
  assert.ok(back.href.startsWith(REDIRECT), back.href);
  await first.transport.finishAuth(back.searchParams.get('code'));

  const { client, error } = await connect(url, provider);
  assert.equal(error, undefined);
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map(({ name }) => name), ['s__whoami']);
  const answer = await client.callTool({ name: 's__whoami', arguments: {} });
  assert.equal(answer.content?.[0]?.text, 'ann', JSON.stringify(answer));
  await client.close();
  const [grant] = JSON.parse(gate.run('grant', 'list', '--json'));
  assert.deepEqual([grant.label, grant.kind], ['an-editor-1', 'oauth']);
  gate.run('grant', 'revoke', grant.label);
  const ended = await connect(url, provider);
  assert.ok(ended.error, 'a revoked grant still works');
} finally {
  await gate.end();
}
