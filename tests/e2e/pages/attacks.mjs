// What a page of another site can try with a signed-in browser, and what a program on the network can.
import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';

import { operations } from './lib/pages.mjs';

/// A site of somebody else with this page.
async function site(html, test) {
  const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(html));
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  try {
    await test(`http://localhost:${server.address().port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/// The status for a request with these headers.
function status(base, path, { method = 'GET', headers = {}, body = '' } = {}) {
  const { hostname, port } = new URL(base);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path, method, headers }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

async function namesOf(windows) {
  const page = await windows.open();
  const people = await (await page.goto('/people.json')).json();
  await windows.close(page);
  return people.people.map((person) => person.name);
}

export const tests = {
  async 'a form of another site changes nothing'({ windows }) {
    const form = `<form method="post" action="${windows.base}/people"><input name="name" value="planted"><input name="role" value="admin"></form><script>document.forms[0].submit()</script>`;
    await site(form, async (address) => {
      const page = await windows.open();
      const answered = page.waitForResponse((response) => response.url() === `${windows.base}/people`);
      await page.goto(address);
      // The gate refuses the origin before a page runs.
      assert.equal((await answered).status(), 403);
      await windows.close(page);
    });
    assert.ok(!(await namesOf(windows)).includes('planted'));
  },

  async 'no page is shown in the frame of another site'({ windows }) {
    await site(`<iframe src="${windows.base}/approvals"></iframe>`, async (address) => {
      const page = await windows.open({ signedIn: true });
      const blocked = page.waitForEvent('console', (message) => message.text().includes("frame-ancestors 'none'"));
      await page.goto(address);
      await blocked;
      const frame = page.frames().find((one) => one !== page.mainFrame());
      assert.equal(await frame.getByRole('heading', { name: 'Approvals' }).count(), 0);
      await windows.close(page);
      // Chromium reports the blocked frame, as it should.
      assert.ok(windows.takeFaults().every((fault) => /frame-ancestors|X-Frame-Options/.test(fault)));
    });
  },

  async 'another host name reaches nothing, also with a valid session'({ windows }) {
    const cookie = windows.session.cookies.map((one) => `${one.name}=${one.value}`).join('; ');
    assert.equal(await status(windows.base, '/', { headers: { cookie } }), 200, 'the session is valid');
    const { port } = new URL(windows.base);
    for (const host of ['evil.example', `evil.example:${port}`, `127.0.0.1.evil.example:${port}`, `127.0.0.2:${port}`]) {
      for (const path of ['/', '/sign-in', '/people.json', '/your-sign-in']) {
        const found = await status(windows.base, path, { headers: { host, cookie } });
        assert.ok(found >= 400 && found !== 404, `${host} ${path}: ${found}`);
      }
    }
  },

  async 'every address needs a session, a page of its own and this host name'({ windows }) {
    const page = await windows.open();
    const all = await operations(page);
    assert.ok(all.length > 70, `${all.length} operations`);
    const entries = async () => (await (await page.request.get('/audit.json')).json()).entries;
    const [{ seq: before }] = await entries();
    const cookie = windows.session.cookies.map((one) => `${one.name}=${one.value}`).join('; ');
    const { host } = new URL(windows.base);
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    for (const { method, path } of all) {
      const filled = path.replace(/\{\w+\}/g, 'x');
      for (const address of [filled, filled === '/' ? '/index.json' : `${filled}.json`]) {
        const send = (headers) => status(windows.base, address, { method, headers: { ...form, ...headers } });
        const own = method === 'POST' ? { origin: windows.base } : {};
        assert.equal(await send(own), 401, `${method} ${address} without a session`);
        const foreign = await send({ cookie, host: 'evil.example', ...own });
        assert.ok(foreign === 403 || foreign === 421, `${method} ${address} at another host: ${foreign}`);
        const rebound = await send({ cookie, host: `evil.example:${host.split(':')[1]}`, origin: 'http://evil.example' });
        assert.ok(rebound === 403 || rebound === 421, `${method} ${address} rebound: ${rebound}`);
        if (method === 'POST') {
          assert.equal(await send({ cookie, origin: 'http://evil.example' }), 403, `${address} from another site`);
          assert.equal(await send({ cookie, ...own }), 403, `${address} without its token`);
        }
      }
    }
    // Refusals may leave rows, and the demo syncs by itself; nothing else happened.
    const left = (await entries()).filter((entry) => entry.seq > before).map((entry) => entry.act || entry.decision);
    assert.deepEqual(left.filter((one) => !['synced', 'refused', 'unauthenticated'].includes(one)), []);
    await windows.close(page);
  },

  async 'a cookie that was planted before the sign-in is not the session'({ windows }) {
    const owner = await windows.open();
    await owner.goto('/people');
    await owner.getByRole('row', { name: /^owner/ }).getByRole('button', { name: 'Sign-in link' }).click();
    const link = await owner.locator('code[data-copy]').innerText();
    const victim = await windows.open({ signedIn: false });
    const planted = { name: 'tollgate_session', value: 'tg_session_chosen_by_an_attacker', url: windows.base };
    await victim.context().addCookies([planted]);
    await victim.goto(link);
    await victim.getByRole('button', { name: 'Sign in' }).click();
    await victim.getByRole('heading', { name: 'Overview' }).waitFor();
    const [session] = (await victim.context().cookies()).filter((one) => one.name === planted.name);
    assert.notEqual(session.value, planted.value);
    assert.equal(session.httpOnly, true);
    assert.equal(session.sameSite, 'Strict');
    assert.equal(await status(windows.base, '/', { headers: { cookie: `${planted.name}=${planted.value}` } }), 401);
    await windows.close(victim);
    await windows.close(owner);
  },
};
