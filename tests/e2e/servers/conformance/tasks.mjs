// The tasks extension (`io.modelcontextprotocol/tasks`): tools whose answer comes later, and the
// methods that ask for it.

import { randomUUID } from 'node:crypto';
import { MissingRequiredClientCapabilityError, ProtocolError, ProtocolErrorCode, acceptedContent, inputRequired } from '@modelcontextprotocol/server';
import { clientCapabilities, text } from '../lib/catalogue.mjs';
import { askName } from './rounds.mjs';

export const EXTENSION = 'io.modelcontextprotocol/tasks';
const TASK_TTL_MS = 300_000;
const POLL_MS = 200;

const board = new Map();

export const taskTools = {
  greet: {
    description: 'Greets, at once',
    inputSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    call: ({ name }) => text(`Hello, ${name}!`),
  },
  slow_compute: {
    description: 'Sleeps for some seconds; a task where the client knows tasks',
    inputSchema: { type: 'object', properties: { seconds: { type: 'number' }, label: { type: 'string' } } },
    call({ seconds = 0, label = '' }, ctx) {
      const done = () => text(`computed ${label} in ${seconds} s`);
      if (!knowsTasks(ctx)) return new Promise((resolve) => setTimeout(() => resolve(done()), seconds * 1000));
      return startTask((task) => later(task, seconds * 1000, () => finish(task, done())));
    },
  },
  failing_job: {
    description: 'A task that ends in a tool error',
    call(_args, ctx) {
      needTasks(ctx);
      return startTask((task) => later(task, 1000, () => finish(task, { ...text('the job failed'), isError: true })));
    },
  },
  protocol_error_job: {
    description: 'A task that ends in a protocol error',
    call(_args, ctx) {
      needTasks(ctx);
      return startTask((task) => later(task, 100, () => fail(task, -32603, 'the job broke')));
    },
  },
  confirm_delete: {
    description: 'A task that waits for a confirmation',
    inputSchema: { type: 'object', properties: { filename: { type: 'string' } } },
    call({ filename }, ctx) {
      needTasks(ctx);
      return startTask((task) => park(task, { confirm: confirmation(`Delete ${filename}?`) }, () => finish(task, text(`deleted ${filename}`))));
    },
  },
  multi_input: {
    description: 'A task that waits for two answers',
    call(_args, ctx) {
      needTasks(ctx);
      const asked = { first: confirmation('First?'), second: confirmation('Second?') };
      return startTask((task) => park(task, asked, () => finish(task, text('both answered'))));
    },
  },
  test_tool_with_task: {
    description: 'Asks for a name first, then becomes a task',
    call(_args, ctx) {
      needTasks(ctx);
      const answer = acceptedContent(ctx.mcpReq.inputResponses, 'user_name');
      if (!answer) return inputRequired({ inputRequests: { user_name: askName } });
      return startTask((task) => later(task, 100, () => finish(task, text(`Hello, ${answer.name}!`))));
    },
  },
};

/** Installs `tasks/get`, `tasks/update` and `tasks/cancel` on one server instance. */
export function offerTasks(server) {
  const handle = (method, answer) =>
    server.server.setRequestHandler(method, { params: anyObject }, (params, ctx) => {
      needTasks(ctx);
      const task = board.get(params.taskId);
      if (!task) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Task ${params.taskId} not found`);
      return answer(task, ctx);
    });
  handle('tasks/get', (task) => detailed(task));
  // The SDK lifts `inputResponses` out of every request's parameters into the context.
  handle('tasks/update', (task, ctx) => {
    receive(task, ctx.mcpReq.inputResponses ?? {});
    return {};
  });
  handle('tasks/cancel', (task) => {
    cancel(task);
    return {};
  });
}

/** Accepts any object: what is in it is checked by the handlers. */
const anyObject = {
  '~standard': { version: 1, vendor: 'fixture', validate: (value) => ({ value }) },
};

function knowsTasks(ctx) {
  return clientCapabilities(ctx).extensions?.[EXTENSION] !== undefined;
}

function needTasks(ctx) {
  if (!knowsTasks(ctx)) {
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [EXTENSION]: {} } } });
  }
}

function startTask(run) {
  const now = new Date().toISOString();
  const task = { taskId: randomUUID(), status: 'working', createdAt: now, lastUpdatedAt: now };
  board.set(task.taskId, task);
  run(task);
  return { resultType: 'task', ...head(task) };
}

function head({ taskId, status, createdAt, lastUpdatedAt }) {
  return { taskId, status, createdAt, lastUpdatedAt, ttlMs: TASK_TTL_MS, pollIntervalMs: POLL_MS };
}

function detailed(task) {
  return {
    ...head(task),
    ...(task.result && { result: task.result }),
    ...(task.error && { error: task.error }),
    ...(task.status === 'input_required' && { inputRequests: task.waiting }),
  };
}

function later(task, ms, act) {
  task.timer = setTimeout(act, ms);
  task.timer.unref();
}

function settle(task, status, extra = {}) {
  clearTimeout(task.timer);
  Object.assign(task, { status, lastUpdatedAt: new Date().toISOString(), ...extra });
}

function finish(task, result) {
  settle(task, 'completed', { result });
}

function fail(task, code, message) {
  settle(task, 'failed', { error: { code, message } });
}

function cancel(task) {
  if (['working', 'input_required'].includes(task.status)) settle(task, 'cancelled');
}

function park(task, waiting, resume) {
  settle(task, 'input_required', { waiting, resume });
}

function receive(task, responses) {
  if (task.status !== 'input_required') return;
  for (const key of Object.keys(responses)) delete task.waiting[key];
  if (Object.keys(task.waiting).length === 0) task.resume();
}

function confirmation(message) {
  return inputRequired.elicit({
    message,
    requestedSchema: { type: 'object', properties: { confirm: { type: 'boolean' } }, required: ['confirm'] },
  });
}
