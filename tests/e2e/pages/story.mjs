// The whole way of an owner, in one go: sign in, add a real server, build a policy, create a grant, run a real
// client with it, see a call refused, approve one, find it in the log, return to an older policy. Once with script
// and once without.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { packageFile } from './lib/program.mjs';

const text = (page) => page.getByLabel('Text', { exact: true });

/// Signs in with a new link, as on the first day.
async function signIn(windows, options) {
  const owner = await windows.open();
  await owner.goto('/people');
  await owner.getByRole('row', { name: /^owner/ }).getByRole('button', { name: 'Sign-in link' }).click();
  const link = (await owner.locator('pre code').first().innerText()).trim();
  await windows.close(owner);
  const page = await windows.open({ signedIn: false, ...options });
  await page.goto('/servers');
  assert.match(await page.innerText('main, body'), /tollgate --home \S+-demo open/, 'without a session only the way in is shown');
  await page.goto(link);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  return page;
}

async function addServer(page, name, folder) {
  await page.goto('/servers');
  await page.getByText('A command on this machine').click();
  const form = page.locator('form').filter({ has: page.locator('input[name="command"]') });
  await form.getByLabel('Name', { exact: true }).first().fill(name);
  const program = packageFile('@modelcontextprotocol/server-filesystem', 'dist/index.js');
  await form.getByLabel('Command').fill(`${process.execPath} ${program} ${folder}`);
  await form.getByRole('button', { name: 'Try it' }).click();
  await page.getByRole('heading', { name: `${name} answered` }).waitFor();
  await page.getByRole('button', { name: new RegExp(`^Add ${name}`) }).click();
  await page.getByRole('heading', { name: `Server ${name}` }).waitFor();
}

/// Reading is allowed, writing asks, everything else is denied.
async function buildPolicy(page, name, { hasScript }) {
  await page.goto('/policies');
  await page.getByLabel('Name of the new policy').fill(name);
  await page.locator('select[name="server"]').selectOption(name);
  await page.locator('select[name="start"]').selectOption('empty');
  await page.getByRole('button', { name: 'Open the builder' }).click();
  for (const [tool, state, written] of [['list_directory', 'allow', '"list_directory"'], ['write_file', 'ask', '"require_approval"']]) {
    await page.locator(`input[name="s:tools:${tool}"][value="${state}"]`).check();
    if (hasScript) await page.waitForFunction((words) => document.getElementById('text').value.includes(words), written);
    else await page.getByRole('button', { name: 'Check the text' }).click();
    assert.ok((await text(page).inputValue()).includes(written), await text(page).inputValue());
  }
  await page.getByRole('button', { name: 'Save policy' }).click();
  await page.getByText('version 1', { exact: true }).waitFor();
}

async function createGrant(page, label, server) {
  await page.goto('/grants');
  await page.getByLabel('Label').fill(label);
  await page.getByRole('checkbox', { name: server, exact: true }).check();
  await page.locator(`select[name="policy:${server}"]`).selectOption(server);
  await page.getByRole('button', { name: 'Create grant' }).click();
  await page.getByRole('heading', { name: `Token of ${label}` }).waitFor();
  const shown = await page.innerText('main');
  for (const client of ['Claude Desktop', 'Claude Code', 'Cursor', 'VS Code', 'Codex', 'Gemini']) assert.ok(shown.includes(client), client);
  return (await page.locator('pre code').first().innerText()).trim();
}

async function connect(url, token) {
  const client = new Client({ name: 'story-client', version: '1' });
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return client;
}

const said = (result) => result.content.map((part) => part.text).join(' ');

/// Approves the call on the page of the queue. Without script the page is loaded until the call is there.
async function approve(page, words, { hasScript }) {
  const card = page.locator('article').filter({ hasText: words });
  await page.goto('/approvals');
  if (hasScript) await card.waitFor();
  else while ((await card.count()) === 0) await page.goto('/approvals');
  assert.match(await card.innerText(), /write_file/);
  await card.getByRole('button', { name: 'Approve once' }).click();
}

async function returnToFirstVersion(page, name) {
  await page.goto(`/policies/${name}`);
  const before = await text(page).inputValue();
  const changed = before.replace('"list_directory": {}', '"list_directory": { "action": "deny" }');
  assert.notEqual(changed, before);
  await text(page).fill(changed);
  await page.getByRole('button', { name: 'Save as a new version' }).click();
  await page.locator('.state').filter({ hasText: /^version 2\b/ }).waitFor();
  await page.getByRole('link', { name: '1', exact: true }).click();
  await page.getByRole('button', { name: 'Return to this version' }).click();
  await page.locator('.state').filter({ hasText: /^version 3\b/ }).waitFor();
}

async function tell(world, name, { hasScript }) {
  const { windows, url } = world;
  const folder = await realpath(await mkdtemp(path.join(tmpdir(), 'story-')));
  const page = await signIn(windows, { javaScriptEnabled: hasScript });
  await addServer(page, name, folder);
  await buildPolicy(page, name, { hasScript });
  const token = await createGrant(page, name, name);
  const client = await connect(url.replace(/demo$/, name), token);
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name).sort(), ['list_directory', 'write_file']);
  await client.callTool({ name: 'list_directory', arguments: { path: folder } });
  const refused = await client.callTool({ name: 'move_file', arguments: { source: 'a', destination: 'b' } });
  assert.match(said(refused), /POLICY DENIED/);

  const file = path.join(folder, 'note.txt');
  const call = client.callTool({ name: 'write_file', arguments: { path: file, content: `approved ${name}` } });
  await approve(page, `approved ${name}`, { hasScript });
  assert.ok(!(await call).isError, said(await call));
  assert.equal(await readFile(file, 'utf8'), `approved ${name}`);

  await page.goto(`/audit?grant=${name}&decision=denied`);
  assert.match(await page.innerText('table'), /move_file/);
  await page.goto(`/audit?grant=${name}&tool=write_file`);
  await page.locator('tbody a').first().click();
  await page.getByRole('heading', { name: 'Rules walked' }).waitFor();
  assert.match(await page.innerText('main'), /story-client/);

  await returnToFirstVersion(page, name);
  const again = await client.callTool({ name: 'list_directory', arguments: { path: folder } });
  assert.ok(!again.isError, said(again));
  await client.close();
  await windows.close(page);
  await rm(folder, { recursive: true });
}

export const tests = {
  async 'the whole story of an owner'(world) {
    await tell(world, 'story', { hasScript: true });
  },
  async 'the whole story of an owner without script'(world) {
    await tell(world, 'story-plain', { hasScript: false });
  },
};
