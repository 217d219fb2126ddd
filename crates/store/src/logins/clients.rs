//! The client that this home is known as at each issuer: one per issuer, whatever server or port it was made for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{Logins, LoginsError, short_hash};
use crate::home::private;
use crate::locked_file::{self, Folder, io_error};
use crate::secret::Secret;
use crate::vault::{Purpose, Sealed};

/// Where they are on a store that replicas share.
const CLIENTS: &str = "clients";

/// A client at one issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownClient {
    pub issuer: String,
    /// How it came to be: `own` or `dynamic`.
    pub mode: String,
    pub client_id: String,
    pub client_secret: Option<Secret>,
    pub auth_method: String,
    pub redirect_uris: Vec<String>,
    /// Seconds since 1970; none if the secret does not expire.
    pub secret_expires_s: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientFile {
    issuer: String,
    mode: String,
    client_id: String,
    auth_method: String,
    redirect_uris: Vec<String>,
    secret_expires_s: Option<i64>,
    sealed: Option<String>,
}

impl Logins {
    /// The client at an issuer. One whose secret cannot be opened is not used.
    pub fn client(&self, issuer: &str) -> Result<Option<KnownClient>, LoginsError> {
        let text = match &self.files {
            Folder::Shared(folder) => {
                let bytes = folder.folder(CLIENTS).read_newest(&file_name(issuer))?;
                bytes.and_then(|bytes| String::from_utf8(bytes).ok())
            }
            Folder::Home(_) => locked_file::read(&self.client_path(issuer))?,
        };
        let Some(text) = text else { return Ok(None) };
        let Ok(file) = serde_json::from_str::<ClientFile>(&text) else { return Ok(None) };
        if file.issuer != issuer {
            return Ok(None);
        }
        let secret = match file.sealed.map(|text| STANDARD.decode(text)) {
            None => None,
            Some(Ok(bytes)) => {
                let sealed = Sealed::from_bytes(Purpose::ServerLogin, &row(issuer), bytes);
                Some(self.vault.open_text(&sealed)?)
            }
            Some(Err(_)) => return Ok(None),
        };
        Ok(Some(KnownClient {
            issuer: file.issuer,
            mode: file.mode,
            client_id: file.client_id,
            client_secret: secret,
            auth_method: file.auth_method,
            redirect_uris: file.redirect_uris,
            secret_expires_s: file.secret_expires_s,
        }))
    }

    /// Stores the client of an issuer in place of the one before.
    pub fn set_client(&self, client: &KnownClient) -> Result<(), LoginsError> {
        let sealed = match &client.client_secret {
            None => None,
            Some(secret) => {
                let (row, plain) = (row(&client.issuer), secret.expose().as_bytes());
                let sealed = self.vault.seal(Purpose::ServerLogin, &row, plain, &self.random)?;
                Some(STANDARD.encode(sealed.as_bytes()))
            }
        };
        let file = ClientFile {
            issuer: client.issuer.clone(),
            mode: client.mode.clone(),
            client_id: client.client_id.clone(),
            auth_method: client.auth_method.clone(),
            redirect_uris: client.redirect_uris.clone(),
            secret_expires_s: client.secret_expires_s,
            sealed,
        };
        let text = serde_json::to_vec_pretty(&file).unwrap_or_default();
        if let Folder::Shared(folder) = &self.files {
            let name = file_name(&client.issuer);
            return Ok(folder.folder(CLIENTS).put(&name, &text, (None, i64::MIN, 0))?);
        }
        let path = self.client_path(&client.issuer);
        locked_file::make_folder(&self.folder)?;
        locked_file::make_folder(&self.folder.join("clients"))?;
        let written = private::replace(&path, &text, &self.random.name()?);
        Ok(written.map_err(io_error("write", &path))?)
    }

    /// Forgets the client of an issuer, which no longer knows it.
    pub fn forget_client(&self, issuer: &str) -> Result<(), LoginsError> {
        if let Folder::Shared(folder) = &self.files {
            folder.folder(CLIENTS).take(&file_name(issuer))?;
            return Ok(());
        }
        let path = self.client_path(issuer);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(io_error("remove", &path)(e).into())
            }
            _ => Ok(()),
        }
    }

    /// The folder of the clients.
    pub(super) fn clients(&self) -> Folder {
        match &self.files {
            Folder::Shared(folder) => Folder::Shared(folder.folder(CLIENTS)),
            Folder::Home(folder) => Folder::Home(folder.join("clients")),
        }
    }

    fn client_path(&self, issuer: &str) -> std::path::PathBuf {
        self.folder.join("clients").join(file_name(issuer))
    }
}

fn file_name(issuer: &str) -> String {
    format!("{}.json", short_hash(issuer))
}

fn row(issuer: &str) -> String {
    format!("client\n{issuer}")
}
