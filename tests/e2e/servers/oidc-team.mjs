// An OpenID provider (npm `oidc-provider`) for a team. The sign-in page has one button per person.
// `POST /clock?seconds=N` moves its clock. `node oidc-team.mjs REDIRECT_URI CLIENT_ID CLIENT_SECRET`
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const [redirect, clientId, clientSecret] = process.argv.slice(2);

const PEOPLE = {
  vera: { email: 'vera@example.com', email_verified: true },
  ann: { email: 'ann@other.example', email_verified: true },
  eve: { email: 'eve@evil.example', email_verified: true },
  mallory: { email: 'ann@other.example', email_verified: false },
  gus: { groups: ['auditors'] },
};

const realNow = Date.now;
let shiftMs = 0;
Date.now = () => realNow() + shiftMs;

function provider(issuer) {
  return new Provider(issuer, {
    clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: [redirect] }],
    claims: { openid: ['sub', 'groups'], email: ['email', 'email_verified'] },
    conformIdTokenClaims: false,
    features: { devInteractions: { enabled: false } },
    pkce: { required: () => true },
    findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, ...PEOPLE[sub] }) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    cookies: { keys: ['only for tests'] },
  });
}

async function interact(oidc, request, response, url) {
  const { prompt, params, session, grantId } = await oidc.interactionDetails(request, response);
  if (prompt.name === 'login') {
    const login = url.searchParams.get('as');
    if (login) return oidc.interactionFinished(request, response, { login: { accountId: login } });
    const links = Object.keys(PEOPLE).map((name) => `<p><a href="?as=${name}">${name}</a></p>`);
    response.writeHead(200, { 'content-type': 'text/html' });
    return response.end(`<!doctype html><title>Sign in</title><h1>Who are you?</h1>${links.join('')}`);
  }
  const grant = grantId ? await oidc.Grant.find(grantId) : new oidc.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope);
  return oidc.interactionFinished(request, response, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  // Another site than the gate's 127.0.0.1, as a real issuer is.
  const issuer = `http://localhost:${server.address().port}`;
  const oidc = provider(issuer);
  oidc.on('server_error', (_, error) => console.error(error));
  const handle = oidc.callback();
  server.on('request', async (request, response) => {
    const url = new URL(request.url, issuer);
    try {
      if (url.pathname === '/clock') {
        shiftMs = Number(url.searchParams.get('seconds')) * 1000;
        return response.end();
      }
      if (url.pathname.startsWith('/interaction/')) return await interact(oidc, request, response, url);
      return handle(request, response);
    } catch (error) {
      console.error(error);
      response.writeHead(500).end(String(error));
    }
  });
  console.log(`issuer: ${issuer}`);
});
