// Reads the plan, runs the steps against one agent, prints the verdict.

import { readFileSync } from 'node:fs';
import { plannedCall, steps } from './steps.mjs';

// Far above what a step takes on a quiet machine: tests also run where others compile.
const WATCHDOG_SECONDS = 180;
const STEP_MS_MAX = 60_000;

/** `makeAgent(plan)` returns an agent; it is connected here, so that a failure is a step of its own. */
export async function main(clientName, makeAgent) {
  const plan = readPlan();
  const verdict = { client: clientName, era: plan.era, transport: plan.url ? 'http' : 'stdio', ok: false, steps: [] };
  const watchdog = setTimeout(() => {
    verdict.steps.push({ step: 'watchdog', ok: false, error: 'the client hung' });
    finish(verdict);
  }, (plan.watchdog_seconds ?? WATCHDOG_SECONDS) * 1000);

  const agent = makeAgent(plan);
  const connected = await run(verdict, 'connect', async () => {
    await agent.connect();
    verdict.protocol_version = agent.protocolVersion();
    if (plan.protocol_version && verdict.protocol_version !== plan.protocol_version) {
      throw new Error(`negotiated ${verdict.protocol_version}`);
    }
    return verdict.protocol_version;
  });
  if (connected) await runAll(verdict, agent, plan);
  await run(verdict, 'close', () => agent.close());
  clearTimeout(watchdog);
  finish(verdict);
}

async function runAll(verdict, agent, plan) {
  for (const call of plan.calls ?? []) {
    await run(verdict, `call ${call.tool}`, () => plannedCall(agent, plan, call));
  }
  if (plan.only_calls) return;
  for (const [name, step] of Object.entries(steps)) {
    if (!plan.skip.includes(name)) await run(verdict, name, () => step(agent, plan));
  }
}

async function run(verdict, step, act) {
  const started = performance.now();
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`still running after ${STEP_MS_MAX} ms`)), STEP_MS_MAX);
  });
  try {
    const detail = await Promise.race([act(), limit]);
    verdict.steps.push({ step, ok: true, ms: Math.round(performance.now() - started), ...(detail !== undefined && { detail }) });
    return true;
  } catch (error) {
    verdict.steps.push({ step, ok: false, ms: Math.round(performance.now() - started), error: String(error?.message ?? error), code: error?.code });
    return false;
  } finally {
    clearTimeout(timer);
  }
}

function readPlan() {
  const path = process.argv[2];
  if (!path) {
    console.error('usage: SCRIPT PLAN.json (or - for standard input)');
    process.exit(2);
  }
  const plan = JSON.parse(readFileSync(path === '-' ? 0 : path, 'utf8'));
  return { prefix: '', era: 'legacy', skip: [], ...plan };
}

function finish(verdict) {
  verdict.ok = verdict.steps.every((step) => step.ok);
  console.log(JSON.stringify(verdict));
  process.exit(verdict.ok ? 0 : 1);
}

/** The answers our pretend user and pretend model give. */
export const answers = {
  elicitation: (properties) => ({
    action: 'accept',
    content: Object.fromEntries(Object.keys(properties).map((field) => [field, { name: 'Ada', colour: 'green' }[field] ?? 'yes'])),
  }),
  sampling: () => ({ role: 'assistant', model: 'pretend', stopReason: 'endTurn', content: { type: 'text', text: 'Paris' } }),
};
