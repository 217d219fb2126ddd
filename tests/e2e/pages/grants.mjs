import assert from 'node:assert/strict';

import { Agent } from './lib/agent.mjs';

export async function createGrant(page, label, server = 'demo') {
  await page.goto('/grants');
  await page.getByLabel('Label').fill(label);
  await page.getByRole('checkbox', { name: server, exact: true }).check();
  await page.locator(`select[name="policy:${server}"]`).selectOption(server);
  await page.getByRole('button', { name: 'Create grant' }).click();
  await page.getByRole('heading', { name: `Token of ${label}` }).waitFor();
  return (await page.locator('pre code').first().innerText()).trim();
}

export const tests = {
  async 'a token works until its grant is revoked'({ windows, url }) {
    const page = await windows.open();
    const token = await createGrant(page, 'made-in-page');
    const agent = new Agent(url, token);
    const names = await agent.toolsAt(200);
    assert.ok(names.includes('list_notes'), names.join(', '));

    await page.getByRole('link', { name: 'Done' }).click();
    await page.getByText('Revoke this grant').click();
    await page.getByRole('button', { name: 'Revoke grant' }).click();
    await page.getByRole('row', { name: /made-in-page token revoked/ }).waitFor();
    await agent.toolsAt(401);
    assert.ok(!(await page.content()).includes(token), 'the token is shown again');
    await windows.close(page);
  },
};
