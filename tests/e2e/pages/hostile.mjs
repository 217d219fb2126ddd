import assert from 'node:assert/strict';

import { card } from './approvals.mjs';

const IMAGE = '<img src=x onerror="window.isHit = true; alert(1)">';
const SCRIPT = '</script></code><script>window.isHit = true; alert(2)</script>';

async function checkUnhit(page, path) {
  assert.equal(await page.evaluate(() => window.isHit), undefined, `script ran on ${path}`);
  assert.equal(await page.locator('main img, main script').count(), 0, `markup on ${path}`);
}

export const tests = {
  async 'markup in arguments, tool and client names is shown as text'({ windows, agent }) {
    const page = await windows.open();
    await page.goto('/approvals');
    const call = agent.call('send_money', { to: `${IMAGE} ${SCRIPT}`, amount: 54 }, { client: SCRIPT });
    const hostile = card(page, 'window.isHit');
    await hostile.waitFor();
    assert.match(await hostile.innerText(), /<img src=x onerror=.*<\/script><\/code><script>/s);
    await checkUnhit(page, '/approvals');
    await hostile.getByRole('link', { name: 'Details' }).click();
    await page.getByRole('heading', { name: 'What will be sent' }).waitFor();
    await checkUnhit(page, page.url());
    await page.getByLabel('Reason').fill(IMAGE);
    await page.getByRole('button', { name: 'Deny' }).click();
    assert.ok((await call).text.includes('<img src=x'), 'the agent reads the reason as it was written');
    await agent.call(IMAGE, {}, { client: IMAGE });

    for (const path of ['/approvals', '/', '/audit']) {
      await page.goto(path);
      await checkUnhit(page, path);
    }
    await page.goto('/audit');
    assert.match(await page.innerText('table'), /<img src=x/);
    await page.locator('tbody a').first().click();
    await page.getByRole('heading', { name: /^Entry/ }).waitFor();
    await checkUnhit(page, page.url());
    await windows.close(page);
  },

  async 'the content security policy blocks injected script'({ windows }) {
    const page = await windows.open();
    await page.goto('/');
    const outcome = await page.evaluate(async () => {
      const attempts = {
        handler: () => document.body.setAttribute('onclick', 'window.isHit = true'),
        markup: () => { document.body.innerHTML = '<img src=x onerror="window.isHit = true">'; },
        inline: () => {
          const script = document.createElement('script');
          script.append('window.isHit = true');
          document.body.append(script);
        },
      };
      for (const attempt of Object.values(attempts)) {
        try { attempt(); } catch { /* refused, as it should be */ }
      }
      // Later: what a test evaluates itself may use eval.
      await new Promise((resolve) => {
        setTimeout(() => { try { window.eval('window.isHit = true'); } catch { /* refused */ } resolve(); });
      });
      document.body.click();
      return { isHit: window.isHit, images: document.images.length };
    });
    assert.deepEqual(outcome, { isHit: undefined, images: 0 });
    const faults = windows.takeFaults();
    assert.ok(faults.length > 0, 'the browser reports what it blocked');
    await windows.close(page);
  },
};
