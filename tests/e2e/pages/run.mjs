// Drives the dashboard of a running demo gate in Chromium. Reads one JSON object from standard input: `chromium`,
// `python` and the first line of `tollgate --json up --demo`. The last line it prints is the verdict.
import { Agent } from './lib/agent.mjs';
import { launch, Windows } from './lib/browser.mjs';

/// In this order: later files use what earlier ones made.
const FILES = [
  'sign-in', 'attacks', 'passkeys', 'team', 'approvals', 'notifications', 'grants', 'consent', 'policies', 'builder', 'servers',
  'hostile', 'no-script', 'audit', 'accounts', 'health', 'app', 'catalogue', 'story', 'tour', 'looks',
];

async function input() {
  let text = '';
  for await (const part of process.stdin) text += part;
  return JSON.parse(text);
}

async function run(name, test, world) {
  const begin = performance.now();
  const complaints = [];
  try {
    await test(world);
  } catch (error) {
    complaints.push(error.message);
  }
  complaints.push(...world.windows.takeFaults());
  const word = complaints.length === 0 ? 'ok' : 'FAILED';
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  console.log([`${word} ${name}, ${seconds} s`, ...complaints].join('\n     '));
  return complaints.length === 0;
}

const plan = await input();
const browser = await launch(plan.chromium);
const world = {
  windows: new Windows(browser, new URL(plan.dashboard).origin),
  agent: new Agent(plan.server_url, plan.token),
  url: plan.server_url,
  token: plan.token,
  link: plan.dashboard,
  python: plan.python,
  node: process.execPath,
  home: plan.home,
};
/// `TOLLGATE_PAGES=tour,audit` runs only these files, after the sign-in.
const only = process.env.TOLLGATE_PAGES?.split(',');
const chosen = FILES.filter((file) => file === 'sign-in' || !only || only.includes(file));
const verdict = { passed: 0, failed: 0 };
for (const file of chosen) {
  const { tests } = await import(`./${file}.mjs`);
  for (const [name, test] of Object.entries(tests)) {
    verdict[(await run(name, test, world)) ? 'passed' : 'failed'] += 1;
  }
}
await browser.close();
console.log(JSON.stringify(verdict));
