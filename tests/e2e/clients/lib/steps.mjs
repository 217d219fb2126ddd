// What every client must be able to do with the kit, in order. A step returns a detail for the
// verdict or throws what was wrong. An agent is the thin layer over one client library.

import assert from 'node:assert/strict';

const PATIENCE_MS = 15_000;
const POLL_MS = 50;
const PARALLEL_CALLS = 20;
// The Python client refuses SSE events of 1 MiB and more; a framed answer must stay below that.
const LARGE_BYTES = 900_000;
const PROGRESS_STEPS = 8;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Connects, and keeps every message in `agent.heard` as it arrives, before the client makes of it what it will. */
export async function connectAndHear(agent) {
  await agent.client.connect(agent.transport);
  const { transport } = agent;
  const receive = transport.onmessage;
  transport.onmessage = (message, extra) => {
    agent.heard.push(message);
    return receive.call(transport, message, extra);
  };
}

/** name → async (agent, plan) => detail. */
export const steps = {
  async list_tools(agent, plan) {
    const names = (await agent.listTools()).map((tool) => tool.name);
    assert(names.includes(`${plan.prefix}echo`), `no echo among ${names}`);
    return names.length;
  },

  async call_allowed(agent, plan) {
    const words = 'grüße, 世界 👋 \u2028 "quoted" \\ \t';
    assert.equal(textOf(await agent.callTool(`${plan.prefix}echo`, { text: words })), words);
  },

  async call_structured(agent, plan) {
    const result = await agent.callTool(`${plan.prefix}add`, { a: 2, b: 40.5 });
    assert.deepEqual(result.structuredContent, { sum: 42.5 });
  },

  async call_large(agent, plan) {
    const words = 'x'.repeat(LARGE_BYTES);
    assert.equal(textOf(await agent.callTool(`${plan.prefix}echo`, { text: words })), words);
  },

  async call_denied(agent, plan) {
    if (!plan.denied) {
      assert.match(textOf(await agent.callTool(`${plan.prefix}delete_everything`, {})), /^deleted everything/);
      return 'direct: the tool ran';
    }
    return checkDenied(await agent.callTool(`${plan.prefix}${plan.denied.tool}`, plan.denied.args ?? {}), plan.denied.code);
  },

  async call_unknown(agent, plan) {
    const outcome = await agent.callTool(`${plan.prefix}no_such_tool`, {}).then(
      (result) => (result.isError ? textOf(result) : undefined),
      (error) => error.message,
    );
    assert(outcome, 'an unknown tool was answered');
    return outcome.slice(0, 120);
  },

  async calls_in_parallel(agent, plan) {
    const ids = Array.from({ length: PARALLEL_CALLS }, (_, index) => `call ${index}`);
    const answers = await Promise.all(ids.map((text) => agent.callTool(`${plan.prefix}echo`, { text })));
    assert.deepEqual(answers.map(textOf), ids);
  },

  async resources(agent) {
    const listed = await agent.listResources();
    assert(listed.some((resource) => resource.uri === 'kit://note'), JSON.stringify(listed));
    const templates = await agent.listTemplates();
    assert(templates.some((template) => template.uriTemplate === 'kit://item/{id}'), JSON.stringify(templates));
    assert.equal((await agent.readResource('kit://note')).contents[0].text, 'remember the milk');
    assert.equal((await agent.readResource('kit://item/7')).contents[0].text, '{"id":"7"}');
    await assert.rejects(agent.readResource('kit://nothing'), (error) => agent.hidesCodes || [-32602, -32002].includes(error.code));
  },

  async prompts(agent, plan) {
    const listed = await agent.listPrompts();
    assert(listed.some((prompt) => prompt.name === `${plan.prefix}greeting`), JSON.stringify(listed));
    const got = await agent.getPrompt(`${plan.prefix}greeting`, { name: 'Ada' });
    assert.equal(got.messages[0].content.text, 'Greet Ada.');
  },

  async completion(agent, plan) {
    const ref = { type: 'ref/prompt', name: `${plan.prefix}greeting` };
    const { completion } = await agent.complete(ref, { name: 'name', value: 'ad' });
    assert.deepEqual(completion.values, ['ada', 'adele']);
  },

  async progress(agent, plan) {
    const all = Array.from({ length: PROGRESS_STEPS }, (_, index) => index + 1);
    let told;
    for (const stepMs of [10, 0]) {
      told = [];
      const args = { to: PROGRESS_STEPS, step_ms: stepMs };
      const from = agent.heard.length;
      const result = await agent.callTool(`${plan.prefix}count`, args, { onProgress: (p) => told.push(p.progress) });
      assert.equal(textOf(result), `counted to ${PROGRESS_STEPS}`);
      const heard = agent.heard.slice(from).filter(({ method }) => method === 'notifications/progress');
      assert.deepEqual(heard.map(({ params }) => params.progress), all);
      // The TypeScript clients themselves drop what they read together with the result.
      assert.deepEqual(told, all.slice(0, told.length));
    }
    return `${told.length} of ${all.length} told in a burst`;
  },

  async elicitation(agent, plan) {
    assert.equal(textOf(await agent.callTool(`${plan.prefix}ask_user`, {})), 'Hello, Ada!');
    assert.equal(textOf(await agent.callTool(`${plan.prefix}ask_user_twice`, {})), 'Ada likes green');
    return agent.asked.elicitation;
  },

  async sampling(agent, plan) {
    assert.equal(textOf(await agent.callTool(`${plan.prefix}ask_model`, {})), 'The model said: Paris');
  },

  async mirrored_headers(agent, plan) {
    const names = (await agent.listTools()).map((tool) => tool.name);
    if (!names.includes(`${plan.prefix}look_up`)) return 'not offered in this era';
    for (const region of ['eu-west', 'Zürich', '=?base64?x', ' padded ']) {
      const args = { region, level: 3, fresh: true, note: 'not mirrored' };
      assert.deepEqual(JSON.parse(textOf(await agent.callTool(`${plan.prefix}look_up`, args))), args);
    }
  },

  async cancellation(agent, plan) {
    const key = `linger-${process.pid}-${agent.name}-${plan.era}`;
    const stop = new AbortController();
    const call = agent.callTool(`${plan.prefix}linger`, { key, ms: 60_000 }, { signal: stop.signal });
    const ended = call.then(() => 'answered', () => 'aborted');
    await sleep(300);
    stop.abort(new Error('the user changed their mind'));
    assert.equal(await ended, 'aborted');
    await until(async () => textOf(await agent.callTool(`${plan.prefix}cancelled`, {})).includes(key), 'the server never heard of it');
  },

  async logging(agent, plan) {
    await agent.logFrom('info');
    await agent.callTool(`${plan.prefix}log`, {}, { logLevel: 'info' });
    await until(() => agent.logs.length >= 2, () => `logs: ${JSON.stringify(agent.logs)}`);
    assert.deepEqual(agent.logs.map((entry) => entry.level), ['info', 'error']);
  },

  async list_changed(agent, plan) {
    await agent.watchTools();
    const before = agent.changes.tools;
    await agent.callTool(`${plan.prefix}grow`, {});
    await until(() => agent.changes.tools > before, 'no tools/list_changed arrived');
    if (!plan.denied) {
      const names = (await agent.listTools()).map((tool) => tool.name);
      assert(names.some((name) => name.startsWith(`${plan.prefix}extra_`)), `no new tool among ${names}`);
    }
  },
};

/** The calls a plan lists itself, for servers that are not the kit. */
export async function plannedCall(agent, plan, call) {
  const result = await agent.callTool(`${plan.prefix}${call.tool}`, call.args ?? {});
  if (call.denied) return checkDenied(result, call.denied);
  assert(!result.isError, `error: ${textOf(result)}`);
  const whole = JSON.stringify(result);
  if (call.contains) assert(whole.includes(call.contains), `no ${call.contains} in ${whole.slice(0, 300)}`);
  return whole.length;
}

function checkDenied(result, code) {
  assert.equal(result.isError, true, `not refused: ${JSON.stringify(result).slice(0, 300)}`);
  assert.match(textOf(result), /^\[POLICY DENIED\] /);
  const denial = result._meta?.['tollgate/denial'];
  assert(denial, 'no machine-readable denial');
  assert.equal(denial.code, code);
  assert(typeof denial.rule === 'string' && typeof denial.reason === 'string', JSON.stringify(denial));
  return denial;
}

function textOf(result) {
  return result.content?.map((block) => block.text ?? '').join('') ?? '';
}

async function until(holds, otherwise) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await holds())) {
    assert(Date.now() < end, typeof otherwise === 'function' ? otherwise() : otherwise);
    await sleep(POLL_MS);
  }
}
