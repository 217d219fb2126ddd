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

  async 'the tour shows a tool that changed, held back until the owner accepts it'({ windows }) {
    const page = await windows.open();
    await page.goto('/tour');
    const step = page.locator('article#change');
    await step.getByRole('button', { name: 'Let the server change the tool' }).click();
    await step.getByText('held back').waitFor();
    assert.match(await step.locator('.changes').innerText(), /description.*list_notes/s);
    await step.getByRole('link', { name: /^entry/ }).click();
    assert.match(await page.innerText('main'), /tool_changed/);
    await page.goBack();
    await step.getByRole('button', { name: 'Keep it refused and call again' }).click();
    await step.getByText('held back').waitFor();
    await page.goto('/');
    assert.match(await page.locator('.attention').innerText(), /weather/);
    await page.goto('/tour');
    await step.getByRole('button', { name: 'Accept the new definition' }).click();
    await step.getByText('accepted', { exact: true }).waitFor();
    await step.getByRole('button', { name: 'Make the call' }).click();
    await page.goto('/audit?grant=demo&tool=forecast');
    assert.match(await page.locator('tbody tr').first().innerText(), /admitted/);
    await windows.close(page);
  },

  async 'a new demo is filled with calls and refusals, and the stack has the tools of every server'({ windows }) {
    const page = await windows.open();
    await page.goto('/audit?grant=assistant');
    const shown = await page.innerText('table');
    for (const decision of ['admitted', 'denied', 'limited']) assert.ok(shown.includes(decision), `${decision}: ${shown}`);
    const { tools } = await (await page.request.get('/stack.json')).json();
    const stack = new Set(tools.map((tool) => tool.server));
    for (const server of ['demo', 'whoop', 'spotify', 'youtube', 'steam', 'reddit', 'bilibili', 'personal', 'weather']) {
      assert.ok(stack.has(server), server);
    }
    await windows.close(page);
  },
};
