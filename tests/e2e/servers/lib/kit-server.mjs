// Makes the kit into a server. Shared by the fixtures that offer it to one era or to both.

import { buildServer } from './catalogue.mjs';
import { completeName, kitPrompts, kitResources, kitTools, mirroredTools } from './kit.mjs';

export function kitServer(name) {
  return ({ era, hub }) => {
    const server = buildServer({
      info: { name, version: '1.0.0' },
      options: {
        instructions: 'A fixture with a few tools.',
        capabilities: {
          tools: { listChanged: true },
          prompts: { listChanged: true },
          resources: { listChanged: true, subscribe: true },
          completions: {},
          logging: {},
        },
      },
      tools: () => ({ ...kitTools(hub), ...(era === 'modern' && mirroredTools) }),
      prompts: kitPrompts,
      resources: kitResources,
      complete: completeName,
    });
    if (era === 'legacy') {
      server.server.setRequestHandler('resources/subscribe', async () => ({}));
      server.server.setRequestHandler('resources/unsubscribe', async () => ({}));
    }
    return server;
  };
}
