import assert from 'node:assert/strict';

export const tests = {
  async 'an account is synced, shown by day and exported'({ windows }) {
    const page = await windows.open();
    await page.goto('/accounts');
    const whoop = page.locator('article#whoop');
    await whoop.getByText('connected', { exact: true }).waitFor();
    await whoop.getByRole('button', { name: 'Sync now' }).click();
    await whoop.getByText(/new or changed records/).waitFor();
    await whoop.getByRole('link', { name: /records/ }).click();
    await page.getByRole('heading', { name: 'Data of WHOOP' }).waitFor();
    assert.ok((await page.locator('svg.bars').count()) > 0, 'a chart for each kind with records');

    await page.goto('/accounts');
    const download = page.waitForEvent('download');
    await whoop.getByRole('button', { name: 'Download' }).click();
    assert.match((await download).suggestedFilename(), /^whoop-.*\.csv$/);
    await windows.close(page);
  },

  async 'a demo account cannot be connected to a real service'({ windows }) {
    const page = await windows.open();
    await page.goto('/accounts');
    const whoop = page.locator('article#whoop');
    await whoop.getByText('Sign in to WHOOP again').click();
    await whoop.getByLabel('Client id').fill('typed-id');
    await whoop.getByRole('button', { name: 'Connect', exact: true }).click();
    assert.match(await page.locator('.problem').first().innerText(), /demo home/);
    assert.equal(await whoop.getByLabel('Client id').inputValue(), 'typed-id', 'what was typed is kept');
    await windows.close(page);
  },
};
