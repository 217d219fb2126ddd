// The loopback address that a client is sent back to, and a page of another site that leads to the gate.
import { createServer } from 'node:http';

/// Listens until a browser arrives at `/callback`.
export async function listen() {
  let arrive;
  const arrived = new Promise((resolve) => {
    arrive = resolve;
  });
  const server = createServer((request, response) => {
    const url = new URL(request.url, 'http://127.0.0.1');
    if (url.pathname === '/callback') arrive(url);
    const target = url.searchParams.get('to') ?? '';
    response.setHeader('Content-Type', 'text/html');
    response.end(`<title>Client</title><h1>Back at the client</h1><a id="to" href="${target.replaceAll('&', '&amp;')}">go</a>`);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  return {
    redirect: `http://127.0.0.1:${port}/callback`,
    /// The same server under a name of another site.
    elsewhere: (to) => `http://localhost:${port}/?to=${encodeURIComponent(to)}`,
    arrived,
    close: () => server.close(),
  };
}
