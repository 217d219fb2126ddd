// Puts one MCP server (a factory of instances) behind HTTP or stdio, for either or both eras of the
// protocol. The fixtures differ only in the factory and in the flags they pass here.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { InMemoryServerEventBus, WebStandardStreamableHTTPServerTransport, createMcpHandler, isLegacyRequest } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { EventLog } from './event-log.mjs';

const REQUEST_BYTES_MAX = 64 * 1024 * 1024;
const SSE_RETRY_MS = 200;

/**
 * Flags every fixture understands; `extra` adds more of its own. `--responses` is `auto`, `sse` or
 * `json`: how modern answers (and legacy ones, for `json`) are framed.
 */
export function flags(extra = {}) {
  return parseArgs({
    options: {
      port: { type: 'string', default: '0' },
      host: { type: 'string', default: '127.0.0.1' },
      path: { type: 'string', default: '/mcp' },
      era: { type: 'string', default: 'both' },
      stdio: { type: 'boolean', default: false },
      responses: { type: 'string', default: 'auto' },
      ...extra,
    },
  }).values;
}

/**
 * Serves until the process is told to stop. `makeServer({ era, hub })` returns a fresh `McpServer`;
 * `hub` announces changes to everybody who listens, whatever the era.
 * Over HTTP the first line on stdout is `{"url": …}`, so that a parent can wait for it.
 */
export async function serve(makeServer, options) {
  const hub = new Hub();
  const build = ({ era }) => makeServer({ era, hub });
  if (options.stdio) return overStdio(build, options, hub);
  return overHttp(build, options, hub);
}

/** Announces list changes to long-lived legacy sessions and to modern listen streams. */
class Hub {
  #live = new Set();
  #modern = undefined;

  attach(server) {
    this.#live.add(server);
    return () => this.#live.delete(server);
  }

  attachModern(notifier) {
    this.#modern = notifier;
  }

  toolsChanged() {
    this.#modern?.toolsChanged();
    for (const server of this.#live) server.sendToolListChanged();
  }

  promptsChanged() {
    this.#modern?.promptsChanged();
    for (const server of this.#live) server.sendPromptListChanged();
  }

  resourcesChanged() {
    this.#modern?.resourcesChanged();
    for (const server of this.#live) server.sendResourceListChanged();
  }

  resourceUpdated(uri) {
    this.#modern?.resourceUpdated(uri);
    for (const server of this.#live) server.server.sendResourceUpdated({ uri }).catch(() => {});
  }
}

async function overStdio(build, options, hub) {
  const attached = (context) => {
    const server = build(context);
    const detach = hub.attach(server);
    server.server.onclose = detach;
    return server;
  };
  if (options.era === 'legacy') {
    await attached({ era: 'legacy' }).connect(new StdioServerTransport());
    return;
  }
  serveStdio(attached, {
    legacy: options.era === 'modern' ? 'reject' : 'serve',
    onerror: (error) => console.error(`fixture: ${error.message}`),
  });
}

async function overHttp(build, options, hub) {
  const modern = modernRequests(build, options, hub);
  const legacy = legacySessions(build, options, hub);

  const fetch = async (request, extra) => {
    if (options.era === 'modern') return modern(request, extra);
    if (options.era === 'legacy') return legacy(request, extra);
    const isLegacy = await isLegacyRequest(request, undefined, { maxRequestBodySize: REQUEST_BYTES_MAX });
    return isLegacy ? legacy(request, extra) : modern(request, extra);
  };
  const answer = toNodeHandler({ fetch }, { maxRequestBodySize: REQUEST_BYTES_MAX });
  const hostAllowed = localhostHostValidation();
  const originAllowed = localhostOriginValidation();

  const server = createServer((request, response) => {
    response.socket?.setNoDelay(true);
    if (!hostAllowed(request, response) || !originAllowed(request, response)) return;
    if (new URL(request.url, 'http://fixture').pathname !== options.path) {
      response.writeHead(404).end();
      return;
    }
    void answer(request, response);
  });
  server.requestTimeout = 0;
  server.keepAliveTimeout = 60_000;
  await new Promise((resolve) => server.listen(Number(options.port), options.host, resolve));
  const url = `http://${options.host}:${server.address().port}${options.path}`;
  console.log(JSON.stringify({ url }));
}

/** One server per request. A client that names `text/event-stream` first gets a stream. */
function modernRequests(build, options, hub) {
  const bus = new InMemoryServerEventBus();
  const handler = (responseMode) =>
    createMcpHandler(build, { legacy: 'reject', bus, responseMode, maxRequestBodySize: REQUEST_BYTES_MAX });
  const usual = handler(options.responses);
  const streamed = options.responses === 'auto' ? handler('sse') : usual;
  hub.attachModern(usual.notify);
  return (request, extra) => {
    const wantsStream = request.headers.get('accept')?.startsWith('text/event-stream');
    return (wantsStream ? streamed : usual).fetch(request, extra);
  };
}

/** Handshake, `Mcp-Session-Id`, GET stream, DELETE: one transport and one server per session. */
function legacySessions(build, options, hub) {
  const sessions = new Map();
  return async (request, extra) => {
    const id = request.headers.get('mcp-session-id');
    if (id !== null) {
      const known = sessions.get(id);
      return known ? known.handleRequest(request, extra) : rpcError(404, -32001, 'Session not found');
    }
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: options.responses === 'json',
      eventStore: new EventLog(),
      retryInterval: SSE_RETRY_MS,
      maxRequestBodySize: REQUEST_BYTES_MAX,
      onsessioninitialized: (sessionId) => void sessions.set(sessionId, transport),
      onsessionclosed: (sessionId) => void sessions.delete(sessionId),
    });
    const server = build({ era: 'legacy' });
    await server.connect(transport);
    server.server.onclose = hub.attach(server);
    return transport.handleRequest(request, extra);
  };
}

function rpcError(status, code, message) {
  return Response.json({ jsonrpc: '2.0', error: { code, message }, id: null }, { status });
}
