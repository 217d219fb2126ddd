import assert from 'node:assert/strict';

import { Agent } from './lib/agent.mjs';

const IMAGE = '<img src=x onerror="window.isHit = true; alert(1)">';

const switchOf = (page, tool, state) => page.locator(`input[name="s:tools:${tool}"][value="${state}"]`);
const text = (page) => page.getByLabel('Text', { exact: true });

/// Waits until the text of the policy has these words.
async function textHas(page, words) {
  await page.waitForFunction((wanted) => document.getElementById('text').value.includes(wanted), words);
}

async function openBuilder(page, name, start = 'empty') {
  await page.goto('/policies');
  await page.getByLabel('Name of the new policy').fill(name);
  await page.locator('select[name="server"]').selectOption('demo');
  await page.locator('select[name="start"]').selectOption(start);
  await page.getByRole('button', { name: 'Open the builder' }).click();
  await page.getByRole('heading', { name: `Policy ${name}` }).waitFor();
}

/// A grant on the demo server with this policy.
async function grantWith(page, label, policy, url) {
  await page.goto('/grants');
  await page.getByLabel('Label').fill(label);
  await page.getByRole('checkbox', { name: 'demo', exact: true }).check();
  await page.locator('select[name="policy:demo"]').selectOption(policy);
  await page.getByRole('button', { name: 'Create grant' }).click();
  await page.getByRole('heading', { name: `Token of ${label}` }).waitFor();
  return new Agent(url, (await page.locator('pre code').first().innerText()).trim());
}

async function checkDecisions(agent) {
  await agent.toolsAt(200);
  const small = await agent.call('send_money', { to: 'Ada', amount: 5 });
  assert.match(small.text, /Ada/);
  const large = await agent.call('send_money', { to: 'Ada', amount: 500 });
  assert.match(large.text, /POLICY DENIED.*too much/);
}

export const tests = {
  async 'a policy is built with switches and forms, and refuses a call'({ windows, url }) {
    const page = await windows.open();
    await openBuilder(page, 'built');
    await switchOf(page, 'list_notes', 'allow').check();
    await textHas(page, '"list_notes": {}');
    await switchOf(page, 'send_money', 'custom').check();
    await page.getByRole('heading', { name: 'Rules of send_money' }).waitFor();
    await page.locator('select[name="rule_path"]').selectOption('args.amount');
    assert.equal(await page.locator('select[name="rule_op"] option[value="regex"]').isDisabled(), true, 'operators fit the type');
    await page.locator('select[name="rule_op"]').selectOption('gt');
    await page.getByLabel('Value', { exact: true }).fill('100');
    await page.getByLabel('Message to the agent').fill('too much');
    await page.getByRole('button', { name: 'Add condition' }).click();
    await textHas(page, '"op": "gt"');
    assert.match(await page.locator('.changes-in-words').innerText(), /1 tool newly allowed, 1 tool now with conditions, 1 rule added/);
    await page.getByRole('button', { name: 'Save policy' }).click();
    await page.getByText('version 1', { exact: true }).waitFor();
    await checkDecisions(await grantWith(page, 'built-in-page', 'built', url));
    await windows.close(page);
  },

  async 'what a draft would change is said before it is saved'({ windows }) {
    const page = await windows.open();
    await page.goto('/policies/built');
    await switchOf(page, 'list_notes', 'deny').check();
    const words = page.locator('.changes-in-words');
    await words.getByText('1 tool newly denied').waitFor();
    await switchOf(page, 'send_money', 'deny').check();
    await words.getByText('2 tools newly denied').waitFor();
    assert.match(await words.innerText(), /would have been refused/);
    await page.getByRole('link', { name: 'Discard changes' }).click();
    await page.getByText('No unsaved changes').waitFor();
    await windows.close(page);
  },

  async 'comments and edits by hand survive the switches'({ windows }) {
    const page = await windows.open();
    await openBuilder(page, 'by-hand');
    const yaml = `# Ask Ada. ${IMAGE}\nversion: "1"\ndefault: deny   # nothing goes unnamed\ntools:\n  "${IMAGE.replaceAll('"', '\\"')}": {}\n  list_notes: {} # harmless\n`;
    await text(page).fill(yaml);
    await switchOf(page, 'list_notes', 'allow').and(page.locator(':checked')).waitFor({ state: 'attached' });
    await switchOf(page, 'list_notes', 'deny').check();
    await textHas(page, 'list_notes: { "action": "deny" } # harmless');
    const now = await text(page).inputValue();
    assert.ok(now.startsWith(`# Ask Ada. ${IMAGE}\n`) && now.includes('default: deny   # nothing goes unnamed'), now);
    await text(page).fill(now.replace('default: deny', 'default: sometimes'));
    await page.getByText(/line 3, column \d+/).waitFor();
    await text(page).fill(now);
    await switchOf(page, 'send_money', 'ask').check();
    await textHas(page, 'action: require_approval');
    await page.getByRole('button', { name: 'Save policy' }).click();
    await page.getByText('version 1', { exact: true }).waitFor();
    assert.match(await text(page).inputValue(), /# Ask Ada/);
    assert.equal(await page.evaluate(() => window.isHit), undefined, 'script ran');
    assert.equal(await page.locator('main img, main script').count(), 0, 'markup');
    assert.match(await page.innerText('.names'), /<img src=x/);
    await windows.close(page);
  },

  async 'a refused text stays on the page with its problem'({ windows }) {
    const page = await windows.open();
    await page.goto('/policies/by-hand');
    const broken = '{\n  "version": "1",\n  "default": "deny",\n  "tests": [{ "tool": "x", "expect": "allow" }]\n}\n';
    await text(page).fill(broken);
    await page.getByText(/own tests fails/).waitFor();
    await page.getByRole('button', { name: 'Save as a new version' }).click();
    await page.getByText('Not saved. The text below is as you left it.').waitFor();
    assert.equal(await text(page).inputValue(), broken);
    await windows.close(page);
  },

  async 'the same without script'({ windows, url }) {
    const page = await windows.open({ javaScriptEnabled: false });
    await openBuilder(page, 'built-without-script', 'recommended');
    assert.match(await text(page).inputValue(), /send_money/);
    await page.locator('select[name="start"]').selectOption('empty');
    await page.getByRole('button', { name: 'Replace the text' }).click();
    await switchOf(page, 'send_money', 'custom').check();
    await page.getByRole('button', { name: 'Check the text' }).click();
    await page.locator('select[name="rule_path"]').selectOption('args.amount');
    await page.locator('select[name="rule_op"]').selectOption('regex');
    await page.getByLabel('Value', { exact: true }).fill('100');
    await page.getByLabel('Message to the agent').fill('too much');
    await page.getByRole('button', { name: 'Add condition' }).click();
    await page.getByText('cannot compare').first().waitFor();
    assert.equal(await page.getByLabel('Message to the agent').inputValue(), 'too much', 'what was typed stays');
    await page.locator('select[name="rule_op"]').selectOption('gt');
    await page.getByRole('button', { name: 'Add condition' }).click();
    assert.match(await text(page).inputValue(), /"gt"/);
    await page.getByText('Change many tools at once').click();
    await page.locator('select[name="bulk_category"]').selectOption('read');
    await page.locator('select[name="bulk_state"]').selectOption('allow');
    await page.getByRole('button', { name: 'Set all of them' }).click();
    assert.match(await text(page).inputValue(), /"list_notes": \{\}/);
    await page.getByRole('button', { name: 'Save policy' }).click();
    await page.getByText('version 1', { exact: true }).waitFor();
    await checkDecisions(await grantWith(page, 'built-without-script', 'built-without-script', url));
    await windows.close(page);
  },
};
