import assert from 'node:assert/strict';

export const tests = {
  async 'a server and its tools have pages with risk, evidence and a rule'({ windows }) {
    const page = await windows.open();
    await page.goto('/catalogue');
    await page.getByRole('link', { name: 'demo', exact: true }).click();
    await page.getByRole('link', { name: 'send_money' }).click();
    await page.getByRole('heading', { name: 'Recommended rule' }).waitFor();
    assert.match(await page.innerText('main'), /critical/);
    await windows.close(page);
  },

  async 'the stack lists what agents can call, and puts policy on the rest'({ windows }) {
    const page = await windows.open();
    await page.goto('/grants');
    await page.getByLabel('Label').fill('without-policy');
    await page.getByRole('checkbox', { name: 'demo', exact: true }).check();
    await page.getByRole('button', { name: 'Create grant' }).click();
    await page.goto('/stack');
    await page.getByRole('button', { name: 'Save and attach the policies' }).click();
    await page.getByRole('heading', { name: 'Stack' }).waitFor();
    assert.equal(await page.getByText('Put policy on all of it').count(), 0);
    assert.match(await page.innerText('table'), /without-policy/);
    await page.getByRole('link', { name: /^critical \d+$/ }).click();
    assert.match(page.url(), /risk=critical/);
    const risks = await page.locator('td .risk').allInnerTexts();
    assert.ok(risks.length > 0 && risks.every((risk) => risk === 'critical'), risks.join());
    await windows.close(page);
  },
};
