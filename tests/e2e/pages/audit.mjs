import assert from 'node:assert/strict';

export const tests = {
  async 'the log follows new entries, and an entry explains itself'({ windows, agent }) {
    const page = await windows.open();
    await page.goto('/audit?tool=delete_note');
    await page.getByRole('link', { name: 'Follow new entries' }).click();
    await page.getByRole('link', { name: 'Stop following' }).waitFor();
    const before = await page.locator('tbody tr').count();
    await page.evaluate(() => { window.isSamePage = true; });
    await agent.call('delete_note', { id: 1 });
    await page.locator('tbody tr').nth(before).waitFor();
    assert.ok(await page.evaluate(() => window.isSamePage === true), 'the page was loaded again');
    await page.keyboard.press('j');
    const newest = page.locator('tbody tr').first();
    assert.equal(await newest.getAttribute('aria-selected'), 'true', 'keys begin at the row that came last');
    await page.keyboard.press('j');
    assert.equal(await newest.getAttribute('aria-selected'), null, 'and go on from there');

    await page.locator('tbody a').first().click();
    await page.getByRole('heading', { name: 'Rules walked' }).waitFor();
    const decided = await page.locator('tr.differs').first().innerText();
    assert.match(decided, /\/tools\/delete_note/);
    assert.match(decided, /denied it/);
    await windows.close(page);
  },

  async 'the log is filtered by time, exported and verified'({ windows }) {
    const page = await windows.open();
    await page.goto('/audit');
    await page.getByLabel('Until').fill('2020-01-01T00:00');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('No entries match').waitFor();
    await page.goto('/audit?decision=denied');
    const download = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Export as CSV' }).click();
    assert.equal((await download).suggestedFilename(), 'audit.csv');
    await page.getByRole('link', { name: 'Verify the chain' }).click();
    await page.getByRole('button', { name: 'Verify now' }).click();
    await page.getByText(/Rows \d+ to \d+ .* are as they were written/).waitFor();
    await windows.close(page);
  },
};
