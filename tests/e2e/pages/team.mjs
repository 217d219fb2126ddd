// People of a team sign in at a real OpenID provider, and what a hostile browser or issuer would try.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { Program } from './lib/program.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const SECRET = 'a-secret-of-the-client-that-no-page-shows';

/// Starts the provider and tells the gate about it in `tollgate.toml`.
async function withTeam({ windows, home, node }, test) {
  const redirect = `${windows.base}/sign-in/oidc/callback`;
  const script = path.join(HERE, '..', 'servers', 'oidc-team.mjs');
  const provider = new Program(node, [script, redirect, 'gate', SECRET], process.env, /issuer: (\S+)/);
  const file = path.join(home, 'tollgate.toml');
  const before = await readFile(file, 'utf8').catch(() => '');
  try {
    const issuer = await provider.address;
    await writeFile(path.join(home, 'oidc-secret'), SECRET, { mode: 0o600 });
    const settings = `
[oidc]
issuer = "${issuer}"
client_id = "gate"
client_secret = { file = "${path.join(home, 'oidc-secret')}" }
label = "Example ID"
[oidc.roles.viewer]
domains = ["example.com"]
[oidc.roles.auditor]
claims = { groups = ["auditors"] }
`;
    await writeFile(file, before + settings);
    await test(issuer);
  } finally {
    // An empty file would not be read.
    await writeFile(file, before || '# nothing\n');
    await provider.end();
    // The next test has another provider: its sign-in must not begin at this one.
    await windows.close(await signInPage(windows, false).then(({ page }) => page));
  }
}

/// The sign-in page, once the gate has read its settings again and offers the provider, or no longer does.
async function signInPage(windows, isOffered = true) {
  const page = await windows.open({ signedIn: false });
  const button = page.getByRole('link', { name: 'Sign in with Example ID' });
  const end = performance.now() + 30_000;
  do await page.goto('/'); while ((await button.count()) > 0 !== isOffered && performance.now() < end);
  return { page, button };
}

async function signIn(windows, name) {
  const { page, button } = await signInPage(windows);
  await button.click();
  await page.getByRole('link', { name, exact: true }).click();
  return page;
}

/// The audit log has a refusal with these words.
async function assertRecorded(windows, words) {
  const page = await windows.open();
  const end = performance.now() + 30_000;
  let log = '';
  while (!log.includes(words) && performance.now() < end) log = await (await page.goto('/audit.json')).text();
  assert.ok(log.includes(words), `no audit row says: ${words}`);
  assert.ok(!log.includes(SECRET));
  await windows.close(page);
}

/// Walks to the issuer and back as this browser would; returns the redirect that the gate is to get, not yet sent.
/// A browser does not show the addresses of redirects, so its cookies are used without a page.
async function redirectFor(page, name, change = () => {}) {
  const { request } = page.context();
  let url = new URL('/sign-in/oidc', page.url());
  while (!url.pathname.endsWith('/callback')) {
    const response = await request.get(url.href, { maxRedirects: 0 });
    const location = response.headers().location;
    if (location) url = new URL(location, url);
    else url.searchParams.set('as', name);
    assert.ok(response.status() < 400, `${response.status()}: ${await response.text()}`);
    if (location && url.pathname === '/auth') change(url);
  }
  return url;
}

export const tests = {
  async 'a team signs in at its issuer, each with the mapped role'(world) {
    await withTeam(world, async () => {
      const { windows } = world;
      const vera = await signIn(windows, 'vera');
      await vera.getByRole('heading', { name: 'Overview' }).waitFor();
      assert.match(await vera.locator('.who').innerText(), /vera@example\.com viewer/);
      await vera.goto('/people');
      assert.equal(await vera.getByRole('button', { name: 'Add person' }).count(), 0);
      assert.equal((await vera.goto('/people/owner')).status(), 403);
      await vera.goto('/your-sign-in');
      await vera.getByText("Your team's issuer decides").waitFor();
      await vera.getByRole('cell', { name: 'issuer', exact: true }).waitFor();
      await windows.close(vera);

      const gus = await signIn(windows, 'gus');
      await gus.getByRole('heading', { name: 'Overview' }).waitFor();
      assert.match(await gus.locator('.who').innerText(), /gus auditor/);
      await windows.close(gus);

      const eve = await signIn(windows, 'eve');
      await eve.getByText('you may not use this dashboard').waitFor();
      assert.equal((await eve.goto('/')).status(), 401);
      await windows.close(eve);
      await assertRecorded(windows, 'eve@evil.example');
    });
  },

  async 'an admin adds a person by e-mail, and the removal ends the session'(world) {
    await withTeam(world, async () => {
      const { windows } = world;
      const owner = await windows.open();
      await owner.goto('/people');
      await owner.getByLabel('Name', { exact: true }).fill('ann');
      await owner.getByRole('textbox', { name: 'E-mail at the issuer' }).fill('ann@other.example');
      await owner.getByRole('button', { name: 'Add person' }).click();
      await owner.getByRole('cell', { name: 'ann@other.example' }).waitFor();

      const mallory = await signIn(windows, 'mallory');
      await mallory.getByText('you may not use this dashboard').waitFor();
      await windows.close(mallory);

      const ann = await signIn(windows, 'ann');
      await ann.getByRole('heading', { name: 'Overview' }).waitFor();
      assert.match(await ann.locator('.who').innerText(), /ann viewer/);
      await owner.goto('/people');
      await owner.getByText('Remove ann', { exact: true }).click();
      await owner.getByRole('row', { name: /^ann / }).getByRole('button', { name: 'Remove', exact: true }).click();
      await owner.getByRole('cell', { name: 'ann@other.example' }).waitFor({ state: 'detached' });
      assert.equal((await ann.goto('/')).status(), 401);
      await windows.close(ann);
      await windows.close(owner);
    });
  },

  async 'another nonce, another issuer, a stolen redirect and an old token are refused'(world) {
    await withTeam(world, async (issuer) => {
      const { windows } = world;
      const { page } = await signInPage(windows);
      const other = await redirectFor(page, 'vera', (url) => url.searchParams.set('nonce', 'another'));
      await page.goto(other.href);
      await page.getByText('its nonce is not that of this sign-in').waitFor();
      await assertRecorded(windows, 'its nonce is not that of this sign-in');

      await page.goto('/');
      const mixed = await redirectFor(page, 'vera');
      assert.equal(mixed.searchParams.get('iss'), issuer, 'the provider names itself');
      mixed.searchParams.set('iss', 'http://evil.example');
      await page.goto(mixed.href);
      await page.getByText('it comes from another issuer').waitFor();
      await assertRecorded(windows, 'it comes from another issuer');

      await page.goto('/');
      const stolen = await redirectFor(page, 'vera');
      const thief = await windows.open({ signedIn: false });
      await thief.goto(stolen.href);
      await thief.getByText('it was begun in another browser').waitFor();
      await page.goto(stolen.href);
      await page.getByText('finished before').waitFor();
      await windows.close(thief);
      await windows.close(page);
      await assertRecorded(windows, 'it was begun in another browser');

      const late = await windows.open({ signedIn: false });
      await late.goto('/');
      const old = await redirectFor(late, 'vera');
      // Later, because the provider's cookies have dates, too.
      await fetch(`${issuer}/clock?seconds=-7200`, { method: 'POST' });
      await late.goto(old.href);
      await late.getByText('the ID token was refused: it has expired').waitFor();
      await windows.close(late);
      await assertRecorded(windows, 'it has expired');
    });
  },
};
