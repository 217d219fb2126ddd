// Our conformance server: everything the official suite's server scenarios ask for, in both eras on
// one endpoint. `node conformance-server.mjs [--port N] [--era both|legacy|modern] [--stdio]
// [--ask-on post|get]`: the last says on which stream legacy requests to the client travel.

import { complete, plainPrompts, plainResources, plainTools } from './conformance/content.mjs';
import { interactiveTools } from './conformance/interactive.mjs';
import { requestState, roundPrompts, roundTools } from './conformance/rounds.mjs';
import { EXTENSION, offerTasks, taskTools } from './conformance/tasks.mjs';
import { buildServer } from './lib/catalogue.mjs';
import { flags, serve } from './lib/front.mjs';

const options = flags({ 'ask-on': { type: 'string', default: 'post' } });
const info = { name: 'tollgate-conformance-server', version: '1.0.0' };

function makeServer({ era, hub }) {
  const modern = era === 'modern';
  const tools = { ...plainTools, ...interactiveTools(hub, options['ask-on']), ...roundTools, ...(modern && taskTools) };
  const server = buildServer({
    info,
    options: {
      instructions: 'A fixture. It does what the conformance suite expects, and nothing else.',
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        completions: {},
        logging: {},
        ...(modern && { extensions: { [EXTENSION]: {} } }),
      },
      requestState,
    },
    tools: () => tools,
    prompts: { ...plainPrompts, ...roundPrompts },
    resources: plainResources,
    complete,
  });
  if (modern) offerTasks(server);
  else offerSubscriptions(server.server);
  return server;
}

function offerSubscriptions(server) {
  server.setRequestHandler('resources/subscribe', async () => ({}));
  server.setRequestHandler('resources/unsubscribe', async () => ({}));
}

await serve(makeServer, options);
