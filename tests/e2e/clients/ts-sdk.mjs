// Drives the TypeScript SDK of the handshake era, which many hosts still ship.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { answers, main } from './lib/runner.mjs';
import { connectAndHear } from './lib/steps.mjs';

class Agent {
  name = 'ts-sdk';
  heard = [];
  logs = [];
  asked = { elicitation: 0 };
  changes = { tools: 0 };

  constructor(plan) {
    if (plan.era !== 'legacy') throw new Error('this SDK knows only the handshake era');
    this.transport = transportOf(plan);
    this.client = new Client(
      { name: 'tollgate-e2e-sdk', version: '1.0.0' },
      { capabilities: { elicitation: {}, sampling: {} } },
    );
    this.client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
      this.asked.elicitation += 1;
      return answers.elicitation(params.requestedSchema.properties);
    });
    this.client.setRequestHandler(CreateMessageRequestSchema, async () => answers.sampling());
    this.client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void this.logs.push(params));
    this.client.setNotificationHandler(ToolListChangedNotificationSchema, () => void (this.changes.tools += 1));
    const setVersion = this.transport.setProtocolVersion?.bind(this.transport);
    this.transport.setProtocolVersion = (version) => {
      this.version = version;
      setVersion?.(version);
    };
  }

  connect = () => connectAndHear(this);
  protocolVersion = () => this.version;
  listTools = async () => (await this.client.listTools()).tools;
  listResources = async () => (await this.client.listResources()).resources;
  listTemplates = async () => (await this.client.listResourceTemplates()).resourceTemplates;
  readResource = (uri) => this.client.readResource({ uri });
  listPrompts = async () => (await this.client.listPrompts()).prompts;
  getPrompt = (name, args) => this.client.getPrompt({ name, arguments: args });
  complete = (ref, argument) => this.client.complete({ ref, argument });
  logFrom = (level) => this.client.setLoggingLevel(level);
  watchTools = async () => {};

  callTool(name, args, { onProgress, signal } = {}) {
    return this.client.callTool({ name, arguments: args }, undefined, { onprogress: onProgress, signal });
  }

  async close() {
    await this.transport.terminateSession?.();
    await this.client.close();
  }
}

function transportOf({ url, headers, command, env, cwd, transport }) {
  if (!url) {
    const [program, ...args] = command;
    return new StdioClientTransport({ command: program, args, env: { ...process.env, ...env }, cwd, stderr: 'inherit' });
  }
  const options = { requestInit: { headers } };
  if (transport === 'sse') return new SSEClientTransport(new URL(url), { ...options, eventSourceInit: {} });
  return new StreamableHTTPClientTransport(new URL(url), options);
}

await main('ts-sdk', (plan) => new Agent(plan));
