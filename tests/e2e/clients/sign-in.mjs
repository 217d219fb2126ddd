// The gate as the client of a server that wants OAuth: adds the server, signs in with a scripted browser, and calls
// its first tool. When a call asks for a sign-in or for more scope, it does what the owner is told, a few times.
// Usage: TOLLGATE=PROGRAM node sign-in.mjs SERVER-URL
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { consent } from './lib/owner.mjs';

const PROGRAM = process.env.TOLLGATE;
const SIGN_INS_MAX = 3;
/// The only address that the suite accepts for a client metadata document.
const CLIENT_DOCUMENT = 'https://conformance-test.local/client-metadata.json';

/// Makes the server's access tokens invalid; only some servers have it.
const EXPIRE = process.env.EXPIRE_URL;

const url = process.argv.at(-1);
const known = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const folder = mkdtempSync(join(tmpdir(), 'tollgate-sign-in-'));
const home = join(folder, 'home');

function tollgate(...words) {
  const done = spawnSync(PROGRAM, ['--home', home, ...words], { encoding: 'utf8' });
  process.stderr.write(`tollgate ${words.join(' ')}: ${done.status}\n${done.stdout}${done.stderr}`);
  return done;
}

async function signIn() {
  const words = ['--home', home, 'server', 'sign-in', 's', '--paste', '--client-document', CLIENT_DOCUMENT];
  const env = { ...process.env };
  if (known.client_id) {
    words.push('--client-id', known.client_id);
    if (known.client_secret) words.push('--client-secret-env', 'CLIENT_SECRET');
    env.CLIENT_SECRET = known.client_secret ?? '';
  }
  const child = spawn(PROGRAM, words, { env, stdio: ['pipe', 'inherit', 'pipe'] });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  let at;
  for await (const line of createInterface({ input: child.stderr })) {
    process.stderr.write(`${line}\n`);
    if (/^https?:\/\//.test(line)) at = line.trim();
    if (line.includes('paste the whole address')) child.stdin.end(`${await consent(at)}\n`);
  }
  return await ended;
}

/// One session over stdio: the handshake, the list, and a call of its first tool.
async function call() {
  const child = spawn(PROGRAM, ['--home', home, 'stdio', 's', '--grant', 'test'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let id = 0;
  const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const ask = async (method, params) => {
    id += 1;
    send({ id, method, params });
    for (;;) {
      const { value, done } = await lines.next();
      if (done) return { error: { message: 'the gate ended' } };
      const answer = JSON.parse(value);
      if (answer.id === id) return answer;
    }
  };
  try {
    const clientInfo = { name: 'test', version: '1' };
    const hello = await ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
    if (hello.error) return hello;
    send({ method: 'notifications/initialized' });
    const list = await ask('tools/list', {});
    if (list.error) return list;
    const tool = list.result.tools[0];
    return tool ? await ask('tools/call', { name: tool.name, arguments: {} }) : list;
  } finally {
    child.stdin.end();
    await new Promise((resolve) => child.on('exit', resolve));
  }
}

/// Where the server can be told to forget its access tokens: calls go on, each with a rotated refresh token.
async function survivesExpiry() {
  for (let round = 0; EXPIRE && round < 3; round += 1) {
    await fetch(EXPIRE, { method: 'POST' });
    const answer = await call();
    process.stderr.write(`answered ${JSON.stringify(answer)}\n`);
    if (!answer.result || answer.result.isError) return false;
  }
  return true;
}

async function run() {
  if (tollgate('server', 'add', 's', '--url', url).status !== 0) return 1;
  const policy = join(folder, 'policy.json');
  writeFileSync(policy, JSON.stringify({ version: '1', default: 'allow' }));
  tollgate('policy', 'set', 'all', policy);
  tollgate('grant', 'create', 'test', '--server', 's=all');
  for (let signIns = 0; ; signIns += 1) {
    const answer = await call();
    process.stderr.write(`answered ${JSON.stringify(answer)}\n`);
    const said = `${answer.error?.message ?? ''}${answer.result?.isError ? JSON.stringify(answer.result) : ''}`;
    const mayHelp = said.includes('needs_sign_in') || /needs_more_scope.*the owner can allow/.test(said);
    if (!mayHelp && said) return 1;
    if (!mayHelp) return (await survivesExpiry()) ? 0 : 1;
    if (signIns === SIGN_INS_MAX || (await signIn()) !== 0) return 1;
  }
}

try {
  process.exitCode = await run();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
