// The kit for the handshake era only, written on the old SDK: it has never heard of 2026-07-28, asks
// the client by requests of its own, and keeps sessions.
// `node legacy-only.mjs [--stdio | --http-sse] [--port N]`; `--http-sse` is the 2024-11-05 transport.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { oldKitServer } from './lib/old-kit.mjs';

const { values: options } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    stdio: { type: 'boolean', default: false },
    'http-sse': { type: 'boolean', default: false },
    stateless: { type: 'boolean', default: false },
  },
});

const live = new Set();

function connect(transport) {
  const server = oldKitServer(live);
  live.add(server);
  server.onclose = () => live.delete(server);
  return server.connect(transport);
}

const sessions = new Map();

async function streamable(request, response) {
  const known = sessions.get(request.headers['mcp-session-id']);
  if (known) return known.handleRequest(request, response);
  if (request.headers['mcp-session-id'] !== undefined) {
    response.writeHead(404, { 'content-type': 'application/json' });
    return response.end('{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}');
  }
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: options.stateless ? undefined : randomUUID,
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await connect(transport);
  return transport.handleRequest(request, response);
}

async function httpSse(request, response) {
  if (request.method === 'GET') {
    const transport = new SSEServerTransport('/messages', response);
    sessions.set(transport.sessionId, transport);
    response.on('close', () => sessions.delete(transport.sessionId));
    return connect(transport);
  }
  const id = new URL(request.url, 'http://fixture').searchParams.get('sessionId');
  const transport = sessions.get(id);
  if (!transport) return response.writeHead(404).end();
  return transport.handlePostMessage(request, response);
}

if (options.stdio) {
  await connect(new StdioServerTransport());
} else {
  const server = createServer((request, response) => {
    response.socket?.setNoDelay(true);
    void (options['http-sse'] ? httpSse : streamable)(request, response);
  });
  await new Promise((resolve) => server.listen(Number(options.port), '127.0.0.1', resolve));
  const path = options['http-sse'] ? '/sse' : '/mcp';
  console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}${path}` }));
}
