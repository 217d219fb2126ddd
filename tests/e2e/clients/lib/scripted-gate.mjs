// A gate of its own for a script: commands, a policy that allows everything, grants, and `tollgate up`.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

const PROGRAM = process.env.TOLLGATE;
/// Servers that are run with `node` get the Node of this script.
const env = { ...process.env, PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}` };

export class ScriptedGate {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-script-'));
  home = join(this.folder, 'home');

  run(...words) {
    const done = spawnSync(PROGRAM, ['--home', this.home, ...words], { encoding: 'utf8', env });
    if (done.status !== 0) throw new Error(`tollgate ${words.join(' ')}: ${done.stdout}${done.stderr}`);
    return done.stdout;
  }

  allowAll() {
    const policy = join(this.folder, 'policy.json');
    writeFileSync(policy, JSON.stringify({ version: '1', default: 'allow' }));
    this.run('policy', 'set', 'all', policy);
  }

  /// The headers of a grant on these servers.
  grant(label, servers) {
    const held = servers.flatMap((server) => ['--server', `${server}=all`]);
    const { token } = JSON.parse(this.run('grant', 'create', label, ...held, '--json'));
    return { requestInit: { headers: { Authorization: `Bearer ${token}` } } };
  }

  /// The facts that the running gate prints.
  async up() {
    this.process = spawn(PROGRAM, ['--home', this.home, 'up', '--listen', '127.0.0.1:0', '--json'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    const { value } = await createInterface({ input: this.process.stdout })[Symbol.asyncIterator]().next();
    return JSON.parse(value);
  }

  async end() {
    if (this.process) {
      const ended = new Promise((resolve) => this.process.on('exit', resolve));
      this.process.kill();
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}
