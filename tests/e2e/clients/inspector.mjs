// Drives the Inspector's command line: one process per request, as a person would use it. It shows
// that a client which reconnects for every call is served well.

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { main } from './lib/runner.mjs';

const require = createRequire(import.meta.url);
const PACKAGE = dirname(require.resolve('@modelcontextprotocol/inspector/package.json'));
const CLI = join(PACKAGE, 'clients/launcher/build/index.js');
const CALL_MS_MAX = 60_000;
/** What one process per request cannot show, or shows too slowly. */
const OUT_OF_REACH = [
  'call_structured', 'call_large', 'call_unknown', 'calls_in_parallel', 'completion', 'progress', 'elicitation',
  'sampling', 'mirrored_headers', 'cancellation', 'logging', 'list_changed',
];

class Agent {
  name = 'inspector';
  /** Its command line prints an error's words, not its number. */
  hidesCodes = true;

  constructor(plan) {
    plan.skip = [...plan.skip, ...OUT_OF_REACH];
    this.plan = plan;
    this.home = mkdtempSync(join(tmpdir(), 'inspector-'));
    this.target = this.#target();
  }

  #target() {
    const { url, headers = {}, command, env, cwd, transport } = this.plan;
    if (url) {
      const given = Object.entries(headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`]);
      return [url, '--transport', transport ?? 'http', ...given];
    }
    const [program, ...args] = command;
    const config = join(this.home, 'servers.json');
    writeFileSync(config, JSON.stringify({ mcpServers: { kit: { command: program, args, env, cwd } } }));
    return ['--config', config, '--server', 'kit'];
  }

  #ask(method, ...rest) {
    const args = [CLI, '--cli', ...this.target, '--protocol-era', this.plan.era, '--method', method, ...rest, '--format', 'json', '--quiet'];
    const options = { env: { ...process.env, HOME: this.home }, timeout: CALL_MS_MAX, maxBuffer: 64 * 1024 * 1024 };
    return new Promise((resolve, reject) => {
      execFile(process.execPath, args, options, (error, stdout, stderr) => {
        const answer = [stdout, stderr].map(lastJson).find(Boolean);
        if (answer?.result) return resolve(answer.result);
        const refusal = new Error(answer?.error?.message ?? `${error?.message} ${stderr}`.slice(0, 600));
        refusal.code = Number(/-32\d{3}/.exec(`${refusal.message} ${stderr}`)?.[0]) || answer?.error?.code;
        return reject(refusal);
      });
    });
  }

  connect = async () => {};
  protocolVersion = () => undefined;
  listTools = async () => (await this.#ask('tools/list')).tools;
  listResources = async () => (await this.#ask('resources/list')).resources;
  listTemplates = async () => (await this.#ask('resources/templates/list')).resourceTemplates;
  readResource = (uri) => this.#ask('resources/read', '--uri', uri);
  listPrompts = async () => (await this.#ask('prompts/list')).prompts;
  callTool = (name, args) => this.#ask('tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args));
  close = async () => rmSync(this.home, { recursive: true, force: true });

  getPrompt(name, args) {
    const given = Object.entries(args).flatMap(([key, value]) => ['--prompt-args', `${key}=${value}`]);
    return this.#ask('prompts/get', '--prompt-name', name, ...given);
  }
}

function lastJson(text) {
  const line = text.trim().split('\n').findLast((each) => each.startsWith('{'));
  try {
    return line && JSON.parse(line);
  } catch {
    return undefined;
  }
}

await main('inspector', (plan) => new Agent(plan));
