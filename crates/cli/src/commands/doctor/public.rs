//! `doctor --public`: takes the steps of a client that knows only the address, and says for each client which
//! step would fail. It registers one client, which expires within the hour, and changes nothing else.

use std::net::{IpAddr, SocketAddr};

use connectors::http::{BaseUrl, Http, Reply, Request};
use http::Method;
use oauth::client::address::is_private;
use oauth::client::registration::CLIENT_DOCUMENT_PATH;
use oauth::server::Issuer;
use serde_json::{Value, json};

mod clients;

use super::Finding;
use crate::context::Context;
use crate::gate::runtime;
use crate::running;
use clients::{CLIENTS, SignInClient, SignInStep};

const REPLY_BYTES_MAX: usize = 1 << 20;
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// Why a step fails, and what to do.
struct Fault {
    step: SignInStep,
    /// The only client that it concerns; all of them otherwise.
    client: Option<&'static str>,
    message: String,
    fix: String,
}

const NO_ADDRESS: &str = "set `public_url` in tollgate.toml and start the gate again, or give the address: `tollgate doctor --public=https://gate.example`";

/// `named` is the address that was given, or empty.
pub(super) fn check(
    named: &str,
    connect_to: Option<SocketAddr>,
    context: &Context,
) -> anyhow::Result<Vec<Finding>> {
    let Some(address) = address(named, context)? else {
        let message = "the gate has no public address, so clients elsewhere cannot reach it";
        return Ok(vec![Finding::wrong("public", message, NO_ADDRESS)]);
    };
    let issuer = match Issuer::parse(&address) {
        Ok(issuer) => issuer,
        Err(why) => {
            let message = format!("`{address}` cannot be the public address: {why}");
            return Ok(vec![Finding::wrong("public", message, NO_ADDRESS)]);
        }
    };
    let is_dashboard_wanted = context.settings()?.public_dashboard;
    let base = BaseUrl::parse(issuer.as_str()).map_err(anyhow::Error::msg)?;
    let http = connect_to.map_or_else(Http::new, Http::connecting_to);
    let walk = Walk { issuer, base, http, connect_to };
    let (faults, dashboard) = runtime()?
        .block_on(async { (walk.faults().await, walk.dashboard(is_dashboard_wanted).await) });
    let mut findings = vec![dashboard];
    findings.extend(CLIENTS.iter().map(|client| verdict(client, &walk.issuer, &faults)));
    Ok(findings)
}

/// The address that was given, that of a running gate, or that of the settings.
fn address(named: &str, context: &Context) -> anyhow::Result<Option<String>> {
    if !named.is_empty() {
        return Ok(Some(named.to_owned()));
    }
    let running = running::all(&context.home_path()?);
    let running = running.into_iter().find_map(|gate| gate.public_url);
    let settings = context.settings()?.public_url;
    Ok(running.or_else(|| settings.map(|issuer| issuer.as_str().to_owned())))
}

fn verdict(client: &SignInClient, issuer: &Issuer, faults: &[Fault]) -> Finding {
    let concerns = |fault: &&Fault| fault.client.is_none_or(|name| name == client.name);
    let steps = client.steps();
    let fault = steps
        .iter()
        .find_map(|step| faults.iter().filter(concerns).find(|fault| fault.step == *step));
    match fault {
        None => {
            let message = format!(
                "can sign in at {}: {} steps checked; the next one is your consent",
                issuer.at("/mcp"),
                steps.len()
            );
            Finding::good(client.name, message)
        }
        Some(fault) => {
            let at = steps.iter().position(|step| *step == fault.step).unwrap_or_default();
            let message = format!("stops at step {} of {}: {}", at + 1, steps.len(), fault.message);
            Finding::wrong(client.name, message, fault.fix.clone())
        }
    }
}

struct Walk {
    issuer: Issuer,
    base: BaseUrl,
    http: Http,
    connect_to: Option<SocketAddr>,
}

impl Walk {
    /// Every step is tried, because clients need different ones.
    async fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut note_for = |client, step, result: Result<(), (String, String)>| {
            if let Err((message, fix)) = result {
                faults.push(Fault { step, client, message, fix });
            }
        };
        let mut note = |step, result| note_for(None, step, result);
        note(SignInStep::Internet, self.internet().await);
        note(SignInStep::Challenge, self.challenge().await);
        note(SignInStep::Resource, self.resource().await);
        let metadata = self.document(&[".well-known", "oauth-authorization-server"]).await;
        note(
            SignInStep::Metadata,
            metadata.as_ref().map_err(Clone::clone).and_then(|m| self.metadata(m)),
        );
        let known = metadata.unwrap_or_default();
        note(SignInStep::OfflineAccess, offline_access(&known));
        let registered = self.register().await;
        // A client with a document is known by the address of the document.
        let by_document = self.issuer.at(CLIENT_DOCUMENT_PATH);
        let id = registered.as_ref().unwrap_or(&by_document);
        note(SignInStep::Token, self.token(id).await);
        for one in CLIENTS {
            let has_id = match &registered {
                Err(fault) if !(one.has_document && takes_documents(&known)) => Err(fault.clone()),
                _ => Ok(()),
            };
            note_for(Some(one.name), SignInStep::Registration, has_id);
            note_for(Some(one.name), SignInStep::Authorize, self.authorize(id, one).await);
        }
        faults
    }

    /// A name that cannot be resolved is reported by the next step.
    async fn internet(&self) -> Result<(), (String, String)> {
        let host = self.issuer.authority();
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
        let is_local =
            !self.issuer.is_https() || host == "localhost" || host.ends_with(".localhost");
        let found: Vec<IpAddr> = if self.connect_to.is_some() {
            Vec::new()
        } else {
            let found = tokio::net::lookup_host((host, 443)).await;
            found.into_iter().flatten().map(|address| address.ip()).collect()
        };
        if is_local {
            let message = "it calls from its own machines, and this address is this machine only";
            let fix = "a tunnel or a proxy with https in front of the gate, as docs/guide/public.md shows";
            return Err((message.to_owned(), fix.to_owned()));
        }
        match found.iter().find(|address| is_private(**address)) {
            Some(address) => Err((
                format!("it calls from its own machines, and `{host}` has the private address {address}"),
                "give the name a public address; if it has one outside this network, `--connect-to ADDRESS:PORT` checks that one".to_owned(),
            )),
            None => Ok(()),
        }
    }

    async fn send(&self, request: Request) -> Result<Reply, (String, String)> {
        let sent = self.http.send(request.reply_bytes_max(REPLY_BYTES_MAX)).await;
        sent.map_err(|error| {
            let fix = "check the name, the certificate, and that the tunnel or proxy runs and leads to the gate";
            (error.to_string(), fix.to_owned())
        })
    }

    async fn document(&self, segments: &[&str]) -> Result<Value, (String, String)> {
        let reply = self.send(Request::get(&self.base, segments)).await?;
        let shown = format!("/{}", segments.join("/"));
        let fix = || match reply.status {
            403 | 502..=504 => self.fix_of(&reply),
            _ => "the proxy must pass `/.well-known/` on to the gate, without a guard of its own"
                .to_owned(),
        };
        if reply.status != 200 {
            return Err((
                format!("{shown} answers with status {}{}", reply.status, host_hint(&reply)),
                fix(),
            ));
        }
        serde_json::from_slice(&reply.body)
            .map_err(|_| (format!("{shown} is not JSON: something else answers"), fix()))
    }

    /// The handshakes of both eras and a request for a stream all lead to the sign-in.
    async fn challenge(&self) -> Result<(), (String, String)> {
        let message =
            |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {} });
        let post = Request::new(Method::POST, &self.base, &["mcp"]);
        let stream = Request::get(&self.base, &["mcp"]).header("accept", "text/event-stream");
        for (method, request) in [
            ("POST", post.clone().json(&message("server/discover"))),
            ("POST", post.json(&message("initialize"))),
            ("GET", stream),
        ] {
            self.challenged(method, request).await?;
        }
        Ok(())
    }

    async fn challenged(&self, method: &str, request: Request) -> Result<(), (String, String)> {
        let reply = self.send(request).await?;
        let challenge = reply.header("www-authenticate").unwrap_or_default();
        let expected = self.issuer.resource_metadata("/mcp");
        if reply.status == 401 && challenge.contains(&format!("resource_metadata=\"{expected}\"")) {
            return Ok(());
        }
        let message = match reply.status {
            401 if challenge.is_empty() => {
                "/mcp answers with 401, but without the header `WWW-Authenticate` that names the sign-in".to_owned()
            }
            401 => format!("the challenge does not name {expected}: `{challenge}`"),
            status => format!(
                "{method} /mcp without a token answers with status {status}, not 401, so that no client begins a sign-in{}",
                host_hint(&reply)
            ),
        };
        Err((message, self.fix_of(&reply)))
    }

    async fn resource(&self) -> Result<(), (String, String)> {
        let document = self.document(&[".well-known", "oauth-protected-resource", "mcp"]).await?;
        let found = document.get("resource").and_then(Value::as_str).unwrap_or_default();
        let expected = self.issuer.at("/mcp");
        if found == expected {
            return Ok(());
        }
        let message =
            format!("the gate calls itself `{found}`, and the client was given {expected}");
        Err((message, self.address_fix()))
    }

    /// What to do about an answer that is not the gate's.
    fn fix_of(&self, reply: &Reply) -> String {
        match reply.status {
            502..=504 => "the tunnel or proxy does not reach the gate: check that `tollgate up` runs, and the address that it forwards to".to_owned(),
            401 | 403 if host_hint(reply).is_empty() => {
                "the proxy must pass the requests and responses of `/mcp` on unchanged, without a guard of its own".to_owned()
            }
            _ => self.address_fix(),
        }
    }

    fn address_fix(&self) -> String {
        format!(
            "set `public_url = \"{}\"`, start the gate again, and let the proxy pass the Host header on",
            self.issuer.as_str()
        )
    }

    fn metadata(&self, metadata: &Value) -> Result<(), (String, String)> {
        let expected = self.issuer.server_metadata();
        for name in [
            "issuer",
            "authorization_endpoint",
            "token_endpoint",
            "registration_endpoint",
            "code_challenge_methods_supported",
        ] {
            if metadata.get(name) != expected.get(name) {
                let found = metadata.get(name).map(ToString::to_string).unwrap_or_default();
                return Err((
                    format!("`{name}` of the authorization server is {found}"),
                    self.address_fix(),
                ));
            }
        }
        Ok(())
    }

    /// Registers one client with the redirects of all.
    async fn register(&self) -> Result<String, (String, String)> {
        let redirects: Vec<&str> = CLIENTS.iter().map(|client| client.registered).collect();
        let body = json!({
            "client_name": "tollgate doctor", "redirect_uris": redirects,
            "token_endpoint_auth_method": "none",
        });
        let request = Request::new(Method::POST, &self.base, &["register"]).json(&body);
        let reply = self.send(request).await?;
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let has_refresh = answer.get("grant_types").is_some_and(|types| {
            types.as_array().is_some_and(|types| types.iter().any(|one| one == "refresh_token"))
        });
        match answer.get("client_id").and_then(Value::as_str) {
            Some(id) if reply.status == 201 && has_refresh => Ok(id.to_owned()),
            _ => Err((
                format!("/register answers with status {}{}", reply.status, text_of(&answer)),
                "the proxy must pass POST requests with JSON on to the gate".to_owned(),
            )),
        }
    }

    async fn authorize(&self, id: &str, client: &SignInClient) -> Result<(), (String, String)> {
        let request = Request::get(&self.base, &["authorize"])
            .query("response_type", "code")
            .query("client_id", id)
            .query("redirect_uri", client.redirect)
            .query("code_challenge", CHALLENGE)
            .query("code_challenge_method", "S256")
            .query("resource", &self.issuer.at("/mcp"));
        let reply = self.send(request).await?;
        let page = String::from_utf8_lossy(&reply.body);
        if reply.status == 200 && page.contains("/authorize/consent?") {
            return Ok(());
        }
        let message = format!(
            "/authorize answers with status {} and not with the sign-in page",
            reply.status
        );
        Err((
            message,
            "the proxy must not ask for a login of its own on `/authorize` and `/sign-in`"
                .to_owned(),
        ))
    }

    /// A code that does not exist must be refused by the gate itself.
    async fn token(&self, client: &str) -> Result<(), (String, String)> {
        let request = Request::new(Method::POST, &self.base, &["token"]).form(&[
            ("grant_type", "authorization_code"),
            ("code", "tg_code_of_the_doctor"),
            ("code_verifier", VERIFIER),
            ("client_id", client),
        ]);
        let reply = self.send(request).await?;
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if reply.status == 400 && answer.get("error").is_some_and(|error| error == "invalid_grant")
        {
            return Ok(());
        }
        let message = format!("/token answers with status {}{}", reply.status, text_of(&answer));
        Err((message, "the proxy must pass POST requests with forms on to the gate".to_owned()))
    }

    /// The dashboard should not be reachable under a public address.
    async fn dashboard(&self, is_wanted: bool) -> Finding {
        if is_wanted {
            let message =
                "the dashboard is served under the public address, as `public_dashboard` says";
            return Finding::careful(
                "dashboard",
                message,
                "leave out `public_dashboard` unless you need it there",
            );
        }
        match self.send(Request::get(&self.base, &["grants"])).await {
            Err((message, fix)) => Finding::wrong("dashboard", message, fix),
            Ok(reply) if reply.status == 404 => {
                Finding::good("dashboard", "not served under the public address")
            }
            Ok(_) if !self.issuer.is_https() => {
                Finding::good("dashboard", "served on this machine only")
            }
            Ok(reply) if !host_hint(&reply).is_empty() => {
                let words = format!("cannot be checked{}", host_hint(&reply));
                Finding::careful("dashboard", words, self.address_fix())
            }
            Ok(reply) if !is_of_the_gate(&reply) => Finding::careful(
                "dashboard",
                format!(
                    "cannot be checked: /grants answers with status {}, and it is not the gate that answers",
                    reply.status
                ),
                "the proxy has a guard of its own, which clients cannot pass; take it off for this name",
            ),
            Ok(reply) => Finding::wrong(
                "dashboard",
                format!(
                    "it answers under the public address, with status {}: the Host header of the request was changed on its way",
                    reply.status
                ),
                self.address_fix(),
            ),
        }
    }
}

/// Whether a client may be known by its metadata document. Others register.
fn takes_documents(metadata: &Value) -> bool {
    let is_supported =
        metadata.get("client_id_metadata_document_supported") == Some(&Value::Bool(true));
    let methods = metadata.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    is_supported && methods.is_some_and(|methods| methods.iter().any(|method| method == "none"))
}

/// The pages of the gate say whose they are, and it has no other way to ask for a sign-in.
fn is_of_the_gate(reply: &Reply) -> bool {
    reply.header("www-authenticate").is_none()
        && String::from_utf8_lossy(&reply.body).contains("tollgate")
}

fn offline_access(metadata: &Value) -> Result<(), (String, String)> {
    let scopes = metadata.get("scopes_supported").and_then(Value::as_array);
    if scopes.is_some_and(|scopes| scopes.iter().any(|scope| scope == "offline_access")) {
        return Ok(());
    }
    Err(("`offline_access` is not offered".to_owned(), "use a newer tollgate".to_owned()))
}

/// What the answer says is wrong.
fn text_of(answer: &Value) -> String {
    let message = answer.get("error_description").and_then(Value::as_str);
    message.map(|message| format!(": {message}")).unwrap_or_default()
}

/// The gate refuses names that it does not know with a text that names the Host.
fn host_hint(reply: &Reply) -> &'static str {
    let is_refused = reply.status == 403 && String::from_utf8_lossy(&reply.body).contains("Host");
    if is_refused { ": the gate does not know this host name" } else { "" }
}
