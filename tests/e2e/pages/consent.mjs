// Clients that know only the address of the gate: they sign in through the owner's browser, refresh, and end with
// their grant.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { listen } from './lib/callback.mjs';
import { consent, Provider } from './lib/oauth.mjs';
import { packageFile, Program } from './lib/program.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));

/// A client of the official TypeScript kit. It connects, or tells the provider where to sign in.
async function connect(url, provider) {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  const client = new Client({ name: 'consent-test', version: '1' });
  try {
    await client.connect(transport);
    return { client, transport };
  } catch (error) {
    return { error, transport };
  }
}

async function signIn(windows, url, name, decision = 'Allow') {
  const callback = await listen();
  const provider = new Provider(callback.redirect, name);
  const { error, transport } = await connect(url, provider);
  assert.ok(provider.authorizeUrl, `the client was not told to sign in: ${error?.message}`);
  const page = await windows.open();
  await page.goto(provider.authorizeUrl);
  await consent(page, { name, host: new URL(callback.redirect).host, decision });
  const back = await callback.arrived;
  await windows.close(page);
  callback.close();
  return { provider, transport, back };
}

async function revoke(windows, label) {
  const page = await windows.open();
  await page.goto(`/grants/${label}`);
  await page.getByText('Revoke this grant').click();
  await page.getByRole('button', { name: 'Revoke grant' }).click();
  await page.getByRole('row', { name: new RegExp(`^${label} oauth revoked`) }).waitFor();
  await windows.close(page);
}

/// A loopback redirect with a port that is free now.
async function freeAddress() {
  const callback = await listen();
  callback.close();
  return callback.redirect;
}

/// The id of a client that registered by hand.
async function registered(origin, name, redirect) {
  const response = await fetch(`${origin}/register`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ client_name: name, redirect_uris: [redirect], token_endpoint_auth_method: 'none' }),
  });
  assert.equal(response.status, 201);
  return (await response.json()).client_id;
}

/// The Inspector's command. The test opens the address that it prints, because it finds no browser.
function inspector(node, folder, url, callback) {
  const program = packageFile('@modelcontextprotocol/inspector', 'clients/launcher/build/index.js');
  const target = [url, '--transport', 'http', '--callback-url', callback, '--method', 'tools/list'];
  const env = { HOME: folder, PATH: folder, MCP_AUTO_OPEN_ENABLED: 'true', MCP_INSPECTOR_SECRET_STORE: 'file' };
  return new Program(node, [program, '--cli', ...target], env, /navigate to: (\S+)\s/);
}

/// A stdio client behind mcp-remote, and the address that mcp-remote asks its user to open.
function throughRemote(node, folder, url) {
  const transport = new StdioClientTransport({
    command: node,
    args: [packageFile('mcp-remote', 'dist/proxy.js'), url, '--transport', 'http-only'],
    // No browser of this machine: the test opens the address that the program prints.
    env: { HOME: folder, MCP_REMOTE_CONFIG_DIR: folder, PATH: folder },
    stderr: 'pipe',
  });
  let said = '';
  const address = new Promise((resolve) => {
    transport.stderr.on('data', (part) => {
      said += part;
      const found = said.match(/visiting:\s+(\S+)\s/);
      if (found) resolve(found[1]);
    });
  });
  const client = new Client({ name: 'behind-mcp-remote', version: '1' });
  return { address, client, connected: client.connect(transport, { timeout: 60_000 }), said: () => said };
}

/// Replaces the access token that mcp-remote has stored by one that does not work.
async function endAccess(folder) {
  const files = await readdir(folder, { recursive: true });
  const file = path.join(folder, files.find((name) => name.endsWith('_tokens.json')));
  const tokens = JSON.parse(await readFile(file, 'utf8'));
  await writeFile(file, JSON.stringify({ ...tokens, access_token: 'tg_expired' }));
  return { file, tokens };
}

/// Ends a process that a test started.
async function end(child) {
  if (child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}

export const tests = {
  async 'the official client signs in, refreshes and ends with its grant'({ windows, url }) {
    const { provider, transport, back } = await signIn(windows, url, 'Kit client');
    assert.equal(back.searchParams.get('state'), 'a-state');
    assert.equal(back.searchParams.get('iss'), new URL(url).origin);
    await transport.finishAuth(back.searchParams.get('code'));
    const first = provider.saved;
    const { client } = await connect(url, provider);
    const { tools } = await client.listTools();
    assert.ok(tools.some((tool) => tool.name.endsWith('list_notes')), JSON.stringify(tools));

    // The client takes any 401 as the end of its access token, and refreshes.
    provider.saved = { ...first, access_token: 'tg_expired' };
    await client.listTools();
    assert.notEqual(provider.saved.refresh_token, first.refresh_token);
    assert.notEqual(provider.saved.access_token, first.access_token);

    await revoke(windows, 'kit-client-1');
    await assert.rejects(client.listTools());
    await client.close();
  },

  async 'the owner says no'({ windows, url }) {
    const { back } = await signIn(windows, url, 'Unwanted', 'Deny');
    assert.equal(back.searchParams.get('error'), 'access_denied');
    assert.equal(back.searchParams.get('code'), null);
  },

  async 'a browser that another site sent here consents in its session'({ windows, url }) {
    const callback = await listen();
    const provider = new Provider(callback.redirect, 'From elsewhere');
    await connect(url, provider);
    const page = await windows.open();
    await page.goto(callback.elsewhere(provider.authorizeUrl));
    await page.locator('#to').click();
    await consent(page, { name: 'From elsewhere', host: '127.0.0.1' });
    assert.ok((await callback.arrived).searchParams.get('code'));
    await windows.close(page);
    callback.close();
  },

  async 'a consent link is of no use without a session, and continues after sign-in'({ windows, url }) {
    const callback = await listen();
    const provider = new Provider(callback.redirect, 'Forwarded');
    await connect(url, provider);
    const owner = await windows.open();
    await owner.goto('/people');
    await owner.getByRole('row', { name: /owner/ }).getByRole('button', { name: /link/i }).click();
    const link = await owner.locator('pre code, input[readonly], code').first().innerText();
    await windows.close(owner);

    const stranger = await windows.open({ signedIn: false });
    await stranger.goto(provider.authorizeUrl);
    await stranger.getByRole('heading', { name: 'Sign in to your gate' }).waitFor();
    const shown = await stranger.innerText('main');
    assert.ok(/tollgate --home \S+-demo open/.test(shown) && !shown.includes('Forwarded'), shown);
    const tab = await stranger.context().newPage();
    await tab.goto(link.trim());
    await tab.getByRole('button', { name: 'Sign in' }).click();
    await tab.getByRole('heading', { name: 'Overview' }).waitFor();
    await stranger.getByRole('heading', { name: 'Allow access?' }).waitFor();
    await windows.close(stranger);
    callback.close();
  },

  async 'the Python client signs in, refreshes and ends with its grant'({ windows, url, python }) {
    const callback = await listen();
    const script = path.join(HERE, '../clients/py-oauth.py');
    const child = spawn(python, [script, url, callback.redirect], { stdio: ['pipe', 'pipe', 'inherit'] });
    try {
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      const next = async () => JSON.parse((await lines.next()).value ?? '{"ended":true}');
      const { authorize } = await next();
      const page = await windows.open();
      await page.goto(authorize);
      await consent(page, { name: 'Python client', host: '127.0.0.1' });
      child.stdin.write(`${(await callback.arrived).href}\n`);
      const verdict = await next();
      assert.ok(verdict.tools?.some((tool) => tool.endsWith('list_notes')), JSON.stringify(verdict));
      assert.equal(verdict.refreshed, true, JSON.stringify(verdict));
      await windows.close(page);
      await revoke(windows, 'python-client-1');
      child.stdin.write('revoked\n');
      const again = await next();
      assert.ok(again.authorize, `a revoked client still works: ${JSON.stringify(again)}`);
    } finally {
      callback.close();
      await end(child);
    }
  },

  async 'the conformance suite finds no fault in the authorization server'({ windows, url, node }) {
    const origin = new URL(url).origin;
    const redirect = await freeAddress();
    const client = await registered(origin, 'Conformance suite', redirect);
    const program = packageFile('@modelcontextprotocol/conformance', 'dist/index.js');
    const args = ['authorization', '--url', origin, '--client-id', client, '--resource', url];
    // The suite listens once it says that it waits.
    const pattern = /^(http\S+\/authorize\?\S+)$[\s\S]*Callback server started/m;
    const suite = new Program(node, [program, ...args, '--port', new URL(redirect).port], process.env, pattern);
    try {
      const page = await windows.open();
      await page.goto(await suite.address);
      await consent(page, { name: 'Conformance suite', host: '127.0.0.1' });
      assert.equal(await suite.ended, 0, suite.said);
      await windows.close(page);
    } finally {
      await suite.end();
    }
  },

  async 'the Inspector signs in, refreshes and ends with its grant'({ windows, url, node }) {
    const folder = await mkdtemp(path.join(tmpdir(), 'inspector-'));
    const callback = await freeAddress();
    const first = inspector(node, folder, url, callback);
    const page = await windows.open();
    try {
      await page.goto(await first.address);
      await consent(page, { name: 'Inspector', host: '127.0.0.1' });
      assert.equal(await first.ended, 0, first.said);
      assert.match(first.said, /list_notes/);
    } finally {
      await first.end();
      await windows.close(page);
    }

    // The next process finds its tokens, and that the access token has ended.
    const file = path.join(folder, '.mcp-inspector', 'secrets.json');
    const secrets = await readFile(file, 'utf8');
    await writeFile(file, secrets.replace(/tg_[0-9A-Za-z]{49}/, 'tg_expired'));
    const second = inspector(node, folder, url, callback);
    assert.equal(await second.ended, 0, second.said);
    assert.match(second.said, /list_notes/);
    assert.ok(!second.said.includes('navigate to'), second.said);
    assert.ok(!(await readFile(file, 'utf8')).includes('tg_expired'), 'the client did not refresh');

    await revoke(windows, 'mcp-inspector-1');
    const third = inspector(node, folder, url, callback);
    assert.match(await third.address, /\/authorize\?/, 'a revoked client must ask again');
    await third.end();
    await rm(folder, { recursive: true, force: true });
  },

  async 'mcp-remote signs in for a client that knows only stdio, refreshes and ends with its grant'({ windows, url, node }) {
    const folder = await mkdtemp(path.join(tmpdir(), 'mcp-remote-'));
    const first = throughRemote(node, folder, url);
    const page = await windows.open();
    await page.goto(await first.address);
    await consent(page, { name: 'MCP', host: '127.0.0.1' });
    await first.connected;
    const { tools } = await first.client.listTools();
    assert.ok(tools.some((tool) => tool.name.endsWith('list_notes')), JSON.stringify(tools));
    await first.client.close();
    await windows.close(page);

    // A new process finds its tokens, and that the access token has ended.
    const kept = await endAccess(folder);
    const second = throughRemote(node, folder, url);
    await second.connected;
    assert.ok((await second.client.listTools()).tools.length > 0);
    await second.client.close();
    assert.ok(!second.said().includes('visiting:'), second.said());
    const renewed = JSON.parse(await readFile(kept.file, 'utf8'));
    assert.notEqual(renewed.refresh_token, kept.tokens.refresh_token);

    await revoke(windows, 'mcp-cli-proxy-1');
    const third = throughRemote(node, folder, url);
    third.connected.catch(() => {});
    assert.match(await third.address, /\/authorize\?/, 'a revoked client must ask again');
    await third.client.close();
    await rm(folder, { recursive: true, force: true });
  },
};
