// Every address of the dashboard, from its OpenAPI document: a page that is added is visited, too.

/// A name as one part of a path, as the dashboard writes it.
const segment = (name) => encodeURIComponent(name).replaceAll('.', '%2E');

/// The value of a name of a path. A name may mean another thing on each kind of page.
function valueOf(names, path, name) {
  const known = names[name];
  const value = typeof known === 'object' ? known[path.split('/')[1]] : known;
  if (!(name in names)) throw new Error(`${path}: say what {${name}} is`);
  return value;
}

/// Operations as `{ method, path, isPage }`, with names in braces and without `.json`; streams and files are no pages.
export async function operations(page) {
  const { paths } = await (await page.request.get('/openapi.json')).json();
  return Object.entries(paths).flatMap(([twin, methods]) => {
    const path = twin === '/index.json' ? '/' : twin.replace(/\.json$/, '');
    const isPage = twin.endsWith('.json');
    return Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path, isPage }));
  });
}

/// The pages with their names filled in; those with a name whose value is undefined are left out.
export async function everyPage(page, names) {
  const pages = (await operations(page)).filter(({ method, isPage }) => method === 'GET' && isPage);
  return pages.flatMap(({ path }) => {
    let isKnown = true;
    const filled = path.replace(/\{(\w+)\}/g, (_, name) => {
      const value = valueOf(names, path, name);
      if (value === undefined) isKnown = false;
      return segment(value ?? '');
    });
    return isKnown ? [filled] : [];
  });
}
