import assert from 'node:assert/strict';

const text = (name) => JSON.stringify({ version: '1', default: 'deny', tools: { [name]: {} } }, null, 2);

export const tests = {
  async 'policies are saved, refused when broken, and restored'({ windows }) {
    const page = await windows.open();
    await page.goto('/policies');
    await page.getByLabel('Name', { exact: true }).fill('written-in-page');
    await page.getByLabel('JSON or YAML').fill(text('first'));
    await page.getByRole('button', { name: 'Save policy' }).click();
    await page.getByText('version 1', { exact: true }).waitFor();

    await page.getByLabel('Text', { exact: true }).fill(text('second'));
    await page.getByRole('button', { name: 'Save as a new version' }).click();
    await page.getByText('version 2', { exact: true }).waitFor();

    await page.getByLabel('Text', { exact: true }).fill('{\n  "version": "1",\n  "default": "sometimes"\n}');
    await page.getByRole('button', { name: 'Save as a new version' }).click();
    const problem = await page.locator('.raw .problem').innerText();
    assert.match(problem, /line 3, column \d+|3:\d+/);
    assert.match(await page.getByLabel('Text', { exact: true }).inputValue(), /sometimes/, 'what was typed stays');
    await page.goto('/policies/written-in-page');
    assert.match(await page.locator('.state').innerText(), /version 2/);
    assert.match(await page.getByLabel('Text', { exact: true }).inputValue(), /second/);

    await page.getByRole('link', { name: '1', exact: true }).click();
    await page.getByRole('heading', { name: 'Difference to the current version' }).waitFor();
    assert.match(await page.locator('.diff .removed').innerText(), /second/);
    assert.match(await page.locator('.diff .added').innerText(), /first/);
    await page.getByRole('button', { name: 'Return to this version' }).click();
    await page.getByText('version 3', { exact: true }).waitFor();
    assert.match(await page.getByLabel('Text', { exact: true }).inputValue(), /first/);
    await windows.close(page);
  },
};
