// A server that misbehaves on request, written without any SDK so that it can send what none would.
// `node hostile.mjs [--stdio] [--port N] [--mode MODE]`, or `HOSTILE_MODE`; the tool `control`
// (`{"mode": …}`), or over HTTP `POST /control`, changes the mode while it runs. Modes: see
// `hostile/modes.mjs`; the mode applies to `tools/call` of `act` and, where it says so, to lists.

import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { answer, state } from './hostile/answers.mjs';
import { httpModes, stdioModes } from './hostile/modes.mjs';

const { values: options } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    stdio: { type: 'boolean', default: false },
    mode: { type: 'string', default: process.env.HOSTILE_MODE ?? 'ok' },
    bytes: { type: 'string', default: String(200 * 1024 * 1024) },
  },
});
state.mode = options.mode;
state.bytes = Number(options.bytes);

if (options.stdio) overStdio();
else overHttp();

function overStdio() {
  const send = (text) => process.stdout.write(text);
  state.notify = (message) => send(`${JSON.stringify(message)}\n`);
  createInterface({ input: process.stdin }).on('line', (line) => {
    const request = JSON.parse(line);
    const misbehave = isAct(request) ? stdioModes[state.mode] : undefined;
    if (misbehave) return void misbehave(request, send);
    const reply = answer(request);
    if (reply) send(`${JSON.stringify(reply)}\n`);
  });
}

function overHttp() {
  const streams = new Set();
  state.notify = (message) => streams.forEach((stream) => stream.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`));
  const server = createServer(async (request, response) => {
    response.socket?.setNoDelay(true);
    if (request.method === 'GET') return openStream(streams, response);
    if (request.method === 'DELETE') return response.writeHead(200).end();
    const message = JSON.parse(await bodyOf(request));
    if (request.url === '/control') {
      Object.assign(state, message);
      return json(response, { mode: state.mode });
    }
    const misbehave = isAct(message) ? httpModes[state.mode] : undefined;
    if (misbehave) return misbehave(message, response);
    const reply = answer(message);
    return reply ? json(response, reply) : response.writeHead(202).end();
  });
  server.listen(Number(options.port), '127.0.0.1', () => {
    const base = `http://127.0.0.1:${server.address().port}`;
    console.log(JSON.stringify({ url: `${base}/mcp`, control: `${base}/control` }));
  });
}

function isAct(message) {
  return message.method === 'tools/call' && message.params?.name === 'act';
}

function openStream(streams, response) {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  response.write(': open\n\n');
  streams.add(response);
  response.on('close', () => streams.delete(response));
}

async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

function json(response, value) {
  response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 'hostile-session' });
  response.end(JSON.stringify(value));
}
