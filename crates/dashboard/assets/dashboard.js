// Live updates, keyboard and copy buttons. Every page works without this file.
const badge = document.querySelector('[data-live="approvals"]');
const list = document.querySelector('[data-live-list]');
let known = badge ? Number(badge.textContent) : 0;

function show(count) {
  if (badge) { badge.textContent = String(count); badge.hidden = count === 0; }
  document.title = document.title.replace(/^\(\d+\) /, '');
  if (count > 0) document.title = `(${count}) ${document.title}`;
  if (count > known && 'Notification' in window && Notification.permission === 'granted') {
    const words = count === 1 ? '1 call waits for your approval' : `${count} calls wait for your approval`;
    const notice = new Notification('tollgate', { body: words, tag: 'tollgate-approvals', renotify: true });
    notice.onclick = () => { focus(); location.assign('/approvals'); };
  }
  known = count;
}

// Entries that are still there stay untouched, with their focus and what is typed in them. New ones come at
// the end, and those that no longer wait keep their place without their buttons: nothing may move under the
// pointer, or a click would approve another call.
function merge(fresh) {
  const entries = [...fresh.querySelector('[data-live-list]').children];
  const ids = new Set(entries.map((entry) => entry.id));
  for (const entry of [...list.children]) {
    if (entry.hasAttribute('data-incomplete')) entry.remove();
    else if (!ids.has(entry.id)) entry.inert = true;
  }
  for (const entry of entries) {
    if (!document.getElementById(entry.id)) list.append(document.importNode(entry, true));
  }
  for (const part of fresh.querySelectorAll('[data-live-part]')) {
    document.getElementById(part.id)?.replaceWith(document.importNode(part, true));
  }
  // The arguments of a call are stored a moment after the call is.
  if (list.querySelector('[data-incomplete]')) setTimeout(refresh, 300);
}

// XMLHttpRequest parses the page without a Trusted Types policy.
let request;
function refresh() {
  request?.abort();
  request = new XMLHttpRequest();
  request.responseType = 'document';
  request.onload = ({ target }) => {
    if (target.status !== 200) return;
    // The page may be newer than the last event: title and list must not disagree.
    const count = target.response.querySelector('[data-live="approvals"]');
    if (count) show(Number(count.textContent));
    merge(target.response);
  };
  request.open('GET', location.pathname);
  request.send();
}

// New rows come on top, and rows whose outcome is known now are replaced; at most one request a second.
const log = document.querySelector('[data-live-table] tbody');
const LOG_ROWS_MAX = 300;
/// So many rows back the outcome of a call may become known later.
const LOG_ROWS_AGAIN = 200;
let logTimer;
function followLog() {
  logTimer ??= setTimeout(() => {
    const page = new XMLHttpRequest();
    page.responseType = 'document';
    page.onload = () => {
      logTimer = undefined;
      if (page.status !== 200) return;
      const fresh = [...page.response.querySelectorAll('[data-live-table] tbody tr')].reverse();
      for (const row of fresh) {
        const known = document.getElementById(row.id);
        const copy = document.importNode(row, true);
        if (!known) log.prepend(copy);
        // A row that is the same keeps its selected text, and its place among the keys.
        else if (known.innerHTML !== copy.innerHTML && !known.contains(document.activeElement)) known.replaceWith(copy);
      }
      while (log.children.length > LOG_ROWS_MAX) log.lastElementChild.remove();
    };
    page.onerror = () => { logTimer = undefined; };
    const newest = Number(log.firstElementChild?.id.replace('entry-', '') ?? 0);
    const address = new URL(location.href);
    address.searchParams.set('after', String(Math.max(0, newest - LOG_ROWS_AGAIN)));
    page.open('GET', address);
    page.send();
  }, 1000);
}

const events = new EventSource(log ? '/events?audit=1' : '/events');
events.onmessage = (event) => {
  const news = JSON.parse(event.data);
  show(news.approvals);
  if (list) refresh();
  if (log && news.audit) followLog();
};

// The browser connects again by itself, unless the answer is no stream: signed out, or a proxy without its gate. Some
// browsers report an error when the page is left, too.
const ended = document.querySelector('[data-live-ended]');
events.onerror = () => setTimeout(() => { if (ended) ended.hidden = events.readyState !== EventSource.CLOSED; }, 1000);

// Work in the background: the page is loaded again until it has ended.
const poll = Number(document.querySelector('[data-poll]')?.dataset.poll ?? 0);
if (poll > 0) setTimeout(() => location.reload(), poll);

for (const code of document.querySelectorAll('[data-copy]')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = 'Copied';
  });
  code.closest('pre').after(button);
}

// Browsers ask for permission only after a click.
const ask = document.querySelector('[data-notify]');
function showPermission() {
  if (!ask || !('Notification' in window)) return;
  ask.querySelector('button').hidden = Notification.permission !== 'default';
  const said = {
    granted: 'This browser tells you about new calls while a page of the dashboard is open.',
    denied: 'This browser does not allow it. Change that in its settings for this site.',
  }[Notification.permission];
  if (said) ask.querySelector('[data-said]').textContent = said;
}
ask?.querySelector('button').addEventListener('click', () => Notification.requestPermission().then(showPermission));
showPermission();

// j and k move through rows, Enter opens the first link of a row. Keys do nothing while typing. Rows come and go while
// the log is followed, so they are looked up at each key.
function move(step) {
  const rows = [...document.querySelectorAll('table.keys tbody tr')];
  const at = rows.findIndex((row) => row.hasAttribute('aria-selected'));
  const next = rows[at + step];
  if (!next) return;
  rows[at]?.removeAttribute('aria-selected');
  next.setAttribute('aria-selected', 'true');
  next.querySelector('a')?.focus();
}
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest('input, textarea, select')) return;
  if (event.key === 'j') move(1);
  else if (event.key === 'k') move(-1);
  else if (event.key === 'a') document.querySelector('[data-key="a"]')?.focus();
  else if (event.key === 'd') { document.querySelector('[data-key-focus="d"]')?.focus(); event.preventDefault(); }
});
