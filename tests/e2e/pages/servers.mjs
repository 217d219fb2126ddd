import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';

/// The folder of a real server from npm, which the tests install, and the command that starts it.
function npmServer(name) {
  const folder = fileURLToPath(new URL('.', import.meta.resolve(`@modelcontextprotocol/${name}/package.json`)));
  return { folder, command: `${process.execPath} ${folder}dist/index.js` };
}

function filesCommand() {
  const { folder, command } = npmServer('server-filesystem');
  return `${command} ${folder}`;
}

export const tests = {
  async 'a real server is tried, added, used and removed'({ windows }) {
    const page = await windows.open();
    await page.goto('/servers');
    await page.getByText('A command on this machine').click();
    const form = page.locator('form').filter({ has: page.locator('input[name="command"]') });
    await form.getByLabel('Name', { exact: true }).first().fill('files');
    await form.getByLabel('Command').fill('/no/such/program');
    await form.getByRole('button', { name: 'Try it' }).click();
    await page.getByText('there is no program').waitFor();
    assert.equal(await form.getByLabel('Command').inputValue(), '/no/such/program', 'what was typed stays');
    await form.getByLabel('Command').fill(filesCommand());
    await form.getByRole('button', { name: 'Try it' }).click();
    await page.getByRole('heading', { name: 'files answered' }).waitFor();
    assert.match(await page.getByRole('region', { name: 'Tools that were found' }).innerText(), /write_file/);
    await page.getByRole('button', { name: /^Add files/ }).click();
    await page.getByRole('heading', { name: 'Server files' }).waitFor();
    assert.match(await page.getByRole('region', { name: 'Tools' }).innerText(), /read_text_file/);
    await page.getByText('Remove this server').click();
    await page.getByRole('button', { name: 'Remove server' }).click();
    await page.getByRole('heading', { name: 'Servers', exact: true }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'files', exact: true }).count(), 0);
    await windows.close(page);
  },

  async 'the builder has a switch for resources and prompts of a server that was just added'({ windows }) {
    const page = await windows.open();
    await page.goto('/servers');
    await page.getByText('A command on this machine').click();
    const form = page.locator('form').filter({ has: page.locator('input[name="command"]') });
    await form.getByLabel('Name', { exact: true }).first().fill('all-kinds');
    await form.getByLabel('Command').fill(npmServer('server-everything').command);
    await form.getByRole('button', { name: 'Try it' }).click();
    await page.getByRole('button', { name: /^Add all-kinds/ }).click();
    await page.getByRole('heading', { name: 'Server all-kinds' }).waitFor();
    await page.goto('/policies');
    await page.getByLabel('Name of the new policy').fill('all-kinds');
    await page.locator('select[name="server"]').selectOption('all-kinds');
    await page.locator('select[name="start"]').selectOption('empty');
    await page.getByRole('button', { name: 'Open the builder' }).click();
    await page.getByRole('heading', { name: 'Policy all-kinds' }).waitFor();
    for (const name of ['s:tools:echo', 's:prompts:simple-prompt']) {
      await page.locator(`input[name="${name}"][value="allow"]`).check();
    }
    await page.locator('input[name^="s:resources:"][value="ask"]').first().check();
    await page.waitForFunction(() => /"resources": \{[^]*require_approval/.test(document.getElementById('text').value));
    assert.match(await page.getByLabel('Text', { exact: true }).inputValue(), /"prompts": \{\s*"simple-prompt"/);
    await page.getByRole('button', { name: 'Save policy' }).click();
    await page.getByRole('heading', { name: 'Versions' }).waitFor();
    await page.goto('/servers/all-kinds');
    await page.getByText('Remove this server').click();
    await page.getByRole('button', { name: 'Remove server' }).click();
    await page.getByRole('heading', { name: 'Servers', exact: true }).waitFor();
    await windows.close(page);
  },

  async 'a tool is judged by a grant before it runs, and leaves an audit row'({ windows }) {
    const page = await windows.open();
    await page.goto('/servers/demo/tools/send_money');
    await page.locator('select[name="grant"]').selectOption('demo');
    await page.getByLabel(/^to /).fill('Hedy');
    await page.getByLabel(/^amount /).fill('500');
    await page.getByRole('button', { name: 'Run it if allowed' }).click();
    await page.getByText('would be denied').waitFor();
    await page.getByText('not run').waitFor();
    assert.equal(await page.getByLabel(/^to /).inputValue(), 'Hedy');
    await page.getByLabel(/^amount /).fill('7');
    await page.getByRole('button', { name: 'What would happen' }).click();
    await page.getByText('would be allowed').waitFor();
    assert.equal(await page.getByRole('heading', { name: 'Result' }).count(), 0, 'judging runs nothing');
    await page.getByRole('button', { name: 'Run it if allowed' }).click();
    await page.getByRole('heading', { name: 'Result' }).waitFor();
    assert.match(await page.innerText('main'), /Hedy/);
    await page.getByRole('link', { name: 'Its entry in the audit log' }).click();
    await page.locator('tbody a').first().click();
    assert.match(await page.innerText('main'), /dashboard \(owner\)/);
    await windows.close(page);
  },
};
