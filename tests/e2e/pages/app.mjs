// The MCP App of the built-in WHOOP server: listed to clients that show apps, drawn in a sandboxed frame by a small
// host that speaks the bridge of MCP Apps.
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

const VERSION = '2026-07-28';
const APPS = { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } } };
const PAGE = 'ui://whoop/insights.html';
const SHOTS = process.env.TOLLGATE_SCREENSHOTS;

/// A client of the demo grant at the common address.
class Client {
  constructor(url, token, capabilities) {
    this.url = new URL('/mcp', url).href;
    this.token = token;
    this.capabilities = capabilities;
    this.id = 0;
  }

  async request(method, params = {}) {
    this.id += 1;
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': VERSION,
      'io.modelcontextprotocol/clientCapabilities': this.capabilities,
      'io.modelcontextprotocol/clientInfo': { name: 'app-test', version: '1' },
    };
    const headers = {
      Authorization: `Bearer ${this.token}`,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': VERSION,
      'Mcp-Method': method,
    };
    if (params.name ?? params.uri) headers['Mcp-Name'] = params.name ?? params.uri;
    const body = JSON.stringify({ jsonrpc: '2.0', id: this.id, method, params: { ...params, _meta } });
    const text = await (await fetch(this.url, { method: 'POST', headers, body })).text();
    const data = text.split('\n').filter((line) => line.startsWith('data: ')).at(-1);
    return JSON.parse(data ? data.slice('data: '.length) : text).result;
  }

  /// The tool as it is listed. The first list of a server may still be read.
  async tool(name) {
    const end = performance.now() + 30_000;
    while (performance.now() < end) {
      const { tools } = await this.request('tools/list');
      const found = tools.find((tool) => tool.name === name);
      if (found) return found;
      await new Promise((resolve) => { setTimeout(resolve, 200); });
    }
    throw new Error(`no tool ${name}`);
  }
}

/// A page of a host: it frames the app, answers `ui/initialize`, and sends the result when the app is ready.
function host({ html, result, theme }) {
  const frame = document.createElement('iframe');
  frame.setAttribute('sandbox', 'allow-scripts');
  frame.title = 'app';
  frame.width = '100%';
  frame.height = '640';
  window.heard = [];
  addEventListener('message', ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    window.heard.push(data);
    const send = (message) => source.postMessage({ jsonrpc: '2.0', ...message }, '*');
    if (data.method === 'ui/initialize') {
      const { protocolVersion } = data.params;
      const hostInfo = { name: 'test host', version: '1' };
      send({ id: data.id, result: { protocolVersion, hostInfo, hostCapabilities: {}, hostContext: { theme } } });
    }
    if (data.method === 'ui/notifications/initialized') send({ method: 'ui/notifications/tool-result', params: result });
  });
  frame.srcdoc = html;
  document.body.append(frame);
}

async function show(windows, name, shown) {
  const page = await windows.open({ signedIn: false, width: 900, height: 700, colorScheme: shown.theme });
  await page.setContent(`<body style="margin:0;background:${shown.theme === 'dark' ? '#17181a' : '#fff'}"></body>`);
  await page.evaluate(host, shown);
  const app = page.frameLocator('iframe');
  await page.waitForFunction(() => window.heard.some((one) => one.method === 'ui/notifications/size-changed'));
  if (SHOTS) {
    await mkdir(SHOTS, { recursive: true });
    await page.screenshot({ path: join(SHOTS, `app-${name}-${shown.theme}.png`) });
  }
  return { page, app };
}

export const tests = {
  async 'an app is listed to clients that show apps, and to no other'({ url, token }) {
    for (const [capabilities, expected] of [[APPS, PAGE], [{}, undefined]]) {
      const client = new Client(url, token, capabilities);
      for (const name of ['whoop__get_whoop_today', 'whoop__get_whoop_trend']) {
        assert.equal((await client.tool(name))._meta?.ui?.resourceUri, expected, name);
      }
      const called = await client.request('tools/call', { name: 'whoop__get_whoop_today', arguments: {} });
      assert.equal(called.isError ?? false, false, JSON.stringify(called).slice(0, 300));
      assert.equal(typeof called._meta?.['tollgate/drawing'], expected ? 'string' : 'undefined');
      assert.ok(!JSON.stringify(called.content).includes('<svg'), 'the model gets numbers, not drawings');
    }
  },

  async 'an app draws today and a trend in a sandboxed frame'({ windows, url, token }) {
    const client = new Client(url, token, APPS);
    await client.tool('whoop__get_whoop_today');
    const { contents } = await client.request('resources/read', { uri: PAGE });
    assert.equal(contents[0].mimeType, 'text/html;profile=mcp-app');
    const html = contents[0].text;
    const today = await client.request('tools/call', { name: 'whoop__get_whoop_today', arguments: {} });
    const trend = await client.request('tools/call', { name: 'whoop__get_whoop_trend', arguments: { metric: 'hrv', days: 60 } });
    for (const theme of ['light', 'dark']) {
      const first = await show(windows, 'today', { html, result: today, theme });
      assert.equal(await first.app.locator('tbody tr').count(), 7);
      assert.equal(await first.app.locator('html').getAttribute('data-theme'), theme);
      await windows.close(first.page);
      const second = await show(windows, 'trend', { html, result: trend, theme });
      await second.app.getByText(/per 30 days/).waitFor();
      const mark = second.app.locator('svg.chart .mark').last();
      await mark.focus();
      assert.equal(await mark.locator('.tip').isVisible(), true);
      await windows.close(second.page);
    }
    const cut = await show(windows, 'cut', { html, result: { content: [], isError: false }, theme: 'light' });
    await cut.app.getByText('This result has no drawing').waitFor();
    await windows.close(cut.page);
  },
};
