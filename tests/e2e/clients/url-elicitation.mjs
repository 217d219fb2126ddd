// A server where each grant has its own login: official clients of both eras get the page to sign in as a URL
// elicitation, the owner signs in there, and the call works.
// Usage: TOLLGATE=PROGRAM node url-elicitation.mjs SERVER-URL
import assert from 'node:assert/strict';
import { Client as NewClient, StreamableHTTPClientTransport as NewTransport } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitationCompleteNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { OwnersBrowser } from './lib/owner.mjs';
import { ScriptedGate } from './lib/scripted-gate.mjs';

const INFO = { name: 'tollgate-e2e-elicitation', version: '1.0.0' };
const URL_ELICITATION_REQUIRED = -32042;
const capabilities = { elicitation: { form: {}, url: {} } };

const gate = new ScriptedGate();
const requestInit = (label) => gate.grant(label, ['s']);

function expectAccount(result) {
  assert.equal(result.content?.[0]?.text, 'ann', JSON.stringify(result));
}

/// 2026-07-28: the client is asked in the result, and repeats the call by itself.
async function modern(url, browser) {
  const client = new NewClient(INFO, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  const pages = [];
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    assert.equal(params.mode, 'url');
    pages.push(params.url);
    // The person signs in after the client has opened the page.
    setTimeout(() => browser.signInAt(params.url).catch((error) => console.error(error)), 100);
    return { action: 'accept' };
  });
  await client.connect(new NewTransport(new URL(url), requestInit('modern')));
  expectAccount(await client.callTool({ name: 's__whoami', arguments: {} }));
  assert.ok(pages.length >= 1);
  await client.close();
}

/// The same client when its person declines.
async function declined(url) {
  const client = new NewClient(INFO, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  client.setRequestHandler('elicitation/create', async () => ({ action: 'decline' }));
  await client.connect(new NewTransport(new URL(url), requestInit('declined')));
  await assert.rejects(client.callTool({ name: 's__whoami', arguments: {} }), /did not sign in/);
  await client.close();
}

/// 2025-11-25: the call fails with the page, and a notification says when to repeat it.
async function legacy(url, browser) {
  const client = new OldClient(INFO, { capabilities });
  const complete = new Promise((resolve) => {
    client.setNotificationHandler(ElicitationCompleteNotificationSchema, ({ params }) => resolve(params.elicitationId));
  });
  await client.connect(new OldTransport(new URL(url), requestInit('legacy')));
  const call = () => client.callTool({ name: 's__whoami', arguments: {} });
  const error = await call().then(() => assert.fail('the call needs a sign-in'), (thrown) => thrown);
  assert.equal(error.code, URL_ELICITATION_REQUIRED, String(error));
  const [elicitation] = error.elicitations ?? error.data.elicitations;
  assert.equal(elicitation.mode, 'url');
  await browser.signInAt(elicitation.url);
  assert.equal(await complete, elicitation.elicitationId);
  expectAccount(await call());
  await client.close();
}

try {
  gate.run('server', 'add', 's', '--url', process.argv.at(-1), '--per-grant');
  gate.allowAll();
  const { url, dashboard } = await gate.up();
  const browser = await OwnersBrowser.open(dashboard);
  for (const era of [modern, declined, legacy]) {
    await era(url, browser);
    process.stderr.write(`${era.name}: ok\n`);
  }
} finally {
  await gate.end();
}
