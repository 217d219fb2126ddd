// Tools that talk while they run: log, report progress, close their stream, announce changes, and ask
// the client for something: by a request of their own, or, since 2026-07-28, by a round of the same call.

import { inputRequired, inputResponse, MissingRequiredClientCapabilityError } from '@modelcontextprotocol/server';
import { clientCapabilities, isModern, progress, sleep, text } from '../lib/catalogue.mjs';

const STEP_MS = 50;

/**
 * `askOn` says on which stream the server's own requests travel: `post`, that of the call they belong
 * to, or `get`, the client's standing one (what this SDK does unless told otherwise).
 */
export function interactiveTools(hub, askOn) {
  const route = (ctx) => (askOn === 'get' ? {} : { relatedRequestId: ctx.mcpReq.id });
  return { ...talkingTools, ...askingTools(route), ...streamTools, ...changeTools(hub) };
}

const talkingTools = {
  test_tool_with_logging: {
    description: 'Sends three log messages while it runs',
    async call(_args, ctx) {
      await ctx.mcpReq.log('info', 'Tool execution started');
      await sleep(STEP_MS);
      await ctx.mcpReq.log('info', 'Tool processing data');
      await sleep(STEP_MS);
      await ctx.mcpReq.log('info', 'Tool execution completed');
      return text('Tool with logging executed successfully');
    },
  },
  test_logging_tool: {
    description: 'Sends a log message only when the request asked for a level',
    async call(_args, ctx) {
      await ctx.mcpReq.log('info', 'diagnostic');
      return text('logged if asked');
    },
  },
  test_tool_with_progress: {
    description: 'Reports progress 0, 50, 100',
    async call(_args, ctx) {
      await progress(ctx, 0, 100);
      await sleep(STEP_MS);
      await progress(ctx, 50, 100);
      await sleep(STEP_MS);
      await progress(ctx, 100, 100);
      return text('Tool with progress executed successfully');
    },
  },
};

function askingTools(route) {
  return {
    test_sampling: {
      description: 'Asks the client for a completion',
      inputSchema: { type: 'object', properties: { prompt: { type: 'string' } }, required: ['prompt'] },
      async call({ prompt }, ctx) {
        const messages = [{ role: 'user', content: { type: 'text', text: prompt } }];
        const params = { messages, maxTokens: 100 };
        const said = (answer) => text(`LLM response: ${answer.content.text ?? JSON.stringify(answer.content)}`);
        if (!isModern(ctx)) return said(await ctx.mcpReq.requestSampling(params, route(ctx)));
        const answer = inputResponse(ctx.mcpReq.inputResponses, 'asked');
        if (answer.kind !== 'sampling') return inputRequired({ inputRequests: { asked: inputRequired.createMessage(params) } });
        return said(answer.result);
      },
    },
    test_elicitation: {
      description: 'Asks the user for a name and an address',
      inputSchema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
      async call({ message }, ctx) {
        const requestedSchema = {
          type: 'object',
          properties: {
            username: { type: 'string', description: "User's response" },
            email: { type: 'string', description: "User's email address" },
          },
          required: ['username', 'email'],
        };
        return elicit(ctx, route, { message, requestedSchema }, ({ action, content }) =>
          text(`User response: <action: ${action}, content: ${JSON.stringify(content)}>`),
        );
      },
    },
    test_elicitation_sep1034_defaults: {
      description: 'Asks with a default for every kind of field',
      call: (_args, ctx) =>
        elicitForm(ctx, route, 'Please review and update the form fields with defaults', {
          name: { type: 'string', description: 'User name', default: 'John Doe' },
          age: { type: 'integer', description: 'User age', default: 30 },
          score: { type: 'number', description: 'User score', default: 95.5 },
          status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
          verified: { type: 'boolean', description: 'Verification status', default: true },
        }),
    },
    test_elicitation_sep1330_enums: {
      description: 'Asks with every kind of choice',
      call: (_args, ctx) =>
        elicitForm(ctx, route, 'Please select options from the enum fields', {
          untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
          titledSingle: { type: 'string', oneOf: titled(['First Option', 'Second Option', 'Third Option']) },
          legacyEnum: {
            type: 'string',
            enum: ['opt1', 'opt2', 'opt3'],
            enumNames: ['Option One', 'Option Two', 'Option Three'],
          },
          untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
          titledMulti: { type: 'array', items: { anyOf: titled(['First Choice', 'Second Choice', 'Third Choice']) } },
        }),
    },
    test_missing_capability: {
      description: 'Needs the sampling capability',
      call(_args, ctx, server) {
        if (!clientCapabilities(ctx, server).sampling) {
          throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } });
        }
        return text('the client can sample');
      },
    },
  };
}

const streamTools = {
  test_reconnection: {
    description: 'Closes its stream before it answers; the client comes back for the answer',
    async call(_args, ctx) {
      ctx.http?.closeSSE?.();
      await sleep(2 * STEP_MS);
      return text('Reconnection test completed successfully');
    },
  },
};

function changeTools(hub) {
  return {
    test_trigger_tool_change: {
      description: 'Announces that the list of tools changed',
      call() {
        hub.toolsChanged();
        return text('tools changed');
      },
    },
    test_trigger_prompt_change: {
      description: 'Announces that the list of prompts changed',
      call() {
        hub.promptsChanged();
        return text('prompts changed');
      },
    },
    test_trigger_resource_change: {
      description: 'Announces that the watched resource changed',
      call() {
        hub.resourceUpdated('test://watched-resource');
        return text('resource changed');
      },
    },
  };
}

async function elicit(ctx, route, params, said) {
  if (!isModern(ctx)) return said(await ctx.mcpReq.elicitInput(params, route(ctx)));
  const answer = inputResponse(ctx.mcpReq.inputResponses, 'asked');
  if (answer.kind !== 'elicit') return inputRequired({ inputRequests: { asked: inputRequired.elicit(params) } });
  return said(answer);
}

function elicitForm(ctx, route, message, properties) {
  const requestedSchema = { type: 'object', properties, required: [] };
  return elicit(ctx, route, { message, requestedSchema }, ({ action, content }) =>
    text(`Elicitation completed: action=${action}, content=${JSON.stringify(content)}`),
  );
}

function titled(titles) {
  return titles.map((title, index) => ({ const: `value${index + 1}`, title }));
}
