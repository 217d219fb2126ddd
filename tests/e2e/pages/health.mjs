// The owner's health and activity, with the made-up accounts of the demo.
import assert from 'node:assert/strict';

const PAGE_BYTES_MAX = 150 * 1024;
const PATHS = [
  '/health', '/health/recovery?span=W', '/health/hrv?span=6M', '/health/hrv?span=1Y', '/health/asleep?span=All', '/health/sleep',
  '/health/load', '/health/drivers', '/health/compare', '/activity', '/activity/music', '/activity/games', '/activity/video',
  '/activity/forums',
];

/// The mirror of an account is filled in the background.
async function reloadUntil(page, locator) {
  const end = performance.now() + 60_000;
  while ((await locator.count()) === 0 && performance.now() < end) {
    await page.waitForTimeout(500);
    await page.reload();
  }
  await locator.first().waitFor();
}

export const tests = {
  async 'health shows today, and one metric over each span'({ windows }) {
    const page = await windows.open();
    await page.goto('/health');
    assert.equal(await page.locator('table.glance tbody tr').count(), 7, 'each main metric');
    await page.getByRole('link', { name: 'Recovery', exact: true }).first().click();
    await page.getByRole('heading', { name: 'Recovery', level: 1 }).waitFor();
    for (const span of ['W', 'M', '6M', 'All', '3M']) {
      await page.getByRole('link', { name: span, exact: true }).click();
      await page.waitForURL(`**/health/recovery?span=${span}`);
      assert.equal(await page.locator('.tabs [aria-current]').innerText(), span);
      assert.match(await page.locator('figure h3').first().innerText(), /\d+ readings/);
    }
    assert.match(await page.locator('.state').innerText(), /95 % interval .* readings, worth \d+ independent/);
    await page.getByText('Data table of Recovery').first().click();
    const rows = await page.locator('figure').first().locator('tbody tr').count();
    assert.ok(rows > 60, `${rows} rows of the last 3 months`);
    await windows.close(page);
  },

  async 'a mark says its value on hover and on focus'({ windows }) {
    const page = await windows.open();
    await page.goto('/health/recovery?span=M');
    const mark = page.locator('svg.chart .mark').first();
    const tip = mark.locator('.tip');
    assert.equal(await tip.isVisible(), false);
    await mark.focus();
    assert.equal(await tip.isVisible(), true);
    assert.match(await tip.textContent(), /^\d{4}-\d\d-\d\d: \d+ %$/);
    await page.locator('h1').click();
    const other = page.locator('svg.chart .mark').nth(5);
    await other.locator('.hit').hover();
    assert.equal(await other.locator('.tip').isVisible(), true);
    await windows.close(page);
  },

  async 'two metrics and two periods are compared by their address'({ windows }) {
    const page = await windows.open({ javaScriptEnabled: false });
    await page.goto('/health/compare');
    await page.locator('select[name=x]').selectOption('strain');
    await page.locator('select[name=y]').selectOption('hrv');
    await page.locator('input[name=lag]').fill('1');
    await page.getByRole('button', { name: 'Compare' }).first().click();
    await page.getByRole('heading', { name: /Day strain and HRV of the next day/ }).waitFor();
    await page.goto('/health/compare?first_from=2026-03-01&first_to=2026-02-01&second_from=2026-01-01&second_to=2026-01-31');
    assert.match(await page.locator('main').innerText(), /must not end before it begins/);
    await windows.close(page);
  },

  async 'activity is what the mirror holds'({ windows }) {
    const page = await windows.open();
    await page.goto('/activity/music');
    await reloadUntil(page, page.locator('svg.chart'));
    assert.ok((await page.locator('svg.chart').count()) >= 2, 'by day and by hour');
    await page.goto('/activity/games');
    await reloadUntil(page, page.getByText('All time'));
    await windows.close(page);
  },

  async 'pages of own data are small and have twins'({ windows }) {
    const page = await windows.open();
    for (const path of PATHS) {
      const response = await page.goto(path);
      assert.equal(response.status(), 200, path);
      const bytes = (await response.body()).length;
      assert.ok(bytes < PAGE_BYTES_MAX, `${path} has ${bytes} bytes`);
      const [address, query = ''] = path.split('?');
      const twin = await page.request.get(`${address}.json?${query}`);
      assert.equal(twin.status(), 200, path);
      assert.ok(!JSON.stringify(await twin.json()).includes('<svg'), 'a twin has data, not drawings');
    }
    await windows.close(page);
  },
};
