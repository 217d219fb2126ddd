// A program of an npm package that prints the address to open.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';

export function packageFile(name, file) {
  const manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
  return path.join(path.dirname(manifest), file);
}

export class Program {
  constructor(command, args, env, pattern) {
    this.said = '';
    this.child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.ended = new Promise((resolve) => this.child.once('close', resolve));
    /// What the pattern finds in the output.
    this.address = new Promise((resolve, reject) => {
      for (const stream of [this.child.stdout, this.child.stderr]) {
        stream.on('data', (part) => {
          this.said += part;
          const found = this.said.match(pattern);
          if (found) resolve(found[1]);
        });
      }
      this.ended.then(() => reject(new Error(`the program ended: ${this.said}`)));
    });
    // A test that failed earlier does not wait for it.
    this.address.catch(() => {});
  }

  /// Ends it, if it still runs.
  async end() {
    if (this.child.exitCode === null) this.child.kill('SIGKILL');
    await this.ended;
  }
}
