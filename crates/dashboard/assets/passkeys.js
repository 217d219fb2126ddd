// Passkeys: the browser makes or uses one, and its answer goes out as a plain form.
const bytes = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (one) => one.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
  .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');

async function create({ dataset }) {
  const known = dataset.known.split(' ').filter(Boolean);
  const { response } = await navigator.credentials.create({
    publicKey: {
      challenge: bytes(dataset.challenge),
      rp: { id: dataset.rpId, name: 'tollgate' },
      user: { id: bytes(dataset.user), name: dataset.userName, displayName: dataset.userName },
      pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: 'public-key', alg })),
      excludeCredentials: known.map((id) => ({ type: 'public-key', id: bytes(id) })),
      authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
      attestation: 'none',
    },
  });
  return { client_data: response.clientDataJSON, attestation: response.attestationObject };
}

async function get({ dataset }) {
  const credential = await navigator.credentials.get({
    publicKey: { challenge: bytes(dataset.challenge), rpId: dataset.rpId, userVerification: 'required' },
  });
  const { response } = credential;
  return {
    id: credential.rawId,
    client_data: response.clientDataJSON,
    authenticator_data: response.authenticatorData,
    signature: response.signature,
    user_handle: response.userHandle ?? new ArrayBuffer(0),
  };
}

for (const form of document.querySelectorAll('form[data-passkey]')) {
  const said = form.querySelector('[data-said]');
  const say = (words) => {
    said.textContent = words;
    said.hidden = words === '';
  };
  if (!window.PublicKeyCredential) {
    say('This browser offers no passkeys at this address. A sign-in link works everywhere.');
    continue;
  }
  const button = form.querySelector('button');
  button.disabled = false;
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    say('');
    button.disabled = true;
    try {
      const answer = await (form.dataset.passkey === 'create' ? create(form) : get(form));
      for (const [name, value] of Object.entries(answer)) form.elements[name].value = text(value);
      form.submit();
    } catch (error) {
      say(error.name === 'InvalidStateError'
        ? 'This device has a passkey for this gate already.'
        : 'No passkey was used: it was cancelled, or this device has none for this gate.');
      button.disabled = false;
    }
  });
}
