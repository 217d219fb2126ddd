import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { card } from './approvals.mjs';
import { createGrant } from './grants.mjs';
import { Agent } from './lib/agent.mjs';
import { everyPage } from './lib/pages.mjs';

/// A server that puts markup into everything it says.
const SERVER = fileURLToPath(new URL('../servers/markup.mjs', import.meta.url));

const IMAGE = '<img src=x onerror="window.isHit = true; alert(1)">';
const SCRIPT = '</script></code><script>window.isHit = true; alert(2)</script>';
/// Turns the text after it around.
const REVERSED = '\u202e';

async function checkUnhit(page, path) {
  assert.equal(await page.evaluate(() => window.isHit), undefined, `script ran on ${path}`);
  assert.equal(await page.locator('main img, main script').count(), 0, `markup on ${path}`);
  const text = await page.locator('main').innerText();
  assert.doesNotMatch(text, /[\u200b\u202a-\u202e\u2066-\u2069]/, `hidden characters on ${path}`);
}

async function newestEntry(page, path) {
  await page.goto(path);
  return (await page.locator('tbody a').first().innerText()).trim();
}

export const tests = {
  async 'markup in arguments, tool and client names is shown as text'({ windows, agent }) {
    const page = await windows.open();
    await page.goto('/approvals');
    const call = agent.call('send_money', { to: `${IMAGE} ${SCRIPT}${REVERSED}`, amount: 54 }, { client: `${SCRIPT}${REVERSED}` });
    const hostile = card(page, 'window.isHit');
    await hostile.waitFor();
    assert.match(await hostile.innerText(), /<img src=x onerror=.*<\/script><\/code><script>/s);
    assert.match(await hostile.locator('pre').first().innerText(), /⟨U\+202E⟩/, 'the owner sees that the text is turned around');
    await checkUnhit(page, '/approvals');
    await hostile.getByRole('link', { name: 'Details' }).click();
    await page.getByRole('heading', { name: 'What will be sent' }).waitFor();
    await checkUnhit(page, page.url());
    await page.getByLabel('Reason').fill(IMAGE);
    await page.getByRole('button', { name: 'Deny' }).click();
    assert.ok((await call).text.includes('<img src=x'), 'the agent reads the reason as it was written');
    await agent.call(IMAGE, {}, { client: IMAGE });

    for (const path of ['/approvals', '/', '/audit']) {
      await page.goto(path);
      await checkUnhit(page, path);
    }
    await page.goto('/audit');
    assert.match(await page.innerText('table'), /<img src=x/);
    await page.locator('tbody a').first().click();
    await page.getByRole('heading', { name: /^Entry/ }).waitFor();
    await checkUnhit(page, page.url());
    await windows.close(page);
  },

  async 'markup of a server and in comments of a policy is shown as text'({ windows }) {
    const page = await windows.open();
    await page.goto('/servers');
    await page.getByText('A command on this machine').click();
    const form = page.locator('form').filter({ has: page.locator('input[name="command"]') });
    await form.getByLabel('Name', { exact: true }).first().fill('hostile');
    await form.getByLabel('Command').fill(`${process.execPath} ${SERVER}`);
    await form.getByRole('button', { name: 'Try it' }).click();
    await page.getByRole('heading', { name: 'hostile answered' }).waitFor();
    await checkUnhit(page, 'the try');
    await page.getByRole('button', { name: /^Add hostile/ }).click();
    await page.getByRole('heading', { name: 'Server hostile' }).waitFor();
    const { tools } = await (await page.request.get('/servers/hostile.json')).json();
    const evil = tools.find((tool) => tool.name.startsWith('read_'));
    assert.ok(evil.name.includes('<script>') && evil.description.includes('onerror'), 'stored as the server said it');
    const tool = encodeURIComponent(evil.name).replaceAll('.', '%2E');
    await page.goto('/policies');
    await page.getByLabel('Name', { exact: true }).fill('hostile-comments');
    await page.getByLabel('JSON or YAML').fill(`# ${SCRIPT} ${IMAGE}\nversion: "1"\ndefault: deny\ndescription: '${SCRIPT.replaceAll("'", '')}'\n`);
    await page.getByRole('button', { name: 'Save policy' }).click();
    await page.getByText('version 1', { exact: true }).waitFor();
    for (const path of [
      '/', '/servers', '/servers/hostile', `/servers/hostile/tools/${tool}`, '/catalogue', '/catalogue/hostile', '/stack',
      '/policies/hostile-comments', '/audit', '/grants',
    ]) {
      const response = await page.goto(path);
      assert.equal(response.status(), 200, path);
      await checkUnhit(page, path);
    }
    await page.goto('/catalogue/hostile');
    await page.locator('tbody a').first().click();
    await checkUnhit(page, page.url());
    await page.goto('/policies');
    await page.getByLabel('Name of the new policy').fill('hostile-built');
    await page.locator('select[name="server"]').selectOption('hostile');
    await page.getByRole('button', { name: 'Open the builder' }).click();
    await page.getByRole('heading', { name: 'Policy hostile-built' }).waitFor();
    await checkUnhit(page, 'the builder');
    await page.goto('/servers/hostile');
    await page.getByText('Remove this server').click();
    await page.getByRole('button', { name: 'Remove server' }).click();
    await windows.close(page);
  },

  async 'markup of server errors is shown as text, on every page'({ windows, url }) {
    const page = await windows.open();
    const sign = join(tmpdir(), `markup-${process.pid}`);
    const addForm = async () => {
      await page.goto('/servers');
      await page.getByText('A command on this machine').click();
      const form = page.locator('form').filter({ has: page.locator('input[name="command"]') });
      await form.getByLabel('Name', { exact: true }).first().fill('broken');
      await form.getByLabel('Command').fill(`${process.execPath} ${SERVER} ${sign}`);
      await form.getByRole('button', { name: 'Try it' }).click();
    };
    // A try that fails shows what the server said.
    await writeFile(sign, '');
    await addForm();
    await page.getByRole('alert').waitFor();
    assert.match(await page.getByRole('alert').innerText(), /<script>|onerror/);
    await checkUnhit(page, 'a failed try');
    await rm(sign);
    await addForm();
    await page.getByRole('button', { name: /^Add broken/ }).click();
    await page.getByRole('heading', { name: 'Server broken' }).waitFor();

    // A call that fails, by an agent and on the page of the tool.
    await page.goto('/policies');
    await page.getByLabel('Name', { exact: true }).fill('broken');
    await page.getByLabel('JSON or YAML').fill('{"version":"1","default":"deny","tools":{"fail":{}}}');
    await page.getByRole('button', { name: 'Save policy' }).click();
    await page.getByText('version 1', { exact: true }).waitFor();
    const token = await createGrant(page, 'broken', 'broken');
    const answer = await new Agent(url.replace(/demo$/, 'broken'), token).call('fail', {}, { client: SCRIPT });
    assert.match(answer.text, /onerror/, 'the agent reads the error as it was written');
    await page.goto('/servers/broken/tools/fail');
    await page.locator('select[name="grant"]').selectOption('broken');
    await page.getByRole('button', { name: 'Run it if allowed' }).click();
    await page.getByRole('heading', { name: 'Error result' }).waitFor();
    assert.match(await page.innerText('main'), /onerror/);
    await checkUnhit(page, 'the tried tool');

    // The server refuses to list, and ends.
    await writeFile(sign, '');
    await page.goto('/servers/broken');
    await page.getByRole('button', { name: 'List them now' }).click();
    await page.locator('.problem').first().waitFor();
    assert.match(await page.locator('.problem').first().innerText(), /<script>|onerror/);
    await checkUnhit(page, 'the failed list');

    const tool = (await (await page.request.get('/servers/broken.json')).json()).tools.find((one) => one.name !== 'fail').name;
    const names = {
      server: 'broken', tool, label: 'broken', name: { servers: 'broken', policies: 'broken', people: 'owner' },
      seq: await newestEntry(page, '/audit?grant=broken'), id: undefined, service: 'whoop', metric: 'hrv', topic: 'music',
    };
    for (const path of await everyPage(page, names)) {
      const response = await page.goto(path);
      assert.ok([200, 404].includes(response.status()), `${path}: ${response.status()}`);
      await checkUnhit(page, path);
    }
    await page.goto('/servers/broken');
    await page.getByText('Remove this server').click();
    await page.getByRole('button', { name: 'Remove server' }).click();
    await rm(sign);
    await windows.close(page);
  },

  async 'the content security policy blocks injected script'({ windows }) {
    const page = await windows.open();
    await page.goto('/');
    const outcome = await page.evaluate(async () => {
      const attempts = {
        handler: () => document.body.setAttribute('onclick', 'window.isHit = true'),
        markup: () => { document.body.innerHTML = '<img src=x onerror="window.isHit = true">'; },
        inline: () => {
          const script = document.createElement('script');
          script.append('window.isHit = true');
          document.body.append(script);
        },
      };
      for (const attempt of Object.values(attempts)) {
        try { attempt(); } catch { /* refused, as it should be */ }
      }
      // Later: what a test evaluates itself may use eval.
      await new Promise((resolve) => {
        setTimeout(() => { try { window.eval('window.isHit = true'); } catch { /* refused */ } resolve(); });
      });
      document.body.click();
      return { isHit: window.isHit, images: document.images.length };
    });
    assert.deepEqual(outcome, { isHit: undefined, images: 0 });
    const faults = windows.takeFaults();
    assert.ok(faults.length > 0, 'the browser reports what it blocked');
    await windows.close(page);
  },
};
