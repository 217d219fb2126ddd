// An MCP server behind npm `oidc-provider` (RFC 8414, 7591, 7009, 8707, 9207, rotation, optionally client metadata
// documents) at a path issuer of the same address. `POST /expire` makes all access tokens invalid. With `--fetch-from
// PORT` documents are fetched over TLS, from the public host names that are served at this port and from nowhere else.
// `node oidc-protected.mjs [--documents] [--fetch-from PORT] [--port N]`
import { createServer } from 'node:http';
import { get } from 'node:https';
import { isIP } from 'node:net';
import { parseArgs } from 'node:util';
import { Provider } from 'oidc-provider';

const { values: options } = parseArgs({
  options: {
    documents: { type: 'boolean', default: false },
    'fetch-from': { type: 'string' },
    port: { type: 'string', default: '0' },
  },
});
const ISSUER_PATH = '/tenant/oidc';
const SCOPE = 'mcp:use';

/// What the owner's client document says, wherever it is; nothing is fetched.
const documentAt = (url) => ({
  client_id: url,
  client_name: 'tollgate',
  redirect_uris: ['http://127.0.0.1/oauth/callback'],
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
  application_type: 'native',
});

/// Fetches a document from the proxy that stands for the internet. A name that leads inward is refused.
function fetched(url) {
  const { hostname, pathname, protocol } = new URL(url);
  if (protocol !== 'https:' || isIP(hostname) || hostname === 'localhost') throw new Error(`${hostname} is not a public name`);
  const at = { host: '127.0.0.1', port: Number(options['fetch-from']), path: pathname, servername: hostname };
  return new Promise((resolve, reject) => {
    get({ ...at, headers: { host: hostname } }, async (reply) => {
      let text = '';
      for await (const part of reply) text += part;
      resolve(new Response(text, { status: reply.statusCode, headers: { 'content-type': reply.headers['content-type'] } }));
    }).on('error', reject);
  });
}

const tokens = new Set();
const expired = new Set();

function provider(origin) {
  const made = new Provider(`${origin}${ISSUER_PATH}`, {
    scopes: [SCOPE, 'offline_access'],
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => false,
        getResourceServerInfo: (_, resource) => {
          if (resource !== `${origin}/mcp`) throw new Error('another resource');
          return { scope: SCOPE, audience: resource, accessTokenTTL: 3600, accessTokenFormat: 'opaque' };
        },
      },
      ...(options.documents && { clientIdMetadataDocument: { enabled: true, ack: 'draft-02' } }),
    },
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
    rotateRefreshToken: true,
    issueRefreshToken: () => true,
    pkce: { required: () => true },
    findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
    fetch: async (url) => options['fetch-from'] ? fetched(url) : new Response(JSON.stringify(documentAt(String(url))), { headers: { 'content-type': 'application/json' } }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    cookies: { keys: ['only for tests'] },
  });
  made.on('access_token.saved', (token) => void tokens.add(token.jti));
  made.on('server_error', (_, error) => console.error(error));
  return made;
}

/// A person who signs in and consents to everything at once.
async function interact(oidc, request, response) {
  const { prompt, params, session, grantId } = await oidc.interactionDetails(request, response);
  if (prompt.name === 'login') {
    return oidc.interactionFinished(request, response, { login: { accountId: 'ann' } });
  }
  const grant = grantId ? await oidc.Grant.find(grantId) : new oidc.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope ?? '');
  grant.addResourceScope(params.resource, SCOPE);
  return oidc.interactionFinished(request, response, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}

function json(response, status, body, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

async function mcp(oidc, origin, request, response) {
  const [, bearer] = /^Bearer (.+)$/.exec(request.headers.authorization ?? '') ?? [];
  const token = bearer && (await oidc.AccessToken.find(bearer));
  if (!token || expired.has(token.jti) || token.aud !== `${origin}/mcp`) {
    const at = `${origin}/.well-known/oauth-protected-resource/mcp`;
    return json(response, 401, {}, { 'www-authenticate': `Bearer resource_metadata="${at}", scope="${SCOPE}"` });
  }
  if (request.method !== 'POST') return response.writeHead(405).end();
  let text = '';
  for await (const part of request) text += part;
  const { id, method } = JSON.parse(text);
  if (id === undefined) return response.writeHead(202).end();
  const results = {
    initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'oidc', version: '1' } },
    'tools/list': { tools: [{ name: 'whoami', description: 'Says who is signed in', inputSchema: { type: 'object' } }] },
    'tools/call': { content: [{ type: 'text', text: token.accountId }] },
  };
  const result = results[method];
  return json(response, 200, result ? { jsonrpc: '2.0', id, result } : { jsonrpc: '2.0', id, error: { code: -32601, message: 'unknown method' } });
}

const server = createServer();
server.listen(Number(options.port), '127.0.0.1', () => {
  const origin = `http://127.0.0.1:${server.address().port}`;
  const oidc = provider(origin);
  const handle = oidc.callback();
  server.on('request', async (request, response) => {
    const { pathname } = new URL(request.url, origin);
    try {
      if (pathname === '/mcp') return await mcp(oidc, origin, request, response);
      if (pathname === '/expire') {
        for (const token of tokens) expired.add(token);
        return json(response, 200, {});
      }
      if (pathname === '/.well-known/oauth-protected-resource/mcp') {
        return json(response, 200, { resource: `${origin}/mcp`, authorization_servers: [`${origin}${ISSUER_PATH}`], scopes_supported: [SCOPE] });
      }
      if (pathname.startsWith('/interaction/')) return await interact(oidc, request, response);
      if (pathname.startsWith(ISSUER_PATH)) {
        request.originalUrl = request.url;
        request.url = request.url.slice(ISSUER_PATH.length);
        return handle(request, response);
      }
      return response.writeHead(404).end();
    } catch (error) {
      console.error(error);
      return json(response, 500, { error: String(error) });
    }
  });
  console.log(JSON.stringify({ url: `${origin}/mcp`, expire: `${origin}/expire` }));
});
