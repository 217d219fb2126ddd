// The kit on the SDK of the handshake era: same names and answers as `kit.mjs`, other plumbing.

import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  CallToolRequestSchema,
  CompleteRequestSchema,
  CreateMessageResultSchema,
  ElicitResultSchema,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListResourcesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { definition } from './catalogue.mjs';
import { completeName, kitPrompts, kitResources, kitTools } from './kit.mjs';

const RESOURCE_NOT_FOUND = -32002;

/** `live` holds every connected server, so that a change is announced to all of them. */
export function oldKitServer(live) {
  const server = new Server(
    { name: 'kit-legacy', version: '1.0.0' },
    {
      instructions: 'A fixture with a few tools.',
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        completions: {},
        logging: {},
      },
    },
  );
  const hub = { toolsChanged: () => live.forEach((each) => each.sendToolListChanged().catch(() => {})) };
  offerTools(server, hub);
  offerTheRest(server);
  return server;
}

function offerTools(server, hub) {
  const tools = () => ({ ...kitTools(hub), ...ownTools });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({
    tools: Object.entries(tools()).map(definition),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const tool = tools()[params.name];
    if (!tool) throw new McpError(-32602, `Tool ${params.name} not found`);
    return tool.call(params.arguments ?? {}, asNewContext(server, extra));
  });
}

/** What the shared tools read from a context, in the words of the newer SDK. */
function asNewContext(server, extra) {
  return {
    extra,
    mcpReq: {
      _meta: extra._meta,
      signal: extra.signal,
      notify: extra.sendNotification,
      log: (level, data, logger) => server.sendLoggingMessage({ level, data, logger }, extra.sessionId),
    },
  };
}

/** The tools that ask: here by a request to the client while the call is open. */
const ownTools = {
  ask_user: {
    description: 'Asks the user for a name, then greets',
    async call(_args, { extra }) {
      const { action, content } = await elicit(extra, 'What is your name?', 'name');
      return words(action === 'accept' ? `Hello, ${content?.name}!` : `No name: ${action}`);
    },
  },
  ask_user_twice: {
    description: 'Asks for a name, then for a colour',
    async call(_args, { extra }) {
      const name = (await elicit(extra, 'What is your name?', 'name')).content?.name;
      const colour = (await elicit(extra, 'Which colour?', 'colour')).content?.colour;
      return words(`${name} likes ${colour}`);
    },
  },
  ask_model: {
    description: 'Asks the client for a completion',
    async call(_args, { extra }) {
      const params = {
        messages: [{ role: 'user', content: { type: 'text', text: 'What is the capital of France?' } }],
        maxTokens: 50,
      };
      const answer = await extra.sendRequest({ method: 'sampling/createMessage', params }, CreateMessageResultSchema);
      return words(`The model said: ${answer.content.text}`);
    },
  },
};

function elicit(extra, message, field) {
  const requestedSchema = { type: 'object', properties: { [field]: { type: 'string' } }, required: [field] };
  return extra.sendRequest({ method: 'elicitation/create', params: { message, requestedSchema } }, ElicitResultSchema);
}

function offerTheRest(server) {
  server.setRequestHandler(ListPromptsRequestSchema, async () => ({
    prompts: Object.entries(kitPrompts).map(([name, prompt]) => ({
      name,
      description: prompt.description,
      arguments: prompt.arguments,
    })),
  }));
  server.setRequestHandler(GetPromptRequestSchema, async ({ params }) => kitPrompts[params.name].get(params.arguments ?? {}));
  server.setRequestHandler(ListResourcesRequestSchema, async () => ({ resources: kitResources.list }));
  server.setRequestHandler(ListResourceTemplatesRequestSchema, async () => ({ resourceTemplates: kitResources.templates }));
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params }) => {
    const contents = kitResources.read(params.uri);
    if (!contents) throw new McpError(RESOURCE_NOT_FOUND, `Resource ${params.uri} not found`, { uri: params.uri });
    return { contents };
  });
  server.setRequestHandler(SubscribeRequestSchema, async () => ({}));
  server.setRequestHandler(UnsubscribeRequestSchema, async () => ({}));
  server.setRequestHandler(CompleteRequestSchema, async ({ params }) => {
    const values = completeName(params.ref, params.argument);
    return { completion: { values, total: values.length, hasMore: false } };
  });
}

function words(text) {
  return { content: [{ type: 'text', text }] };
}
