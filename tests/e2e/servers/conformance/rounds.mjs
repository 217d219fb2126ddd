// Multi round-trip requests (2026-07-28): tools and a prompt that answer `input_required`, and whose
// state travels through the client under a seal.

import { acceptedContent, createRequestStateCodec, inputRequired, inputResponse } from '@modelcontextprotocol/server';
import { clientCapabilities, progress, sleep, text } from '../lib/catalogue.mjs';

const seal = createRequestStateCodec({ key: 'a fixed key is enough for a fixture, never elsewhere', ttlSeconds: 600 });

/** Goes into the server's options: state that fails its seal is refused before a handler runs. */
export const requestState = { verify: seal.verify };

const askName = ask('What is your name?', 'name', 'string');
const askOk = ask('Please confirm', 'ok', 'boolean');
const sampleCapital = inputRequired.createMessage({
  messages: [{ role: 'user', content: { type: 'text', text: 'What is the capital of France?' } }],
  maxTokens: 100,
});
const listRoots = { method: 'roots/list', params: {} };

export const roundTools = {
  test_input_required_result_elicitation: {
    description: 'Asks for a name, then greets',
    call(_args, ctx) {
      const answer = acceptedContent(ctx.mcpReq.inputResponses, 'user_name');
      if (typeof answer?.name !== 'string') return inputRequired({ inputRequests: { user_name: askName } });
      return text(`Hello, ${answer.name}!`);
    },
  },
  test_input_required_result_sampling: {
    description: 'Asks for a completion, then repeats it',
    call(_args, ctx) {
      const answer = inputResponse(ctx.mcpReq.inputResponses, 'capital_question');
      if (answer.kind !== 'sampling') return inputRequired({ inputRequests: { capital_question: sampleCapital } });
      return text(`Sampled: ${JSON.stringify(answer.result.content)}`);
    },
  },
  test_input_required_result_list_roots: {
    description: 'Asks for the roots, then repeats them',
    call(_args, ctx) {
      const answer = inputResponse(ctx.mcpReq.inputResponses, 'client_roots');
      if (answer.kind !== 'roots') return inputRequired({ inputRequests: { client_roots: listRoots } });
      return text(`Roots: ${answer.roots.map((root) => root.uri).join(', ')}`);
    },
  },
  test_input_required_result_request_state: {
    description: 'Asks for a confirmation and checks its state',
    async call(_args, ctx) {
      if (ctx.mcpReq.requestState()?.step !== 'confirm') return withState({ confirm: askOk }, { step: 'confirm' }, ctx);
      return text('state-ok');
    },
  },
  test_input_required_result_tampered_state: {
    description: 'Asks for a confirmation; a changed state is refused',
    async call(_args, ctx) {
      if (ctx.mcpReq.requestState()?.step !== 'sealed') return withState({ confirm: askOk }, { step: 'sealed' }, ctx);
      return text('state-ok');
    },
  },
  test_input_required_result_multiple_inputs: {
    description: 'Asks for three things at once',
    async call(_args, ctx) {
      const answers = ctx.mcpReq.inputResponses ?? {};
      if (answers.user_name && answers.greeting && answers.client_roots) return text('all inputs received');
      const greeting = inputRequired.createMessage({
        messages: [{ role: 'user', content: { type: 'text', text: 'Generate a greeting' } }],
        maxTokens: 50,
      });
      return withState({ user_name: askName, greeting, client_roots: listRoots }, { step: 'many' }, ctx);
    },
  },
  test_input_required_result_multi_round: {
    description: 'Asks twice, one after the other',
    async call(_args, ctx) {
      const state = ctx.mcpReq.requestState();
      if (state?.step === undefined) {
        return withState({ step1: ask('Step 1: What is your name?', 'name', 'string') }, { step: 1 }, ctx);
      }
      if (state.step === 1) {
        const name = acceptedContent(ctx.mcpReq.inputResponses, 'step1')?.name;
        return withState({ step2: ask('Step 2: What is your favorite color?', 'color', 'string') }, { step: 2, name }, ctx);
      }
      const color = acceptedContent(ctx.mcpReq.inputResponses, 'step2')?.color;
      return text(`${state.name} likes ${color}`);
    },
  },
  test_input_required_result_capabilities: {
    description: 'Asks only for what the client said it can do',
    call(_args, ctx, server) {
      const can = clientCapabilities(ctx, server);
      const inputRequests = {
        ...(can.sampling && { capital_question: sampleCapital }),
        ...(can.elicitation && { user_name: askName }),
      };
      if (ctx.mcpReq.inputResponses || Object.keys(inputRequests).length === 0) return text('nothing to ask');
      return inputRequired({ inputRequests });
    },
  },
  test_streaming_elicitation: {
    description: 'Reports progress on its stream, then asks',
    async call(_args, ctx) {
      const answer = acceptedContent(ctx.mcpReq.inputResponses, 'user_name');
      if (answer) return text(`Hello, ${answer.name}!`);
      await progress(ctx, 1, 2);
      await sleep(20);
      return inputRequired({ inputRequests: { user_name: askName } });
    },
  },
};

export const roundPrompts = {
  test_input_required_result_prompt: {
    description: 'Asks for a context before it answers',
    get(_args, ctx) {
      const answer = acceptedContent(ctx.mcpReq.inputResponses, 'user_context');
      if (!answer) {
        return inputRequired({ inputRequests: { user_context: ask('What context should the prompt use?', 'context', 'string') } });
      }
      return { messages: [{ role: 'user', content: { type: 'text', text: `Use this context: ${answer.context}` } }] };
    },
  },
};

export { askName };

function ask(message, field, type) {
  return inputRequired.elicit({
    message,
    requestedSchema: { type: 'object', properties: { [field]: { type } }, required: [field] },
  });
}

async function withState(inputRequests, payload, ctx) {
  return inputRequired({ inputRequests, requestState: await seal.mint(payload, ctx) });
}
