// Two servers with odd tool names and names in common, at `/mcp`, with official clients of both eras: every listed name
// is one that all clients accept, is unique, and leads to its tool; with and without a prefix.
// Usage: TOLLGATE=PROGRAM node names.mjs
import assert from 'node:assert/strict';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client as NewClient, StreamableHTTPClientTransport as NewTransport } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ScriptedGate } from './lib/scripted-gate.mjs';

const SERVER = path.join(path.dirname(fileURLToPath(import.meta.url)), '../servers/odd-names.mjs');
const SERVERS = ['one', 'two'];
const TOOLS_EACH = 10;
const INFO = { name: 'tollgate-e2e-names', version: '1.0.0' };
const ACCEPTED = /^[a-zA-Z0-9_-]{1,64}$/;

async function connect(Client, Transport, url, options, more) {
  const client = new Client(INFO, { capabilities: {}, ...more });
  await client.connect(new Transport(new URL(url), options));
  return client;
}

/// The client with the whole list: servers are started in the background.
async function listed(client) {
  for (;;) {
    const { tools } = await client.listTools();
    if (tools.length === TOOLS_EACH * SERVERS.length) return tools;
    assert.ok(tools.length < TOOLS_EACH * SERVERS.length, `${tools.length} tools`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function check(client, hasPrefix) {
  const tools = await listed(client);
  const names = tools.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length, 'no name twice');
  for (const { name, description } of tools) {
    assert.match(name, ACCEPTED);
    // The description is the server's own and says whose tool it is.
    const [, own, server] = /^(.+) of (\w+)$/s.exec(description);
    const answer = await client.callTool({ name, arguments: {} });
    assert.equal(answer.content?.[0]?.text, `${server}: ${own}`, name);
    if (hasPrefix) assert.ok(name.startsWith(`${server}__`), name);
    if (!hasPrefix && own.startsWith('only_')) assert.equal(name, own);
    if (!hasPrefix && own === 'same') assert.equal(name, `${server}__same`);
  }
  // A bare name works where only one server has it, and never by chance.
  const only = await client.callTool({ name: 'only_two', arguments: {} });
  assert.equal(only.content?.[0]?.text, 'two: only_two');
  await assert.rejects(client.callTool({ name: 'same', arguments: {} }), /Unknown tool|ambiguous|same/);
  await client.close();
  return names.sort();
}

const gate = new ScriptedGate();
try {
  for (const server of SERVERS) gate.run('server', 'add', server, '--', process.execPath, SERVER, server);
  gate.allowAll();
  const always = gate.grant('always', SERVERS);
  const never = gate.grant('never', SERVERS);
  gate.run('grant', 'prefix', 'never', 'never');
  const { url } = await gate.up();
  const pinned = { versionNegotiation: { mode: { pin: '2026-07-28' } } };
  for (const [options, hasPrefix] of [[always, true], [never, false]]) {
    const newer = await check(await connect(NewClient, NewTransport, url, options, pinned), hasPrefix);
    const older = await check(await connect(OldClient, OldTransport, url, options), hasPrefix);
    assert.deepEqual(older, newer, 'the same names in both eras');
  }
  const known = gate.run('server', 'tools', 'one', '--json');
  assert.match(known, /one__/, 'the mapping is shown');
} finally {
  await gate.end();
}
