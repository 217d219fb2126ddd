// Builds an `McpServer` from tables of tools, prompts and resources. The SDK's own tool handler
// turns every thrown protocol error into a tool error; here a thrown protocol error stays one.

import { McpServer, ProtocolError, ProtocolErrorCode, ResourceNotFoundError, fromJsonSchema } from '@modelcontextprotocol/server';

const NO_ARGUMENTS = { type: 'object', properties: {} };

/**
 * `tools()`: name → { description, inputSchema?, outputSchema?, annotations?, call(args, ctx, server) };
 * a function, because the list may grow while a session lives.
 * `prompts`: name → { description, arguments?, get(args, ctx) }.
 * `resources`: { list, templates, read(uri) }. `complete(ref, argument)` returns values.
 */
export function buildServer({ info, options, tools, prompts, resources, complete }) {
  const server = new McpServer(info, options);
  offerTools(server, tools);
  if (prompts) offerPrompts(server.server, prompts);
  if (resources) offerResources(server.server, resources);
  if (complete) {
    server.server.setRequestHandler('completion/complete', async ({ params }) => {
      const values = complete(params.ref, params.argument);
      return { completion: { values, total: values.length, hasMore: false } };
    });
  }
  return server;
}

export function text(words) {
  return { content: [{ type: 'text', text: words }] };
}

export function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export function isModern(ctx) {
  return ctx.mcpReq.envelope !== undefined;
}

export function clientCapabilities(ctx, server) {
  const declared = ctx.mcpReq.envelope?.['io.modelcontextprotocol/clientCapabilities'];
  return declared ?? server?.server.getClientCapabilities() ?? {};
}

/** Sends a progress notification when the request asked for them. */
export async function progress(ctx, done, total, message) {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return;
  const params = { progressToken, progress: done, total, ...(message && { message }) };
  await ctx.mcpReq.notify({ method: 'notifications/progress', params });
}

function offerTools(server, tools) {
  // Registered only so that the SDK's HTTP entry knows the schemas and checks `Mcp-Param-*` headers.
  for (const [name, tool] of Object.entries(tools())) {
    server.registerTool(name, { inputSchema: fromJsonSchema(tool.inputSchema ?? NO_ARGUMENTS) }, () => ({ content: [] }));
  }
  server.server.setRequestHandler('tools/list', async () => ({ tools: Object.entries(tools()).map(definition) }));
  server.server.setRequestHandler('tools/call', async ({ params }, ctx) => {
    const table = tools();
    const tool = Object.hasOwn(table, params.name) ? table[params.name] : undefined;
    if (!tool) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Tool ${params.name} not found`);
    return tool.call(params.arguments ?? {}, ctx, server);
  });
}

/** A tool as `tools/list` shows it. */
export function definition([name, tool]) {
  return {
    name,
    description: tool.description,
    inputSchema: tool.inputSchema ?? NO_ARGUMENTS,
    ...(tool.outputSchema && { outputSchema: tool.outputSchema }),
    ...(tool.annotations && { annotations: tool.annotations }),
  };
}

function offerPrompts(server, prompts) {
  server.setRequestHandler('prompts/list', async () => ({
    prompts: Object.entries(prompts).map(([name, prompt]) => ({
      name,
      description: prompt.description,
      ...(prompt.arguments && { arguments: prompt.arguments }),
    })),
  }));
  server.setRequestHandler('prompts/get', async ({ params }, ctx) => {
    const prompt = Object.hasOwn(prompts, params.name) ? prompts[params.name] : undefined;
    if (!prompt) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Prompt ${params.name} not found`);
    return prompt.get(params.arguments ?? {}, ctx);
  });
}

function offerResources(server, resources) {
  server.setRequestHandler('resources/list', async () => ({ resources: resources.list }));
  server.setRequestHandler('resources/templates/list', async () => ({ resourceTemplates: resources.templates ?? [] }));
  server.setRequestHandler('resources/read', async ({ params }) => {
    const contents = resources.read(params.uri);
    if (contents === undefined) throw new ResourceNotFoundError(params.uri);
    return { contents };
  });
}
