import assert from 'node:assert/strict';

import { card } from './approvals.mjs';
import { createGrant } from './grants.mjs';
import { Agent } from './lib/agent.mjs';

export const tests = {
  async 'approve and create a grant without script'({ windows, agent, url }) {
    const page = await windows.open({ javaScriptEnabled: false });
    const call = agent.call('send_money', { to: 'Radia', amount: 55 });
    while ((await page.goto('/approvals')) && (await card(page, 'Radia').count()) === 0);
    await card(page, 'Radia').getByRole('button', { name: 'Approve once' }).click();
    assert.match((await call).text, /Radia/);

    const token = await createGrant(page, 'made-without-script');
    await new Agent(url, token).toolsAt(200);
    await windows.close(page);
  },
};
