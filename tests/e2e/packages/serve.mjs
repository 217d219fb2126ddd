// Starts the command in the arguments as an MCP client would, lists its tools and calls one. Prints what it found.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [command, ...args] = process.argv.slice(2);
const transport = new StdioClientTransport({ command, args, stderr: 'inherit', env: process.env });
const client = new Client({ name: 'tollgate-packages', version: '1.0.0' }, { capabilities: {} });
await client.connect(transport);
const { tools } = await client.listTools();
const { content } = await client.callTool({ name: 'health_check', arguments: {} });
const server = client.getServerVersion();
await client.close();
console.log(JSON.stringify({ server: server.name, tools: tools.map((tool) => tool.name), health: content[0].text }));
