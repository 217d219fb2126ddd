// Passkeys with Chromium's own virtual authenticator: added, used, removed, refused.
import assert from 'node:assert/strict';

/// The same gate under the host name that passkeys need.
function named(base) {
  const url = new URL(base);
  url.hostname = 'localhost';
  return url.origin;
}

/// A window at `localhost`, signed in through the page that offers it, with a device that verifies its user.
async function atLocalhost(windows) {
  const page = await windows.open({ baseURL: named(windows.base) });
  const session = await page.context().newCDPSession(page);
  await session.send('WebAuthn.enable');
  const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true,
      isUserVerified: true, automaticPresenceSimulation: true,
    },
  });
  await page.goto(`${windows.base}/your-sign-in`);
  await page.getByRole('button', { name: /^Continue at http:\/\/localhost/ }).click();
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  return { page, session, authenticatorId };
}

export const tests = {
  async 'an address made of numbers offers the host name for passkeys'({ windows }) {
    const page = await windows.open({ signedIn: false });
    await page.goto('/');
    const offered = await page.getByRole('link', { name: named(windows.base) }).getAttribute('href');
    assert.equal(offered, `${named(windows.base)}/sign-in`);
    await windows.close(page);
  },

  async 'a passkey is added, signs in, and is refused after its removal'({ windows }) {
    const { page, session, authenticatorId } = await atLocalhost(windows);
    await page.goto('/your-sign-in');
    await page.getByLabel('Name of this device').fill('test device');
    await page.getByRole('button', { name: 'Add a passkey' }).click();
    await page.getByRole('cell', { name: 'test device', exact: true }).waitFor();
    const { credentials } = await session.send('WebAuthn.getCredentials', { authenticatorId });
    assert.equal(credentials.length, 1);
    assert.equal(credentials[0].rpId, 'localhost');

    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await page.getByRole('heading', { name: 'Sign in to your gate' }).waitFor();
    assert.equal((await page.goto('/')).status(), 401);
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();

    await page.goto('/your-sign-in');
    assert.match(await page.getByRole('row', { name: /\(this one\)/ }).innerText(), /Chrome on Linux.*passkey/s);
    await page.getByText('Remove test device').click();
    await page.getByRole('button', { name: 'Remove passkey' }).click();
    await page.getByText('No passkeys yet').waitFor();

    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.getByText('it is not known here, or was removed').waitFor();
    assert.equal((await page.goto('/')).status(), 401);
    await windows.close(page);
  },

  async 'a device that does not verify its user is refused'({ windows }) {
    const { page, session, authenticatorId } = await atLocalhost(windows);
    await session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false });
    await page.goto('/your-sign-in');
    await page.getByLabel('Name of this device').fill('open device');
    await page.getByRole('button', { name: 'Add a passkey' }).click();
    await page.getByText('No passkey was used').waitFor();
    await windows.close(page);
  },

  async 'the page says what is needed without script'({ windows }) {
    const page = await windows.open({ signedIn: false, baseURL: named(windows.base), javaScriptEnabled: false });
    await page.goto('/sign-in');
    assert.match(await page.innerText('main'), /Passkeys need script.*tollgate --home \S+-demo open/s);
    assert.equal(await page.getByRole('button', { name: 'Sign in with a passkey' }).isDisabled(), true);
    await windows.close(page);
  },

  async 'sign-out everywhere ends the other browsers of a person'({ windows }) {
    const { page } = await atLocalhost(windows);
    await page.goto(`${windows.base}/people`);
    await page.getByLabel('Name', { exact: true }).fill('sessions-test');
    await page.getByRole('button', { name: 'Add person' }).click();
    const row = page.getByRole('row', { name: /^sessions-test/ });
    await row.getByRole('button', { name: 'Sign-in link' }).click();
    const link = await page.locator('code[data-copy]').innerText();
    const other = await windows.open({ signedIn: false });
    await other.goto(link);
    await other.getByRole('button', { name: 'Sign in' }).click();
    await other.getByRole('heading', { name: 'Overview' }).waitFor();
    await other.goto('/approvals');

    await page.goto(`${windows.base}/people/sessions-test`);
    await page.getByRole('cell', { name: 'Chrome on Linux' }).waitFor();
    await page.getByRole('button', { name: 'Sign sessions-test out everywhere' }).click();
    await page.getByText('sessions-test is not signed in').waitFor();
    // An open page must not look as if nothing waited.
    await other.getByText('does not update by itself any more').waitFor();
    assert.equal((await other.goto('/')).status(), 401);
    await windows.close(other);
    await windows.close(page);
  },
};
