// The owner's browser, scripted: consents at an issuer, opens the dashboard, and signs in for a grant on its page.

/// The cookies of one browser.
class Cookies {
  values = new Map();
  header = () => [...this.values].map(([name, value]) => `${name}=${value}`).join('; ');

  take(response) {
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      this.values.set(name, value);
    }
  }
}

/// Follows the redirects of an issuer until one leads back to the gate.
export async function consent(address) {
  const cookies = new Cookies();
  for (let at = address; ; ) {
    const response = await fetch(at, { redirect: 'manual', headers: { cookie: cookies.header() } });
    cookies.take(response);
    const location = response.headers.get('location');
    if (!location) throw new Error(`the issuer answered ${response.status}: ${await response.text()}`);
    at = new URL(location, at).href;
    if (new URL(at).pathname === '/oauth/callback') return at;
  }
}

const form = (fields) => ({ method: 'POST', redirect: 'manual', body: new URLSearchParams(fields) });

/// A browser that is signed in to the dashboard by a link of `tollgate up` or `tollgate open`.
export class OwnersBrowser {
  cookies = new Cookies();

  static async open(link) {
    const browser = new OwnersBrowser();
    const { origin, searchParams } = new URL(link);
    await browser.request(`${origin}/sign-in`, { ...form({ token: searchParams.get('token') }), headers: { origin } });
    return browser;
  }

  async request(url, options = {}) {
    const headers = { ...options.headers, cookie: this.cookies.header() };
    const response = await fetch(url, { ...options, headers });
    this.cookies.take(response);
    return response;
  }

  /// Allows a client one server on its consent page, with the rules that are chosen there. Returns the redirect.
  async allow(authorize, server) {
    const { origin } = new URL(authorize);
    const shown = await (await this.request(authorize)).text();
    const value = (name) => new RegExp(`name="${name}" value="([^"]*)"`).exec(shown)?.[1].replaceAll(/&#38;|&amp;/g, '&');
    const fields = { csrf: value('csrf'), consent: value('consent'), request: value('request') };
    const sent = await this.request(`${origin}/authorize/consent`, {
      ...form({ ...fields, server, [`policy:${server}`]: ':read-only', decision: 'allow' }),
      headers: { origin },
    });
    const location = sent.headers.get('location');
    if (!location) throw new Error(`the consent was not taken: ${sent.status} ${await sent.text()}`);
    return location;
  }

  /// Signs in to a server on the page that a call named.
  async signInAt(page) {
    const { origin, pathname } = new URL(page);
    const shown = await (await this.request(page)).text();
    const value = (name) => new RegExp(`name="${name}" value="([^"]*)"`).exec(shown)?.[1];
    const begun = await this.request(`${origin}${pathname}`, {
      ...form({ csrf: value('csrf'), grant: value('grant') }),
      headers: { origin },
    });
    const link = /href="(https?:[^"]+)"[^>]*>Continue to the issuer/.exec(await begun.text())?.[1];
    if (!link) throw new Error(`the sign-in did not begin: ${begun.status}`);
    const back = await this.request(await consent(link.replaceAll('&#38;', '&').replaceAll('&amp;', '&')));
    if (back.status !== 200) throw new Error(`the sign-in did not end: ${back.status} ${await back.text()}`);
  }
}
