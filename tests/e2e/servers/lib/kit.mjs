// One small set of tools, resources and prompts that every client script knows how to exercise. The
// tools that ask for something return `input_required`; in the handshake era the SDK turns that into
// requests to the client, so the same table serves both eras.

import { acceptedContent, inputRequired, inputResponse } from '@modelcontextprotocol/server';
import { progress, sleep, text } from './catalogue.mjs';

const COUNT_STEP_MS = 10;
const LINGER_POLL_MS = 20;

/** Facts that outlive one server instance, because the modern era makes one per request. */
export const world = { cancelled: [], grown: 0, deletions: 0 };

export function kitTools(hub) {
  return {
    ...quickTools,
    ...longTools,
    ...askingTools,
    grow: {
      description: 'Adds a tool and announces it',
      call() {
        world.grown += 1;
        hub.toolsChanged();
        return text(`grown to ${world.grown}`);
      },
    },
    ...Object.fromEntries(Array.from({ length: world.grown }, (_, index) => [`extra_${index + 1}`, extraTool])),
  };
}

const extraTool = { description: 'Appeared while the server was running', call: () => text('extra') };

const quickTools = {
  echo: {
    description: 'Answers what it was given',
    annotations: { readOnlyHint: true },
    inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    call: ({ text: words }) => text(words),
  },
  delete_everything: {
    description: 'The tool that policies deny',
    annotations: { destructiveHint: true },
    call() {
      world.deletions += 1;
      return text(`deleted everything, ${world.deletions} times so far`);
    },
  },
  add: {
    description: 'Adds two numbers, with a structured answer',
    inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
    outputSchema: { type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'] },
    call: ({ a, b }) => ({ ...text(JSON.stringify({ sum: a + b })), structuredContent: { sum: a + b } }),
  },
};

const longTools = {
  count: {
    description: 'Reports progress for every step up to `to`',
    inputSchema: { type: 'object', properties: { to: { type: 'integer' }, step_ms: { type: 'integer' } }, required: ['to'] },
    async call({ to, step_ms: stepMs = COUNT_STEP_MS }, ctx) {
      for (let at = 1; at <= to; at += 1) {
        await progress(ctx, at, to, `step ${at}`);
        if (stepMs > 0) await sleep(stepMs);
      }
      return text(`counted to ${to}`);
    },
  },
  linger: {
    description: 'Runs for `ms` unless it is cancelled, and remembers when it was',
    inputSchema: { type: 'object', properties: { key: { type: 'string' }, ms: { type: 'integer' } }, required: ['key', 'ms'] },
    async call({ key, ms }, ctx) {
      const end = Date.now() + ms;
      while (Date.now() < end) {
        if (ctx.mcpReq.signal.aborted) {
          world.cancelled.push(key);
          return text('cancelled');
        }
        await sleep(LINGER_POLL_MS);
      }
      return text(`lingered ${ms} ms`);
    },
  },
  cancelled: {
    description: 'Lists the keys of lingering calls that were cancelled',
    call: () => text(JSON.stringify(world.cancelled)),
  },
  log: {
    description: 'Logs a line at each of three levels',
    async call(_args, ctx) {
      for (const level of ['debug', 'info', 'error']) await ctx.mcpReq.log(level, `a line at ${level}`, 'kit');
      return text('logged');
    },
  },
};

const askingTools = {
  ask_user: {
    description: 'Asks the user for a name, then greets',
    call(_args, ctx) {
      const answer = inputResponse(ctx.mcpReq.inputResponses, 'name');
      if (answer.kind !== 'elicit') return inputRequired({ inputRequests: { name: askFor('What is your name?', 'name') } });
      return text(answer.action === 'accept' ? `Hello, ${answer.content?.name}!` : `No name: ${answer.action}`);
    },
  },
  ask_user_twice: {
    description: 'Asks for a name, then for a colour',
    call(_args, ctx) {
      const state = ctx.mcpReq.requestState();
      if (state === undefined) {
        return inputRequired({ inputRequests: { name: askFor('What is your name?', 'name') }, requestState: 'round:' });
      }
      if (state === 'round:') {
        const name = acceptedContent(ctx.mcpReq.inputResponses, 'name')?.name;
        return inputRequired({ inputRequests: { colour: askFor('Which colour?', 'colour') }, requestState: `round:${name}` });
      }
      return text(`${state.slice('round:'.length)} likes ${acceptedContent(ctx.mcpReq.inputResponses, 'colour')?.colour}`);
    },
  },
  ask_model: {
    description: 'Asks the client for a completion',
    call(_args, ctx) {
      const answer = inputResponse(ctx.mcpReq.inputResponses, 'capital');
      if (answer.kind === 'sampling') return text(`The model said: ${answer.result.content.text}`);
      const capital = inputRequired.createMessage({
        messages: [{ role: 'user', content: { type: 'text', text: 'What is the capital of France?' } }],
        maxTokens: 50,
      });
      return inputRequired({ inputRequests: { capital } });
    },
  },
};

/** Tools with mirrored headers, modern era only: one parameter of each type a header can carry. */
export const mirroredTools = {
  look_up: {
    description: 'Takes parameters that are mirrored in headers',
    inputSchema: {
      type: 'object',
      properties: {
        region: { type: 'string', 'x-mcp-header': 'Region' },
        level: { type: 'integer', 'x-mcp-header': 'Level' },
        fresh: { type: 'boolean', 'x-mcp-header': 'Fresh' },
        note: { type: 'string' },
      },
      required: ['region'],
    },
    call: (args) => text(JSON.stringify(args)),
  },
};

export const kitPrompts = {
  greeting: {
    description: 'A greeting for a person',
    arguments: [{ name: 'name', description: 'Whom to greet', required: true }],
    get: ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}.` } }] }),
  },
};

export const kitResources = {
  list: [{ uri: 'kit://note', name: 'note', description: 'A note', mimeType: 'text/plain' }],
  templates: [{ uriTemplate: 'kit://item/{id}', name: 'item', description: 'An item by its number', mimeType: 'application/json' }],
  read(uri) {
    if (uri === 'kit://note') return [{ uri, mimeType: 'text/plain', text: 'remember the milk' }];
    const id = /^kit:\/\/item\/([^/]+)$/.exec(uri)?.[1];
    return id === undefined ? undefined : [{ uri, mimeType: 'application/json', text: JSON.stringify({ id }) }];
  },
};

export const NAMES = ['ada', 'adele', 'alan', 'grace'];

export function completeName(_ref, argument) {
  return NAMES.filter((name) => name.startsWith(argument.value));
}

function askFor(message, field) {
  return inputRequired.elicit({
    message,
    requestedSchema: { type: 'object', properties: { [field]: { type: 'string' } }, required: [field] },
  });
}
