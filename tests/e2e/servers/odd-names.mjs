// A server whose tools have names that clients reject, and one that another such server has, too. Every tool answers
// with the name it was called by. `node odd-names.mjs NAME`
import { createInterface } from 'node:readline';

const NAME = process.argv[2];
const ODD = ['files.read', 'two words', 'größe', 'a/b', 'get__it', 'x'.repeat(90), `${'x'.repeat(89)}y`, '-', 'same'];

const tools = [...ODD, `only_${NAME}`].map((name) => ({ name, description: `${name} of ${NAME}`, inputSchema: { type: 'object' } }));

function result(method, params) {
  if (method === 'initialize') {
    return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: NAME, version: '1' } };
  }
  if (method === 'tools/list') return { tools };
  if (method === 'tools/call' && tools.some(({ name }) => name === params.name)) {
    return { content: [{ type: 'text', text: `${NAME}: ${params.name}` }] };
  }
  return undefined;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = result(method, params);
  const error = { code: -32601, message: 'unknown' };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(answer ? { result: answer } : { error }) }));
}
