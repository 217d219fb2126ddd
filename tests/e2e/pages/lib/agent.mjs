// An agent of the demo grant: plain HTTP requests, because a test needs the call that waits and the one that
// is refused, not a client library.
import assert from 'node:assert/strict';

const VERSION = '2026-07-28';

export class Agent {
  constructor(url, token) {
    this.url = url;
    this.token = token;
    this.id = 0;
  }

  async request(method, params, { client = 'pages-test' } = {}) {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': VERSION,
      'io.modelcontextprotocol/clientCapabilities': {},
      'io.modelcontextprotocol/clientInfo': { name: client, version: '1' },
    };
    const headers = {
      Authorization: `Bearer ${this.token}`,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': VERSION,
      'Mcp-Method': method,
    };
    if (params.name) headers['Mcp-Name'] = params.name;
    this.id += 1;
    const body = JSON.stringify({ jsonrpc: '2.0', id: this.id, method, params: { ...params, _meta } });
    const response = await fetch(this.url, { method: 'POST', headers, body });
    const text = await response.text();
    return { status: response.status, text, message: lastMessage(text), at: performance.now() };
  }

  /// Asks for the tools until the gate answers with this status: it reads changed grants within a second.
  async toolsAt(status) {
    const end = performance.now() + 10_000;
    let listed = await this.request('tools/list', {});
    while (listed.status !== status && performance.now() < end) {
      await new Promise((resolve) => { setTimeout(resolve, 50); });
      listed = await this.request('tools/list', {});
    }
    assert.equal(listed.status, status, listed.text);
    return (listed.message.result?.tools ?? []).map((tool) => tool.name);
  }

  call(name, args, options) {
    return this.request('tools/call', { name, arguments: args }, options);
  }
}

function lastMessage(text) {
  const data = text.split('\n').filter((line) => line.startsWith('data: ')).at(-1);
  try {
    return JSON.parse(data ? data.slice('data: '.length) : text);
  } catch {
    return null;
  }
}
