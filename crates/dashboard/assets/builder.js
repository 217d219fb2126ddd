// The policy builder without waiting for a button: every change of the form is sent, and the parts of the page
// that depend on it are replaced. Without this file the buttons of the form do the same.
const form = document.getElementById('draft');
const text = document.getElementById('text');
let request;
let timer;
let isDirty = false;

// Keeps the focus on the same control of a replaced part.
function focused() {
  const { activeElement: at } = document;
  const part = at?.closest('[data-part]');
  if (!part) return () => {};
  const { name, value, type } = at;
  const [start, end] = type === 'text' ? [at.selectionStart, at.selectionEnd] : [];
  return () => {
    const same = [...document.getElementById(part.id).querySelectorAll('[name]')].filter((one) => one.name === name);
    const found = same.find((one) => (type === 'radio' ? one.checked : type === 'submit' ? one.value === value : true));
    found?.focus({ preventScroll: true });
    if (start !== undefined) found?.setSelectionRange?.(start, end);
  };
}

// What the person opened stays open.
function opened(part) {
  const open = new Set([...part.querySelectorAll('details[open] > summary')].map((one) => one.textContent));
  return (fresh) => {
    for (const summary of fresh.querySelectorAll('details > summary')) {
      if (open.has(summary.textContent)) summary.parentElement.open = true;
    }
  };
}

function scrollTo(line) {
  const height = parseFloat(getComputedStyle(text).lineHeight) || 18;
  text.scrollTop = Math.max(0, (line - 6) * height);
}

function show(page, pressed) {
  const refocus = focused();
  for (const fresh of page.querySelectorAll('[data-part]')) {
    const old = document.getElementById(fresh.id);
    if (!old) continue;
    const part = document.importNode(fresh, true);
    if (!pressed) opened(old)(part);
    old.replaceWith(part);
  }
  const next = page.getElementById('text');
  if (next && text.value !== next.value) {
    const { selectionStart, selectionEnd, scrollTop } = text;
    text.value = next.value;
    if (document.activeElement === text) text.setSelectionRange(selectionStart, selectionEnd);
    text.scrollTop = scrollTop;
  }
  for (const id of ['base', 'base-version']) {
    if (next) document.getElementById(id).value = page.getElementById(id).value;
  }
  const { line } = document.getElementById('part-review').dataset;
  if (line && document.activeElement !== text) scrollTo(Number(line));
  isDirty = Boolean(document.querySelector('.changes-in-words'));
  fit();
  refocus();
  if (pressed?.startsWith('open:')) document.getElementById('part-rules').scrollIntoView({ block: 'nearest' });
}

// XMLHttpRequest parses the page without a Trusted Types policy.
function send(pressed) {
  clearTimeout(timer);
  request?.abort();
  const fields = new URLSearchParams(new FormData(form));
  fields.set('do', pressed ?? 'apply');
  request = new XMLHttpRequest();
  request.responseType = 'document';
  request.onload = ({ target }) => { if (target.response?.getElementById('draft')) show(target.response, pressed); };
  request.open('POST', form.action);
  request.setRequestHeader('Content-Type', 'application/x-www-form-urlencoded');
  request.send(fields);
}

// Only operators that fit the type of the chosen value are offered.
function fit() {
  const path = form.elements.rule_path;
  const operator = form.elements.rule_op;
  if (!path || !operator) return;
  const { type = 'any', values = '' } = path.selectedOptions[0]?.dataset ?? {};
  for (const option of operator.options) {
    option.hidden = type !== 'any' && !option.dataset.types.split(' ').includes(type);
    option.disabled = option.hidden;
  }
  if (operator.selectedOptions[0]?.disabled) operator.value = [...operator.options].find((one) => !one.disabled)?.value ?? '';
  form.elements.rule_value.placeholder = values;
}

if (form && text) {
  const isLive = (name) => name.startsWith('s:') || name.startsWith('v:') || name === 'server' || name.startsWith('show_');
  form.addEventListener('change', ({ target }) => {
    if (target.name === 'rule_path') fit();
    else if (isLive(target.name)) send();
  });
  text.addEventListener('input', () => {
    isDirty = true;
    clearTimeout(timer);
    timer = setTimeout(send, 500);
  });
  form.addEventListener('submit', (event) => {
    const pressed = event.submitter?.value;
    // Saving leaves the page.
    if (pressed === 'save') { isDirty = false; return; }
    event.preventDefault();
    send(pressed);
  });
  form.addEventListener('click', ({ target }) => { if (target.closest('[data-discard]')) isDirty = false; });
  window.addEventListener('beforeunload', (event) => { if (isDirty) event.preventDefault(); });
  fit();
}
