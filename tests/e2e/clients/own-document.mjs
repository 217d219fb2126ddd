// A gate with a public address behind a proxy with TLS: an issuer that takes client metadata documents fetches the
// gate's own, and the browser returns to the public address.
// Usage: TOLLGATE=PROGRAM CERTIFICATES=FOLDER node own-document.mjs
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, request as httpsRequest } from 'node:https';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { consent } from './lib/owner.mjs';

const { TOLLGATE: PROGRAM, CERTIFICATES } = process.env;
const ORIGIN = 'https://gate.example';
const pem = (name) => readFileSync(join(CERTIFICATES, `${name}.pem`));
const folder = mkdtempSync(join(tmpdir(), 'tollgate-document-'));
const home = join(folder, 'home');

function tollgate(...words) {
  const done = spawnSync(PROGRAM, ['--home', home, ...words], { encoding: 'utf8' });
  if (done.status !== 0) throw new Error(`tollgate ${words.join(' ')}: ${done.stdout}${done.stderr}`);
  return done.stdout;
}

let gatePort;
let proxyPort;

/// Passes requests on with their Host, as the guide's proxies do.
function startProxy() {
  const proxy = createServer({ cert: pem('cert'), key: pem('key') }, (request, response) => {
    const { method, url, headers } = request;
    const onward = httpRequest({ host: '127.0.0.1', port: gatePort, method, path: url, headers }, (reply) => {
      response.writeHead(reply.statusCode, reply.headers);
      reply.pipe(response);
    });
    onward.on('error', () => response.writeHead(502).end());
    request.pipe(onward);
  });
  return new Promise((resolve) => {
    proxy.listen(0, '127.0.0.1', () => {
      proxyPort = proxy.address().port;
      resolve(proxy);
    });
  });
}

/// What a browser does at the public address.
function visit(address) {
  const { hostname, pathname, search } = new URL(address);
  const options = { host: '127.0.0.1', port: proxyPort, path: pathname + search, servername: hostname, ca: pem('ca') };
  return new Promise((resolve, reject) => {
    httpsRequest({ ...options, headers: { host: hostname } }, (reply) => resolve(reply.resume().statusCode))
      .on('error', reject)
      .end();
  });
}

async function signIn() {
  const words = ['--home', home, 'server', 'sign-in', 's', '--no-browser'];
  const child = spawn(PROGRAM, words, { stdio: ['ignore', 'inherit', 'pipe'] });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  for await (const line of createInterface({ input: child.stderr })) {
    process.stderr.write(`${line}\n`);
    if (!/^https?:\/\//.test(line)) continue;
    const asked = new URL(line.trim()).searchParams;
    assert.equal(asked.get('client_id'), `${ORIGIN}/oauth/client.json`);
    assert.equal(asked.get('redirect_uri'), `${ORIGIN}/oauth/callback`);
    // The issuer refuses a document that points inward.
    const inward = new URL(line.trim());
    inward.searchParams.set('client_id', `https://127.0.0.1:${proxyPort}/oauth/client.json`);
    await assert.rejects(consent(inward.href), /answered 400/);
    consent(line.trim()).then(visit).then((status) => assert.equal(status, 200));
  }
  assert.equal(await ended, 0);
}

/// Starts a program whose first line says where it listens.
async function start(program, words, env = {}) {
  const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...env } });
  const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  return { child, url: JSON.parse(value).url };
}

async function stop(child) {
  const ended = new Promise((resolve) => child.on('exit', resolve));
  child.kill();
  await ended;
}

async function run() {
  const proxy = await startProxy();
  const server = await start(
    process.execPath,
    [join(import.meta.dirname, '../servers/oidc-protected.mjs'), '--documents', '--fetch-from', String(proxyPort)],
    { NODE_EXTRA_CA_CERTS: join(CERTIFICATES, 'ca.pem') },
  );
  const gate = await start(PROGRAM, ['--home', home, 'up', '--listen', '127.0.0.1:0', '--json', '--public-url', ORIGIN]);
  gatePort = new URL(gate.url).port;
  try {
    const added = JSON.parse(tollgate('server', 'add', 's', '--url', server.url, '--json'));
    assert.equal(added.sign_in.mode, 'client metadata document');
    await signIn();
    const { logins } = JSON.parse(tollgate('status', '--json'));
    assert.equal(logins[0].state, 'signed_in');
    assert.equal(logins[0].mode, 'client metadata document');
    assert.match(tollgate('server', 'tools', 's'), /whoami/);
  } finally {
    proxy.close();
    proxy.closeAllConnections();
    await stop(server.child);
    await stop(gate.child);
  }
}

try {
  await run();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
