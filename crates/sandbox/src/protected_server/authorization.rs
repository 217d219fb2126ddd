//! The authorization server: metadata, registration, codes, tokens with rotation, revocation.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use super::Answer;
use super::behaviour::Iss;
use super::state::{Code, State};
use crate::http::{Request, first};

impl State {
    pub(super) fn resource_document(&self, path: &str) -> Answer {
        if !self.behaviour.has_resource_document || !path.ends_with("/mcp") {
            return Answer::empty(404);
        }
        let resource = self.behaviour.resource.clone();
        let mut document = json!({
            "resource": resource.unwrap_or_else(|| format!("{}/mcp", self.origin)),
            "authorization_servers": [self.issuer()],
            "resource_name": null,
        });
        add(&mut document, "scopes_supported", self.behaviour.scopes_supported.clone());
        Answer::json(200, &document)
    }

    pub(super) fn issuer_document(&self, path: &str) -> Answer {
        let behaviour = &self.behaviour;
        let prefix = behaviour.issuer_path;
        let known = [
            format!("/.well-known/oauth-authorization-server{prefix}"),
            format!("/.well-known/openid-configuration{prefix}"),
            format!("{prefix}/.well-known/openid-configuration"),
        ];
        let is_there = behaviour
            .metadata_at
            .map_or_else(|| known.iter().any(|at| at == path), |only| only == path);
        if !is_there {
            return Answer::empty(404);
        }
        let at = |name: &str| format!("{}{name}", self.origin);
        let mut document = json!({
            "issuer": behaviour.claimed_issuer.clone().unwrap_or_else(|| self.issuer()),
            "authorization_endpoint": at(&format!("{prefix}/authorize")),
            "token_endpoint": at("/token"),
            "scopes_supported": null,
            "client_id_metadata_document_supported": behaviour.takes_client_documents,
            "authorization_response_iss_parameter_supported": behaviour.promises_iss,
        });
        add(
            &mut document,
            "registration_endpoint",
            behaviour.registration.map(|_| at("/register")),
        );
        add(&mut document, "revocation_endpoint", behaviour.has_revocation.then(|| at("/revoke")));
        add(&mut document, "code_challenge_methods_supported", behaviour.challenge_methods.clone());
        Answer::json(200, &document)
    }

    pub(super) fn register(&mut self, request: &Request) -> Answer {
        let status = self.behaviour.registration.unwrap_or(404);
        if status != 201 {
            return Answer::empty(status);
        }
        let body = request.json().unwrap_or_default();
        let redirects: Vec<String> = body
            .get("redirect_uris")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|uri| uri.as_str().map(str::to_owned))
            .collect();
        let client = self.fresh("client");
        self.clients.insert(client.clone(), redirects);
        let answer = json!({
            "client_id": client,
            "client_secret": null,
            "client_secret_expires_at": null,
            "client_uri": null,
            "token_endpoint_auth_method": "none",
        });
        Answer::json(201, &answer)
    }

    /// Consents to a request; the address that the browser is sent to. None if the request is wrong.
    pub(super) fn authorize(&mut self, query: &[(String, String)]) -> Option<String> {
        let value = |name: &str| first(query, name).unwrap_or_default().to_owned();
        let redirect = value("redirect_uri");
        let is_known =
            self.clients.get(&value("client_id")).is_none_or(|known| known.contains(&redirect));
        let is_complete = !value("client_id").is_empty()
            && value("response_type") == "code"
            && value("code_challenge_method") == "S256"
            && !value("state").is_empty();
        let has_resource = first(query, "resource").is_some();
        if !is_known || !is_complete || (self.behaviour.refuses_resource && has_resource) {
            return None;
        }
        let code = self.fresh("code");
        self.codes.insert(
            code.clone(),
            Code {
                client: value("client_id"),
                redirect: redirect.clone(),
                challenge: value("code_challenge"),
                scope: value("scope"),
            },
        );
        let mut back = Url::parse(&redirect).ok()?;
        {
            let mut pairs = back.query_pairs_mut();
            pairs.append_pair("code", &code).append_pair("state", &value("state"));
            match &self.behaviour.iss {
                Iss::Absent => {}
                Iss::Right => drop(pairs.append_pair("iss", &self.issuer())),
                Iss::Other(other) => drop(pairs.append_pair("iss", other)),
            }
        }
        Some(back.into())
    }

    pub(super) fn token(&mut self, request: &Request) -> Answer {
        let form = request.form();
        let value = |name: &str| first(&form, name).unwrap_or_default().to_owned();
        if self.behaviour.refuses_resource && first(&form, "resource").is_some() {
            return refused("invalid_target");
        }
        match value("grant_type").as_str() {
            "authorization_code" => {
                let Some(code) = self.codes.remove(&value("code")) else {
                    return refused("invalid_grant");
                };
                let digest = Sha256::digest(value("code_verifier").as_bytes());
                let is_right = code.challenge == URL_SAFE_NO_PAD.encode(digest)
                    && code.redirect == value("redirect_uri")
                    && code.client == client_of(request, &value("client_id"));
                if is_right { self.issue(&code.scope, None) } else { refused("invalid_grant") }
            }
            "refresh_token" => self.refresh(&value("refresh_token")),
            _ => refused("unsupported_grant_type"),
        }
    }

    fn refresh(&mut self, token: &str) -> Answer {
        if let Some(status) = self.behaviour.refresh_status {
            return Answer::empty(status);
        }
        let Some(scope) = self.refresh.get(token).cloned() else {
            if self.used_refresh.contains(token) {
                // A token that was used before ends the whole family, as rotating issuers do.
                self.refresh.clear();
                self.access.clear();
            }
            return refused("invalid_grant");
        };
        if self.behaviour.rotates {
            self.refresh.remove(token);
            self.used_refresh.insert(token.to_owned());
            return self.issue(&scope, None);
        }
        self.issue(&scope, Some(token))
    }

    fn issue(&mut self, scope: &str, kept: Option<&str>) -> Answer {
        let scope = self.behaviour.granted_scope.unwrap_or(scope).to_owned();
        let access = self.fresh("access");
        self.access.insert(access.clone(), scope.clone());
        let mut answer = json!({ "access_token": access, "token_type": "Bearer" });
        add(&mut answer, "expires_in", self.behaviour.expires_s);
        add(&mut answer, "scope", Some(scope.clone()).filter(|scope| !scope.is_empty()));
        if self.behaviour.gives_refresh_token && kept.is_none() {
            let refresh = self.fresh("refresh");
            self.refresh.insert(refresh.clone(), scope);
            add(&mut answer, "refresh_token", Some(refresh));
        }
        Answer::json(200, &answer)
    }

    pub(super) fn revoke(&mut self, request: &Request) -> Answer {
        let form = request.form();
        let token = first(&form, "token").unwrap_or_default();
        self.refresh.remove(token);
        self.access.remove(token);
        Answer::empty(200)
    }
}

/// The client id of a request, in its header or in its form.
fn client_of(request: &Request, given: &str) -> String {
    let Some(pair) = request.credentials("basic") else { return given.to_owned() };
    let decoded = base64::engine::general_purpose::STANDARD.decode(pair).unwrap_or_default();
    let text = String::from_utf8(decoded).unwrap_or_default();
    text.split(':').next().unwrap_or_default().to_owned()
}

fn refused(code: &str) -> Answer {
    Answer::json(400, &json!({ "error": code }))
}

fn add(object: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    let members: Option<&mut Map<String, Value>> = object.as_object_mut();
    if let (Some(members), Some(value)) = (members, value) {
        members.insert(name.to_owned(), value.into());
    }
}
