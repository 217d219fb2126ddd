//! Requests to the token and revocation endpoints, with client authentication.

use ::oauth::client::address::{self, Network};
use ::oauth::client::registration::AuthMethod;
use hyper::Method;
use store::logins::Login;
use store::secret::Secret;
use url::Url;

use super::{ServerLogins, SignedOut};
use crate::http::{HttpError, Reply, Request};
use crate::oauth::token_response::{self, TokenRefusal, Tokens};

/// The client at a token endpoint.
pub(super) struct TokenClient<'a> {
    pub(super) client_id: &'a str,
    pub(super) client_secret: Option<&'a Secret>,
    pub(super) auth_method: AuthMethod,
    pub(super) network: Network,
}

impl<'a> TokenClient<'a> {
    pub(super) fn of(login: &'a Login) -> TokenClient<'a> {
        let facts = &login.facts;
        let secret = login.tokens.client_secret.as_ref();
        TokenClient {
            client_id: &facts.client_id,
            client_secret: secret,
            auth_method: AuthMethod::select(secret.is_some(), Some(&facts.auth_method), None),
            network: if facts.is_private { Network::Private } else { Network::Public },
        }
    }
}

/// Requests tokens with a form.
pub(super) async fn tokens(
    logins: &ServerLogins,
    endpoint: &str,
    client: &TokenClient<'_>,
    form: &[(&str, &str)],
) -> Result<Tokens, TokenRefusal> {
    token_response::read(&post(logins, endpoint, client, form).await?)
}

async fn post(
    logins: &ServerLogins,
    endpoint: &str,
    client: &TokenClient<'_>,
    form: &[(&str, &str)],
) -> Result<Reply, TokenRefusal> {
    let url: Url = address::parse(endpoint, client.network)
        .map_err(|why| TokenRefusal::Missing(why.to_string()))?;
    let mut request = Request::at(Method::POST, &url);
    let mut pairs = form.to_vec();
    match (client.auth_method, client.client_secret) {
        (AuthMethod::Basic, Some(secret)) => request = request.basic(client.client_id, secret),
        (AuthMethod::Post, Some(secret)) => {
            pairs.push(("client_id", client.client_id));
            pairs.push(("client_secret", secret.expose()));
        }
        _ => pairs.push(("client_id", client.client_id)),
    }
    let sent: Result<Reply, HttpError> = logins.send(request.form(&pairs), client.network).await;
    Ok(sent?)
}

/// Revokes a login at its issuer (RFC 7009). The refresh token ends the access token with it.
pub(super) async fn revoke(logins: &ServerLogins, login: &Login) -> SignedOut {
    let Some(endpoint) = &login.facts.revocation_endpoint else { return SignedOut::NotRevoked };
    let client = TokenClient::of(login);
    let tokens = [("refresh_token", &login.tokens.refresh), ("access_token", &login.tokens.access)];
    let mut is_sent = false;
    for (kind, token) in tokens {
        let Some(token) = token else { continue };
        let form = [("token", token.expose().as_str()), ("token_type_hint", kind)];
        match post(logins, endpoint, &client, &form).await {
            Ok(reply) if reply.is_success() => is_sent = true,
            Ok(reply) => {
                return SignedOut::Failed(format!("it answered with status {}", reply.status));
            }
            Err(refusal) => return SignedOut::Failed(refusal.to_string()),
        }
    }
    if is_sent { SignedOut::Revoked } else { SignedOut::NotRevoked }
}
