// A server on stdio that puts markup into everything it says: names, descriptions, schemas, results and errors. While
// the file of its first argument exists, it refuses everything with such an error and ends with such a line.
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';

const MARKUP = '</code></td><script>window.isHit = true; alert(1)</script><img src=x onerror="window.isHit = true">';
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

const TOOLS = [
  {
    name: `read_${MARKUP}`,
    title: MARKUP,
    description: `Reads a note. ${MARKUP}`,
    inputSchema: { type: 'object', properties: { [MARKUP]: { type: 'string', description: MARKUP, enum: [MARKUP] } } },
  },
  { name: 'fail', description: MARKUP, inputSchema: { type: 'object', properties: {} } },
];

const isBroken = () => process.argv[2] !== undefined && existsSync(process.argv[2]);

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  if (isBroken()) {
    say({ id, error: { code: -32603, message: MARKUP, data: MARKUP } });
    process.stderr.write(`${MARKUP}\n`, () => process.exit(1));
    return;
  }
  if (method === 'initialize') {
    const serverInfo = { name: MARKUP, version: MARKUP };
    say({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo, instructions: MARKUP } });
  } else if (method === 'tools/list') {
    say({ id, result: { tools: TOOLS } });
  } else {
    say({ id, error: { code: -32603, message: MARKUP, data: MARKUP } });
  }
});
