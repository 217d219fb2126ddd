// Drives the current TypeScript client. `legacy` is what it does by default, `auto` probes for
// 2026-07-28 first, `modern` is pinned to it.

import { Client, LOG_LEVEL_META_KEY, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { answers, main } from './lib/runner.mjs';
import { connectAndHear } from './lib/steps.mjs';

const modes = { legacy: 'legacy', auto: 'auto', modern: { pin: '2026-07-28' } };

class Agent {
  name = 'ts-client';
  heard = [];
  logs = [];
  asked = { elicitation: 0 };
  changes = { tools: 0 };

  constructor(plan) {
    this.transport = transportOf(plan);
    this.client = new Client(
      { name: 'tollgate-e2e-ts', version: '1.0.0' },
      { capabilities: { elicitation: {}, sampling: {} }, versionNegotiation: { mode: modes[plan.era] } },
    );
    this.client.setRequestHandler('elicitation/create', async ({ params }) => {
      this.asked.elicitation += 1;
      return answers.elicitation(params.requestedSchema.properties);
    });
    this.client.setRequestHandler('sampling/createMessage', async () => answers.sampling());
    this.client.setNotificationHandler('notifications/message', ({ params }) => void this.logs.push(params));
    this.client.setNotificationHandler('notifications/tools/list_changed', () => void (this.changes.tools += 1));
  }

  connect = () => connectAndHear(this);
  protocolVersion = () => this.client.getNegotiatedProtocolVersion();
  isModern = () => this.protocolVersion() >= '2026-07-28';
  listTools = async () => (await this.client.listTools()).tools;
  listResources = async () => (await this.client.listResources()).resources;
  listTemplates = async () => (await this.client.listResourceTemplates()).resourceTemplates;
  readResource = (uri) => this.client.readResource({ uri });
  listPrompts = async () => (await this.client.listPrompts()).prompts;
  getPrompt = (name, args) => this.client.getPrompt({ name, arguments: args });
  complete = (ref, argument) => this.client.complete({ ref, argument });

  callTool(name, args, { onProgress, signal, logLevel } = {}) {
    const meta = logLevel && this.isModern() ? { _meta: { [LOG_LEVEL_META_KEY]: logLevel } } : {};
    return this.client.callTool({ name, arguments: args, ...meta }, { onprogress: onProgress, signal });
  }

  async logFrom(level) {
    if (!this.isModern()) await this.client.setLoggingLevel(level);
  }

  async watchTools() {
    if (this.isModern()) this.subscription = await this.client.listen({ toolsListChanged: true });
  }

  async close() {
    await this.subscription?.close();
    if (!this.isModern()) await this.transport.terminateSession?.();
    await this.client.close();
  }
}

function transportOf({ url, headers, command, env, cwd, transport }) {
  if (!url) {
    const [program, ...args] = command;
    return new StdioClientTransport({ command: program, args, env: { ...process.env, ...env }, cwd, stderr: 'inherit' });
  }
  const options = { requestInit: { headers } };
  if (transport === 'sse') return new SSEClientTransport(new URL(url), options);
  return new StreamableHTTPClientTransport(new URL(url), options);
}

await main('ts-client', (plan) => new Agent(plan));
