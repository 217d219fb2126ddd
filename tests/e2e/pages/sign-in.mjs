import assert from 'node:assert/strict';

export const tests = {
  async 'pages without a session show how to sign in'({ windows }) {
    const page = await windows.open({ signedIn: false });
    for (const path of ['/', '/approvals', '/grants', '/policies', '/sign-in']) {
      const response = await page.goto(path);
      assert.equal(response.status(), 401, path);
      assert.match(await page.innerText('main'), /tollgate --home \S+-demo open/, path);
    }
    await windows.close(page);
  },

  async 'a sign-in link works once'({ windows, link }) {
    const page = await windows.open({ signedIn: false });
    await page.goto(link);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    windows.session = await page.context().storageState();
    await windows.close(page);

    const second = await windows.open({ signedIn: false });
    await second.goto(link);
    await second.getByRole('button', { name: 'Sign in' }).click();
    await second.getByText('was used before or has expired').waitFor();
    const response = await second.goto('/');
    assert.equal(response.status(), 401);
    await windows.close(second);
  },
};
