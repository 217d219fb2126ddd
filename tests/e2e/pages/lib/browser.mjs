// One Chromium for all tests. Every window reports dialogs, errors and blocked scripts; a test fails on any.
import { chromium } from 'playwright-core';

const ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
];
/// Generous, because the tests share two cores with everything else.
const TIMEOUT_MS = 20_000;

/// Playwright gives it a new, empty profile.
export function launch(executablePath) {
  return chromium.launch({ executablePath, args: ARGS });
}

export class Windows {
  constructor(browser, base) {
    this.browser = browser;
    this.base = base;
    this.session = undefined;
    this.faults = [];
  }

  /// A window with the session of the owner, or without one.
  async open({ signedIn = true, width = 1280, height = 900, ...options } = {}) {
    const context = await this.browser.newContext({
      baseURL: this.base,
      viewport: { width, height },
      storageState: signedIn ? this.session : undefined,
      ...options,
    });
    context.setDefaultTimeout(TIMEOUT_MS);
    const page = await context.newPage();
    page.on('dialog', async (dialog) => {
      this.faults.push(`dialog: ${dialog.message()}`);
      await dialog.dismiss();
    });
    page.on('pageerror', (error) => this.faults.push(`page error: ${error.message}`));
    page.on('console', (message) => {
      const isRefusedPage = message.text().startsWith('Failed to load resource: the server responded');
      // A client that was signed in closes its own address at once.
      const isUnreachable = message.text().startsWith('Failed to load resource: net::');
      const isElsewhere = isUnreachable && !message.location().url.startsWith(this.base);
      if (message.type() === 'error' && !isElsewhere && !isRefusedPage) this.faults.push(`console: ${message.text()}`);
    });
    return page;
  }

  async close(page) {
    await page.context().close();
  }

  takeFaults() {
    return this.faults.splice(0);
  }
}
