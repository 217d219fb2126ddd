// A server on stdio that puts markup into everything it says: names, descriptions, schemas, results and errors. While
// the file of its first argument exists, it refuses everything with such an error and ends with such a line.
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';

const MARKUP = '</code></td><script>window.isHit = true; alert(1)</script><img src=x onerror="window.isHit = true">';
// A direction character and one without width.
const HIDDEN = `${MARKUP}\u202e\u200b`;
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

const TOOLS = [
  {
    name: `read_${MARKUP}`,
    title: HIDDEN,
    description: `Reads a note. ${HIDDEN}`,
    inputSchema: { type: 'object', properties: { [MARKUP]: { type: 'string', description: HIDDEN, enum: [MARKUP] } } },
  },
  { name: 'fail', description: HIDDEN, inputSchema: { type: 'object', properties: {} } },
];

const isBroken = () => process.argv[2] !== undefined && existsSync(process.argv[2]);

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  if (isBroken()) {
    say({ id, error: { code: -32603, message: HIDDEN, data: HIDDEN } });
    process.stderr.write(`${HIDDEN}\n`, () => process.exit(1));
    return;
  }
  if (method === 'initialize') {
    const serverInfo = { name: HIDDEN, version: HIDDEN };
    say({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo, instructions: HIDDEN } });
  } else if (method === 'tools/list') {
    say({ id, result: { tools: TOOLS } });
  } else {
    say({ id, error: { code: -32603, message: HIDDEN, data: HIDDEN } });
  }
});
