import assert from 'node:assert/strict';

/// The card of the call that sends money to this person.
export const card = (page, to) => page.locator('article').filter({ hasText: to });

/// Makes sure that the page was not loaded again: a reload would lose the mark.
async function mark(page) {
  await page.evaluate(() => { window.isSamePage = true; });
  return () => page.evaluate(() => window.isSamePage === true);
}

export const tests = {
  async 'a waiting call appears by itself and continues when approved'({ windows, agent }) {
    const page = await windows.open();
    await page.goto('/approvals');
    const isSamePage = await mark(page);
    // A new demo begins with one call that waits.
    await card(page, 'Katherine').waitFor();
    const waiting = await page.locator('article').count();
    const call = agent.call('send_money', { to: 'Grace', amount: 50 });
    await card(page, 'Grace').waitFor();
    assert.match(await card(page, 'Grace').innerText(), /by pages-test/, 'the card names the client');
    assert.ok(await isSamePage(), 'the page was loaded again');
    assert.ok((await page.title()).startsWith(`(${waiting + 1})`), await page.title());

    const decided = page.waitForResponse((response) => response.url().endsWith('/approve'));
    await card(page, 'Grace').getByRole('button', { name: 'Approve once' }).click();
    await decided;
    const before = performance.now();
    const answer = await call;
    assert.ok(answer.at - before < 1000, `the call took ${answer.at - before} ms after the approval`);
    assert.equal(answer.message.result.isError ?? false, false, answer.text);
    assert.match(answer.text, /Grace/);
    await windows.close(page);
  },

  async 'the agent reads the reason of a denied call'({ windows, agent }) {
    const page = await windows.open();
    await page.goto('/approvals');
    const call = agent.call('send_money', { to: 'Edsger', amount: 51 });
    await card(page, 'Edsger').getByLabel('Reason for the agent').fill('ask me on Monday');
    await card(page, 'Edsger').getByRole('button', { name: 'Deny' }).click();
    const answer = await call;
    assert.match(answer.text, /ask me on Monday/);
    await windows.close(page);
  },

  async 'typed text stays when another call arrives'({ windows, agent }) {
    const page = await windows.open();
    await page.goto('/approvals');
    const first = agent.call('send_money', { to: 'Barbara', amount: 52 });
    const reason = card(page, 'Barbara').getByLabel('Reason for the agent');
    await reason.fill('half a sent');
    const second = agent.call('send_money', { to: 'Donald', amount: 53 });
    await card(page, 'Donald').waitFor();
    assert.equal(await reason.inputValue(), 'half a sent');
    for (const to of ['Barbara', 'Donald']) {
      await card(page, to).getByRole('button', { name: 'Deny' }).click();
      await card(page, to).waitFor({ state: 'detached' });
    }
    await Promise.all([first, second]);
    await windows.close(page);
  },

  async 'from a phone an exact call is approved for ten minutes, and no other'({ windows, agent }) {
    const page = await windows.open({ width: 390, height: 844, hasTouch: true, isMobile: true });
    await page.goto('/');
    // The menu opens from below, and the approvals are one touch away.
    await page.getByRole('link', { name: 'More' }).tap();
    await page.getByRole('link', { name: 'Notifications' }).waitFor();
    await page.getByRole('link', { name: 'Close' }).tap();
    assert.equal(await page.getByRole('link', { name: 'Notifications' }).isVisible(), false);
    const first = agent.call('send_money', { to: 'Annie', amount: 41 });
    await page.getByRole('link', { name: /^Approvals/ }).tap();
    await card(page, 'Annie').getByRole('link', { name: 'Details' }).tap();
    await page.getByRole('heading', { name: 'What will be sent' }).waitFor();
    for (const span of ['10 minutes', '1 hour', '8 hours']) {
      await page.getByRole('button', { name: `This exact call for ${span}` }).waitFor();
    }
    assert.ok(await page.evaluate(() => document.scrollingElement.scrollWidth <= innerWidth));
    await page.getByRole('button', { name: 'This exact call for 10 minutes' }).tap();
    assert.match((await first).text, /Annie/);
    const again = await agent.call('send_money', { to: 'Annie', amount: 41 });
    assert.match(again.text, /Annie/, 'the same call does not wait');
    await page.getByRole('heading', { name: 'Approved for a time' }).waitFor();
    const other = agent.call('send_money', { to: 'Annie', amount: 42 });
    await card(page, '42').waitFor();
    await card(page, '42').getByRole('button', { name: 'Deny' }).tap();
    assert.match((await other).text, /POLICY DENIED|denied/i);
    await page.getByRole('button', { name: 'Withdraw' }).tap();
    await page.getByRole('heading', { name: 'Approved for a time' }).waitFor({ state: 'detached' });
    assert.match((await agent.call('send_money', { to: 'Annie', amount: 41 })).text, /the owner withdrew the approval/);
    await windows.close(page);
  },

  async 'keys move through rows and to the decision, and approve nothing by themselves'({ windows, agent }) {
    const page = await windows.open();
    const call = agent.call('send_money', { to: 'Joan', amount: 43 });
    await page.goto('/approvals');
    const path = await card(page, 'Joan').getByRole('link', { name: 'Details' }).getAttribute('href');
    await page.goto(path);
    await page.keyboard.press('a');
    const focused = () => page.evaluate(() => document.activeElement.textContent.trim() || document.activeElement.name);
    assert.equal(await focused(), 'Approve once');
    const { state } = await (await page.request.get(`${path}.json`)).json();
    assert.equal(state, 'waiting', 'a key alone decides nothing');
    await page.keyboard.press('d');
    assert.equal(await focused(), 'because');
    await page.keyboard.type('not a day for it');
    await page.keyboard.press('Enter');
    assert.match((await call).text, /not a day for it/);
    // The answer may be faster than the page that the form leads to.
    await page.waitForURL((url) => url.pathname === '/approvals');
    await page.goto('/audit');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    const number = await focused();
    assert.equal(await page.locator('tr[aria-selected="true"] a').first().innerText(), number);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: `Entry ${number}` }).waitFor();
    await windows.close(page);
  },

  async 'the browser tells of a call that waits, if it may'({ windows, agent }) {
    const page = await windows.open();
    await page.addInitScript(() => {
      window.notices = [];
      window.Notification = class {
        static permission = 'default';
        static async requestPermission() { Notification.permission = 'granted'; return 'granted'; }
        constructor(title, options) { window.notices.push(`${title}: ${options.body}`); }
      };
    });
    await page.goto('/notifications');
    await page.getByRole('button', { name: 'Notify me in this browser' }).click();
    await page.getByText('This browser tells you about new calls').waitFor();
    const call = agent.call('send_money', { to: 'Mary-Secret', amount: 44 });
    await page.waitForFunction(() => window.notices.length > 0);
    const [notice] = await page.evaluate(() => window.notices);
    assert.match(notice, /^tollgate: .*for your approval$/);
    assert.ok(!notice.includes('Mary'), 'no argument leaves the page');
    await page.goto('/approvals');
    await card(page, 'Mary-Secret').getByRole('button', { name: 'Deny' }).click();
    await call;
    await windows.close(page);
  },
};
