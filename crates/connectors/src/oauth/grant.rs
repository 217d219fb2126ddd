//! Client authentication and requests at the token endpoint.

use std::time::Duration;

use hyper::Method;
use store::accounts;
use store::secret::Secret;
use zeroize::Zeroize;

use super::token_response::{self, TokenRefusal, Tokens};
use crate::account::{Account, Client, SignIn};
use crate::http::BaseUrl;
use crate::http::{Http, Reply, Request};
use crate::settings::ServiceSettings;

const WAIT_MAX: Duration = Duration::from_secs(30);
const REPLY_BYTES_MAX: usize = 256 << 10;

/// The OAuth client of one service.
pub struct Grant {
    base: BaseUrl,
    path: &'static [&'static str],
    client: Client,
    user_agent: String,
    client_id: String,
    client_secret: Option<Secret>,
}

/// The form fields of a request to the endpoint.
pub struct Form(Vec<(&'static str, String)>);

impl Form {
    pub fn of(grant_type: &str) -> Form {
        Form(vec![("grant_type", grant_type.to_owned())])
    }

    pub fn empty() -> Form {
        Form(Vec::new())
    }

    pub fn push(&mut self, name: &'static str, value: &str) {
        self.0.push((name, value.to_owned()));
    }
}

impl Drop for Form {
    fn drop(&mut self) {
        for (_, value) in &mut self.0 {
            value.zeroize();
        }
    }
}

impl Grant {
    /// The client an account belongs to. A token works only with the client it was issued to, so the
    /// account's client id takes precedence over the settings'.
    pub fn new(
        service: &'static Account,
        settings: &ServiceSettings,
        account: &accounts::Account,
    ) -> Result<Grant, TokenRefusal> {
        let (path, client) = match &service.sign_in {
            SignIn::Code { token, client, .. } | SignIn::Device { token, client, .. } => {
                (*token, *client)
            }
            SignIn::Values(_) => {
                return Err(TokenRefusal::Missing(
                    "this service has no tokens to refresh".to_owned(),
                ));
            }
        };
        let client_id = account.client_id.clone().or_else(|| settings.client_id.clone());
        let is_same = account.client_id.is_none() || account.client_id == settings.client_id;
        let set = settings.client_secret.clone().filter(|_| is_same);
        let client_secret = set.or_else(|| account.client_secret.clone());
        let missing = |variable: &str| TokenRefusal::Missing(format!("`{variable}` is not known"));
        if !matches!(client, Client::Public | Client::BasicIfSecret) && client_secret.is_none() {
            return Err(missing(service.client_secret));
        }
        Ok(Grant {
            base: settings.oauth_base.clone(),
            path,
            client,
            user_agent: service.user_agent.to_owned(),
            client_id: client_id.ok_or_else(|| missing(service.client_id))?,
            client_secret,
        })
    }

    /// With another user agent.
    #[must_use]
    pub fn named(mut self, user_agent: &str) -> Grant {
        user_agent.clone_into(&mut self.user_agent);
        self
    }

    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Requests tokens.
    pub async fn tokens(&self, http: &Http, form: Form) -> Result<Tokens, TokenRefusal> {
        token_response::read(&self.post(http, self.path, form).await?)
    }

    /// Posts a form with client authentication to a path below the OAuth base.
    pub async fn post(
        &self,
        http: &Http,
        path: &[&str],
        form: Form,
    ) -> Result<Reply, TokenRefusal> {
        let mut pairs: Vec<(&str, &str)> = form.0.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let mut request = Request::new(Method::POST, &self.base, path)
            .header("user-agent", &self.user_agent)
            .wait_max(WAIT_MAX)
            .reply_bytes_max(REPLY_BYTES_MAX);
        match (self.client, &self.client_secret) {
            (Client::Basic | Client::BasicIfSecret, Some(secret)) => {
                request = request.basic(&self.client_id, secret);
            }
            (Client::Post, Some(secret)) => {
                pairs.push(("client_id", &self.client_id));
                pairs.push(("client_secret", secret.expose()));
            }
            _ => pairs.push(("client_id", &self.client_id)),
        }
        Ok(http.send(request.form(&pairs)).await?)
    }
}
