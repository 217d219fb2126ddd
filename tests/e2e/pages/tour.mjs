import assert from 'node:assert/strict';

export const tests = {
  async 'the tour shows an allowed, a refused and an approved call'({ windows }) {
    const page = await windows.open();
    await page.goto('/');
    await page.getByRole('link', { name: 'Take the tour' }).click();
    for (const id of ['allowed', 'refused']) {
      await page.locator(`article#${id}`).getByRole('button', { name: /Make the call/ }).click();
      await page.locator(`article#${id}`).getByText('done').waitFor();
    }
    await page.locator('article#approval').getByRole('button', { name: /Make the call/ }).click();
    await page.goto('/approvals');
    const card = page.locator('article').filter({ hasText: 'Ada' });
    await card.getByRole('button', { name: 'Approve once' }).click();
    for (;;) {
      await page.goto('/tour');
      if (await page.locator('article#approval').getByText('done').count()) break;
    }
    await page.locator('article#refused').getByRole('link', { name: /See why/ }).click();
    assert.match(await page.innerText('main'), /denied it/);
    await windows.close(page);
  },
};
