import assert from 'node:assert/strict';
import { createServer } from 'node:http';

import { card } from './approvals.mjs';

/// A receiver on loopback: its address, and the next message.
async function receiver() {
  const messages = [];
  const waiting = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const part of request) text += part;
    const message = { headers: request.headers, body: JSON.parse(text) };
    if (waiting.length > 0) waiting.shift()(message);
    else messages.push(message);
    response.end();
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  server.unref();
  const next = () => (messages.length > 0
    ? Promise.resolve(messages.shift())
    : new Promise((resolve) => { waiting.push(resolve); }));
  return { url: `http://127.0.0.1:${server.address().port}/hook`, next, close: () => server.close() };
}

export const tests = {
  async 'a channel is added, tested, and gets a call that waits'({ windows, agent }) {
    const page = await windows.open();
    const hook = await receiver();
    await page.goto('/notifications');
    await page.getByText('Webhook: signed JSON').click();
    const form = page.locator('form').filter({ has: page.locator('input[name="kind"][value="webhook"]') });
    await form.getByLabel('Name').fill('hook');
    await form.getByLabel('Address').fill('http://example.com/hook');
    await form.getByRole('button', { name: 'Add channel' }).click();
    assert.match(await page.locator('.problem').innerText(), /plain http is for this machine only/);
    assert.equal(await form.getByLabel('Name').inputValue(), 'hook', 'what was typed is kept');
    assert.equal(await form.getByLabel('Address').inputValue(), 'http://example.com/hook');

    await form.getByLabel('Address').fill(hook.url);
    await form.getByLabel('Secret').fill('sign-with-this');
    await form.getByRole('button', { name: 'Add channel' }).click();
    await page.getByRole('button', { name: 'Send a test' }).click();
    // The demo's own call waits, too, and is announced to a new channel: before the test or after it.
    let test;
    do test = await hook.next(); while (test.body.type === 'approval');
    assert.equal(test.body.type, 'test');
    assert.match(test.headers['x-tollgate-signature'], /^t=\d+,v1=[0-9a-f]{64}$/);
    const shown = await page.content();
    assert.ok(!shown.includes('sign-with-this') && !shown.includes(hook.url), 'nothing is shown back');

    const call = agent.call('send_money', { to: 'Hedy', amount: 57 });
    do {
      const notice = await hook.next();
      assert.equal(notice.body.type, 'approval');
      assert.ok(!JSON.stringify(notice.body).includes('Hedy'), 'no arguments by default');
      await page.goto(new URL(notice.body.link).pathname);
    } while (!(await page.content()).includes('Hedy'));
    await page.getByRole('button', { name: 'Approve once' }).click();
    await call;

    await page.goto('/notifications');
    await page.getByText('Remove hook').click();
    await page.getByRole('button', { name: 'Remove channel' }).click();
    await page.getByText('No channels yet').waitFor();
    hook.close();
    await windows.close(page);
  },

  async 'an approval shows what differs from the last approved call'({ windows, agent }) {
    const page = await windows.open();
    const call = agent.call('send_money', { to: 'Hedy', amount: 58 });
    await page.goto('/approvals');
    await card(page, 'Hedy').getByText('Since the last approved call').waitFor();
    await card(page, 'Hedy').getByRole('link', { name: 'Details' }).click();
    const row = page.locator('table.members tr').filter({ hasText: 'amount' });
    assert.match(await row.innerText(), /58\s+changed was 57/);
    const same = page.locator('table.members tr').filter({ hasText: 'Hedy' });
    assert.match(await same.innerText(), /same/);
    await page.getByRole('button', { name: 'Deny' }).click();
    await call;
    await windows.close(page);
  },
};
