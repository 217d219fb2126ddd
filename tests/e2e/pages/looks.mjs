// Every page in both color schemes, wide and narrow, with everything on it unfolded: accessible, and no wider than the
// window.
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import { AxeBuilder } from '@axe-core/playwright';

import { card } from './approvals.mjs';

const WIDTHS = [1280, 390];
/// The narrowest phones; there pages only have to fit.
const NARROWEST = 320;
const SCHEMES = ['light', 'dark'];
const SHOTS = process.env.TOLLGATE_SCREENSHOTS;

const GRAVE = new Set(['serious', 'critical']);

/// All rules in the light scheme; in the dark one those that depend on colors.
async function faultsOf(page, colorScheme) {
  const axe = new AxeBuilder({ page }).setLegacyMode(true);
  if (colorScheme === 'dark') axe.withRules(['color-contrast', 'link-in-text-block']);
  const { violations } = await axe.analyze();
  const grave = violations.filter((one) => GRAVE.has(one.impact));
  const said = (one, node) => `${one.id}: ${node.html.slice(0, 160)} (${node.any[0]?.message ?? one.help})`;
  return grave.flatMap((one) => one.nodes.map((node) => said(one, node)));
}

async function shoot(page, name) {
  await mkdir(SHOTS, { recursive: true });
  await page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage: true });
}

async function checkWidth(page, name, faults) {
  const { width } = page.viewportSize();
  const [wide, widest] = await page.evaluate(() => {
    const root = document.scrollingElement;
    const ends = [...root.querySelectorAll('main *')].filter((one) => one.getBoundingClientRect().right > innerWidth);
    return [root.scrollWidth, ends.at(-1)?.outerHTML.slice(0, 160) ?? ''];
  });
  if (wide > width) faults.push(`${name} at ${width}: ${wide} pixels wide: ${widest}`);
}

/// Looks at the page that is open, in both color schemes.
async function look(page, name, faults) {
  const { width, height } = page.viewportSize();
  await checkWidth(page, name, faults);
  if (SHOTS) {
    for (const colorScheme of SCHEMES) {
      await page.emulateMedia({ colorScheme });
      await shoot(page, `${name}-${width}-${colorScheme}`);
    }
  }
  await page.evaluate(() => { for (const one of document.querySelectorAll('details')) one.open = true; });
  await checkWidth(page, `${name}, unfolded`, faults);
  if (width < WIDTHS[0]) {
    await page.setViewportSize({ width: NARROWEST, height });
    await checkWidth(page, `${name}, unfolded`, faults);
    await page.setViewportSize({ width, height });
  }
  for (const colorScheme of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    for (const fault of await faultsOf(page, colorScheme)) faults.push(`${name} at ${width}, ${colorScheme}: ${fault}`);
  }
}

async function pathsOf(page, approval) {
  await page.goto('/audit');
  const entry = await page.locator('tbody a').first().getAttribute('href');
  return {
    overview: '/', approvals: '/approvals', approval, audit: '/audit', entry,
    'audit-empty': '/audit?text=nothing-has-this-text', servers: '/servers', server: '/servers/demo', tool: '/servers/demo/tools/send_money',
    'policy-demo': '/policies/demo',
    policies: '/policies', policy: '/policies/written-in-page', grants: '/grants', grant: '/grants/demo',
    people: '/people', person: '/people/owner', 'your-sign-in': '/your-sign-in', notifications: '/notifications',
    accounts: '/accounts', data: '/accounts/whoop/data',
    health: '/health', 'health-week': '/health/recovery?span=W', 'health-metric': '/health/hrv?span=3M', 'health-all': '/health/recovery?span=All',
    'health-sleep': '/health/sleep', 'health-load': '/health/load', 'health-drivers': '/health/drivers', 'health-compare': '/health/compare',
    activity: '/activity', music: '/activity/music', games: '/activity/games', video: '/activity/video', forums: '/activity/forums', verify: '/audit/verify', catalogue: '/catalogue?words=file',
    'catalogue-server': '/catalogue/demo', 'catalogue-tool': '/catalogue/demo/send_money', stack: '/stack', tour: '/tour', 'server-changed': '/servers/weather', 'not-found': '/grants/no-such-grant',
  };
}

export const tests = {
  async 'every page is accessible and fits, wide and narrow, light and dark'({ windows, agent, link }) {
    const faults = [];
    const call = agent.call('send_money', { to: 'Margaret', amount: 56 });
    const wide = await windows.open();
    await wide.goto('/approvals');
    await card(wide, 'Margaret').waitFor();
    const approval = await card(wide, 'Margaret').getByRole('link', { name: 'Details' }).getAttribute('href');
    const paths = await pathsOf(wide, approval);
    await windows.close(wide);
    for (const width of WIDTHS) {
      const page = await windows.open({ width });
      for (const [name, path] of Object.entries(paths)) {
        await page.goto(path);
        await look(page, name, faults);
      }
      await page.goto('/policies/built');
      await page.locator('input[name="s:tools:send_money"][value="deny"]').check();
      await page.locator('.changes-in-words').getByText('newly denied').waitFor();
      await page.getByRole('button', { name: 'Rules of send_money' }).click();
      await page.getByRole('heading', { name: 'Rules of send_money' }).waitFor();
      await look(page, 'builder', faults);
      await page.getByRole('link', { name: 'Discard changes' }).click();
      await page.goto('/people');
      await page.getByRole('button', { name: 'Sign-in link' }).first().click();
      await page.getByRole('heading', { name: /^Sign-in link/ }).waitFor();
      await look(page, 'link', faults);
      await page.goto('/grants/made-without-script');
      await page.getByRole('button', { name: 'Rotate token' }).click();
      await page.getByRole('heading', { name: /^Token of/ }).waitFor();
      await look(page, 'token', faults);
      await page.goto(link);
      await look(page, 'sign-in', faults);
      await windows.close(page);
      const stranger = await windows.open({ signedIn: false, width, baseURL: windows.base.replace('127.0.0.1', 'localhost') });
      await stranger.goto('/');
      await look(stranger, 'sign-in-choices', faults);
      await stranger.goto(`${windows.base}/`);
      await look(stranger, 'sign-in-at-number', faults);
      await windows.close(stranger);
    }
    const page = await windows.open();
    await page.goto(approval);
    await page.getByRole('button', { name: 'Deny' }).click();
    await call;
    await windows.close(page);
    assert.deepEqual(faults, []);
  },
};
