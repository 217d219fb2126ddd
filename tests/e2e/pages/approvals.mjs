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
};
