// The proxies of the guide, with the configuration that docs/guide/public.md shows: every client can sign in through
// them, an official client does and calls, streams are not held back, and the dashboard stays inside.
// Usage: TOLLGATE=PROGRAM CERTIFICATES=FOLDER [NGINX=PROGRAM] [CADDY=PROGRAM] node behind-proxies.mjs [nginx] [caddy]
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { createServer } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { OwnersBrowser } from './lib/owner.mjs';
import { ScriptedGate } from './lib/scripted-gate.mjs';
import { Provider } from '../pages/lib/oauth.mjs';

const { CERTIFICATES } = process.env;
const HOST = 'gate.example';
const ORIGIN = `https://${HOST}`;
const REDIRECT = 'http://127.0.0.1:33418/';
const GUIDE = readFileSync(join(import.meta.dirname, '../../../docs/guide/public.md'), 'utf8');
const ca = readFileSync(join(CERTIFICATES, 'ca.pem'));
const file = (name) => join(CERTIFICATES, `${name}.pem`);
/// Larger than what proxies accept by default, and within the bound of the gate.
const LARGE_BYTES = 3 << 20;

/// The block of the guide that begins with this text, with this machine's ports and files.
function fromGuide(start, changes) {
  const block = GUIDE.split('```').find((part) => part.replace(/^\w*\n/, '').startsWith(start));
  assert.ok(block, `the guide has no block that starts with ${start}`);
  let text = block.replace(/^\w*\n/, '');
  for (const [from, to] of changes) {
    assert.ok(text.includes(from), `the guide does not say ${from}`);
    text = text.replace(from, to);
  }
  return text;
}

const PROXIES = {
  nginx(folder, port, gatePort) {
    const server = fromGuide('server {', [
      ['listen 443 ssl', `listen 127.0.0.1:${port} ssl`],
      [`/etc/letsencrypt/live/${HOST}/fullchain.pem`, file('cert')],
      [`/etc/letsencrypt/live/${HOST}/privkey.pem`, file('key')],
      ['127.0.0.1:4180', `127.0.0.1:${gatePort}`],
    ]);
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
    const paths = temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n');
    const config = join(folder, 'nginx.conf');
    writeFileSync(config, `daemon off;\nuser ${userInfo().username};\npid ${folder}/nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${paths}\n${server}}\n`);
    return [process.env.NGINX ?? 'nginx', '-p', folder, '-c', config];
  },
  caddy(folder, port, gatePort) {
    const site = fromGuide(`${HOST} {`, [
      [`${HOST} {`, `${ORIGIN}:${port} {\n    bind 127.0.0.1\n    tls ${file('cert')} ${file('key')}`],
      ['127.0.0.1:4180', `127.0.0.1:${gatePort}`],
    ]);
    const config = join(folder, 'Caddyfile');
    writeFileSync(config, `{\n    admin off\n    auto_https disable_redirects\n    storage file_system ${folder}/storage\n}\n${site}`);
    return [process.env.CADDY ?? 'caddy', 'run', '--adapter', 'caddyfile', '--config', config];
  },
};

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/// `fetch` that finds the public name at a port of this machine, as DNS would.
function fetchThrough(port) {
  return async (input, options = {}) => {
    const request = new Request(input, options);
    const { hostname, pathname, search } = new URL(request.url);
    assert.equal(hostname, HOST);
    const headers = { ...Object.fromEntries(request.headers), host: options.headers?.host ?? HOST };
    const body = request.body ? Buffer.from(await request.arrayBuffer()) : undefined;
    if (body) headers['content-length'] = body.length;
    const where = { host: '127.0.0.1', port, servername: HOST, ca, agent: false, method: request.method };
    const reply = await new Promise((resolve, reject) => {
      const sent = httpsRequest({ ...where, path: pathname + search, headers, signal: options.signal }, resolve);
      sent.on('error', reject).end(body);
    });
    const answered = new Headers();
    for (let i = 0; i < reply.rawHeaders.length; i += 2) answered.append(reply.rawHeaders[i], reply.rawHeaders[i + 1]);
    const hasBody = ![204, 205, 304].includes(reply.statusCode);
    return new Response(hasBody ? Readable.toWeb(reply) : null, { status: reply.statusCode, headers: answered });
  };
}

async function listening(fetch) {
  for (let tries = 0; ; tries += 1) {
    try {
      return await (await fetch(`${ORIGIN}/.well-known/oauth-authorization-server`)).json();
    } catch (error) {
      if (tries === 200) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

async function connect(provider) {
  const transport = new StreamableHTTPClientTransport(new URL(`${ORIGIN}/mcp`), { authProvider: provider });
  const client = new Client({ name: 'tollgate-e2e-proxies', version: '1.0.0' });
  const error = await client.connect(transport).then(() => undefined, (thrown) => thrown);
  return { client, transport, error };
}

/// The whole way of a client, at the public address and nowhere else.
async function signIn(gate) {
  const { link } = JSON.parse(gate.run('open', '--public', '--no-browser', '--json'));
  assert.ok(link.startsWith(`${ORIGIN}/sign-in?`), link);
  const browser = await OwnersBrowser.open(link);
  const provider = new Provider(REDIRECT, 'Behind a proxy');
  const first = await connect(provider);
  assert.ok(provider.authorizeUrl?.startsWith(`${ORIGIN}/authorize?`), first.error?.message);
  const back = new URL(await browser.allow(provider.authorizeUrl, 's'));
  assert.equal(back.searchParams.get('iss'), ORIGIN);
  await first.transport.finishAuth(back.searchParams.get('code'));
  const { client, error } = await connect(provider);
  assert.equal(error, undefined);
  return { browser, client, provider };
}

async function check(name, gate, fetch) {
  const { browser, client, provider } = await signIn(gate);
  assert.ok((await client.listTools()).tools.length > 0);
  const bearer = { authorization: `Bearer ${provider.saved.access_token}` };

  // The dashboard is not there, with the owner's session neither, nor under a name that the gate has inside.
  for (const host of [HOST, `127.0.0.1:${gate.port}`, 'localhost', 'evil.example']) {
    const page = await browser.request(`${ORIGIN}/grants`, { headers: { host } });
    const text = await page.text();
    assert.ok(!/<h1>|tollgate/i.test(text) || page.status === 404 || page.status === 403, `${name} ${host}: ${page.status} ${text}`);
  }
  const guarded = await fetch(`${ORIGIN}/grants`);
  assert.equal(guarded.status, 404);

  // A large message passes, and is judged by the gate.
  const params = { name: 's__echo', arguments: { text: 'x'.repeat(LARGE_BYTES) } };
  const large = await fetch(`${ORIGIN}/mcp`, {
    method: 'POST',
    headers: { ...bearer, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
  });
  assert.notEqual(large.status, 413, `${name} refused ${LARGE_BYTES} bytes`);
  assert.match(await large.text(), /jsonrpc/);

  // A stream brings its first bytes while it is open.
  const ending = new AbortController();
  const session = client.transport.sessionId;
  const stream = await fetch(`${ORIGIN}/mcp`, {
    headers: { ...bearer, accept: 'text/event-stream', 'mcp-session-id': session },
    signal: ending.signal,
  });
  assert.equal(stream.headers.get('content-type'), 'text/event-stream');
  const { value } = await stream.body.getReader().read();
  assert.ok(value.length > 0);
  ending.abort();
  await client.close();
}

async function behind(name, gate) {
  const folder = join(gate.folder, name);
  mkdirSync(folder);
  const port = await freePort();
  const [program, ...words] = PROXIES[name](folder, port, gate.port);
  const child = spawn(program, words, { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, HOME: folder } });
  let said = '';
  child.stderr.on('data', (part) => {
    said += part;
  });
  try {
    globalThis.fetch = fetchThrough(port);
    await listening(globalThis.fetch);
    const env = { ...process.env, SSL_CERT_FILE: file('ca') };
    const at = ['--connect-to', `127.0.0.1:${port}`];
    const walk = spawnSync(process.env.TOLLGATE, ['--home', gate.home, 'doctor', '--public', ...at], { encoding: 'utf8', env });
    process.stderr.write(`${name}:\n${walk.stdout}`);
    assert.equal(walk.status, 0, walk.stdout + walk.stderr);
    await check(name, gate, globalThis.fetch);
  } catch (error) {
    process.stderr.write(said);
    throw error;
  } finally {
    const ended = new Promise((resolve) => child.on('exit', resolve));
    child.kill();
    await ended;
  }
}

const gate = new ScriptedGate();
try {
  gate.run('server', 'add', 's', '--', process.execPath, join(import.meta.dirname, '../servers/dual.mjs'), '--stdio');
  // Streams are quiet for long otherwise.
  writeFileSync(join(gate.home, 'tollgate.toml'), `public_url = "${ORIGIN}"\n[limits]\nkeep_alive_every_ms = 1000\n`, { mode: 0o600 });
  const { url } = await gate.up();
  gate.port = new URL(url).port;
  const wanted = process.argv.slice(2);
  for (const name of wanted.length > 0 ? wanted : Object.keys(PROXIES)) await behind(name, gate);
} finally {
  await gate.end();
}
