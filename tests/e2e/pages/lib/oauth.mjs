// What clients share that sign in to the gate: a store for the official TypeScript client, and the clicks of the
// owner on the consent page.
import assert from 'node:assert/strict';

/// The storage that the official client asks for.
export class Provider {
  constructor(redirect, name) {
    this.redirectUrl = redirect;
    this.clientMetadata = {
      client_name: name,
      redirect_uris: [redirect],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    };
  }
  state() {
    return 'a-state';
  }
  clientInformation() {
    return this.client;
  }
  saveClientInformation(client) {
    this.client = client;
  }
  tokens() {
    return this.saved;
  }
  saveTokens(tokens) {
    this.saved = tokens;
  }
  redirectToAuthorization(url) {
    this.authorizeUrl = url.href;
  }
  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }
  codeVerifier() {
    return this.verifier;
  }
}

/// Decides on the consent page, as the owner would.
export async function consent(page, { name, host, decision = 'Allow' }) {
  await page.getByRole('heading', { name: 'Allow access?' }).waitFor();
  const shown = await page.innerText('main');
  assert.ok(shown.includes(name), shown);
  assert.ok(shown.includes(host), shown);
  if (decision === 'Allow') {
    const server = page.getByRole('checkbox', { name: 'demo', exact: true });
    if (!(await server.isChecked())) await server.check();
    await page.locator('select[name="policy:demo"]').selectOption('demo');
  }
  await page.getByRole('button', { name: decision }).click();
}
