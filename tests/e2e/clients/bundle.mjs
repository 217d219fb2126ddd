// A Node bundle with a real server inside, packed by the official tool: added to a gate, and an official client calls it.
// Usage: TOLLGATE=PROGRAM node bundle.mjs
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { ScriptedGate } from './lib/scripted-gate.mjs';

const MODULES = join(dirname(fileURLToPath(import.meta.url)), '../node_modules');
const SERVER = '@modelcontextprotocol/server-memory';

/// Copies a package with everything that it needs.
function copy(name, to, done = new Set()) {
  if (done.has(name)) return;
  done.add(name);
  const from = join(MODULES, name);
  if (!existsSync(from)) return;
  cpSync(from, join(to, name), { recursive: true, dereference: true });
  const { dependencies = {} } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'));
  for (const needed of Object.keys(dependencies)) copy(needed, to, done);
}

function pack(folder, file) {
  const source = join(folder, 'bundle');
  mkdirSync(source, { recursive: true });
  copy(SERVER, join(source, 'node_modules'));
  const entry = `node_modules/${SERVER}/dist/index.js`;
  assert.ok(existsSync(join(source, entry)), entry);
  writeFileSync(join(source, 'manifest.json'), JSON.stringify({
    manifest_version: '0.3',
    name: 'memory-bundle',
    version: '1.0.0',
    description: 'Remembers',
    author: { name: 'tollgate' },
    server: {
      type: 'node',
      entry_point: entry,
      mcp_config: { command: 'node', args: [`\${__dirname}/${entry}`], env: { MEMORY_FILE_PATH: '${user_config.file}' } },
    },
    user_config: { file: { type: 'file', title: 'Where it remembers', description: 'A file', required: true } },
  }));
  const packer = join(MODULES, '.bin/mcpb');
  const done = spawnSync(process.execPath, [packer, 'pack', source, file], { encoding: 'utf8' });
  assert.equal(done.status, 0, done.stdout + done.stderr);
}

const folder = mkdtempSync(join(tmpdir(), 'tollgate-bundle-'));
const gate = new ScriptedGate();
try {
  const file = join(folder, 'memory.mcpb');
  pack(folder, file);
  const memory = join(folder, 'memory.jsonl');
  gate.run('server', 'add', file, '--yes', '--set', `file=${memory}`);
  gate.allowAll();
  const options = gate.grant('agent', ['memory-bundle']);
  const { url } = await gate.up();
  const client = new Client({ name: 'tollgate-e2e-bundle', version: '1.0.0' }, { capabilities: {} });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/memory-bundle`), options));
  const entities = [{ name: 'Ada', entityType: 'person', observations: ['counts'] }];
  await client.callTool({ name: 'create_entities', arguments: { entities } });
  const graph = await client.callTool({ name: 'read_graph', arguments: {} });
  assert.match(JSON.stringify(graph), /Ada/);
  await client.close();
  assert.match(readFileSync(memory, 'utf8'), /Ada/, 'the setting reached the server');
  gate.run('server', 'remove', 'memory-bundle');
  assert.ok(!existsSync(join(gate.home, 'bundles/memory-bundle')));
} finally {
  await gate.end();
  rmSync(folder, { recursive: true, force: true });
}
