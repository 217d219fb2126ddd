#!/usr/bin/env node
// Starts the program `tollgate` of this system's package, with the same arguments, streams and exit code.

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { constants } from 'node:os';

const require = createRequire(import.meta.url);
const system = `${process.platform}-${process.arch}`;
const file = process.platform === 'win32' ? 'tollgate.exe' : 'tollgate';

function program() {
  try {
    return require.resolve(`tollgate-mcp-${system}/bin/${file}`);
  } catch {
    console.error(`error: the package tollgate-mcp-${system} is not installed`);
    console.error('hint: there may be no build for this system; or npm ran with `--omit=optional`: install without it');
    process.exit(1);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: 'inherit' });
child.on('error', (error) => {
  console.error(`error: cannot start tollgate: ${error.message}`);
  process.exit(1);
});

// The terminal sends Ctrl-C to the program too; other signals must be passed on. The program decides when to end.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
  });
}
child.on('exit', (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
