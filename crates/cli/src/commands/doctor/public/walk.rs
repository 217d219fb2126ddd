//! The requests of one client, from the address of `/mcp` to a refused token request.

use std::net::{IpAddr, SocketAddr};

use connectors::http::{BaseUrl, Http, Reply, Request};
use http::Method;
use oauth::client::address::is_private;
use oauth::server::Issuer;
use serde_json::{Value, json};

use super::clients::{Origin, SignInClient, SignInStep};

const REPLY_BYTES_MAX: usize = 1 << 20;
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const REVISION: &str = "2025-11-25";

/// Why a step fails, and what to do.
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) fix: String,
}

impl Fault {
    fn new(message: impl Into<String>, fix: impl Into<String>) -> Fault {
        Fault { message: message.into(), fix: fix.into() }
    }
}

pub(super) struct Walk {
    pub(super) issuer: Issuer,
    base: BaseUrl,
    http: Http,
    connect_to: Option<SocketAddr>,
}

impl Walk {
    pub(super) fn new(issuer: Issuer, connect_to: Option<SocketAddr>) -> anyhow::Result<Walk> {
        let base = BaseUrl::parse(issuer.as_str()).map_err(anyhow::Error::msg)?;
        let http = connect_to.map_or_else(Http::new, Http::connecting_to);
        Ok(Walk { issuer, base, http, connect_to })
    }

    /// The first step that fails, if one does.
    pub(super) async fn of(&self, client: &SignInClient) -> Result<(), (SignInStep, Fault)> {
        let walk = ClientWalk { walk: self, client };
        let mut metadata = Value::Null;
        let mut id = String::new();
        for step in client.steps() {
            let done = match step {
                SignInStep::Internet => self.internet(client.origin).await,
                SignInStep::Challenge => walk.challenge().await,
                SignInStep::Resource => walk.resource().await,
                SignInStep::Metadata => walk.metadata().await.map(|found| metadata = found),
                SignInStep::Identity => walk.identity(&metadata).await.map(|found| id = found),
                SignInStep::Authorize => walk.authorize(&id).await,
                SignInStep::Token => walk.token(&id).await,
            };
            done.map_err(|fault| (*step, fault))?;
        }
        Ok(())
    }

    /// A name that cannot be resolved is reported by the next step.
    async fn internet(&self, origin: Origin) -> Result<(), Fault> {
        let host = self.issuer.authority();
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
        let is_local =
            !self.issuer.is_https() || host == "localhost" || host.ends_with(".localhost");
        if is_local {
            let message = "it calls from its own machines, and this address is this machine only";
            let fix = "a tunnel or a proxy with https in front of the gate, as docs/guide/public.md shows";
            return Err(Fault::new(message, fix));
        }
        if self.connect_to.is_some() {
            return Ok(());
        }
        let found = tokio::net::lookup_host((host, 443)).await;
        let found: Vec<IpAddr> = found.into_iter().flatten().map(|address| address.ip()).collect();
        reachable(host, &found, origin)
    }

    pub(super) async fn send(&self, request: Request) -> Result<Reply, Fault> {
        let sent = self.http.send(request.reply_bytes_max(REPLY_BYTES_MAX)).await;
        sent.map_err(|error| {
            let fix = "check the name, the certificate, and that the tunnel or proxy runs and leads to the gate";
            Fault::new(error.to_string(), fix)
        })
    }

    pub(super) fn get(&self, segments: &[&str]) -> Request {
        Request::get(&self.base, segments)
    }

    fn post(&self, path: &str) -> Request {
        Request::new(Method::POST, &self.base, &[path])
    }

    /// What to do about an answer that is not the gate's.
    fn fix_of(&self, reply: &Reply) -> String {
        match reply.status {
            502..=504 => "the tunnel or proxy does not reach the gate: check that `tollgate up` runs, and the address that it forwards to".to_owned(),
            401 | 403 if host_hint(reply).is_empty() => {
                "the proxy must pass the requests and responses of `/mcp` on unchanged, without a guard of its own and without rules against bots".to_owned()
            }
            _ => self.address_fix(),
        }
    }

    pub(super) fn address_fix(&self) -> String {
        format!(
            "set `public_url = \"{}\"`, start the gate again, and let the proxy pass the Host header on",
            self.issuer.as_str()
        )
    }
}

/// Whether the machines of a client's vendor can reach a name with these addresses.
fn reachable(host: &str, found: &[IpAddr], origin: Origin) -> Result<(), Fault> {
    if let Some(address) = found.iter().find(|address| is_private(**address)) {
        return Err(Fault::new(
            format!(
                "it calls from its own machines, and `{host}` has the private address {address}"
            ),
            "give the name a public address; if it has one outside this network, `--connect-to ADDRESS:PORT` checks that one",
        ));
    }
    let is_ipv6_only = !found.is_empty() && found.iter().all(IpAddr::is_ipv6);
    if origin == Origin::CloudIpv4 && is_ipv6_only {
        return Err(Fault::new(
            format!("its machines have no IPv6, and `{host}` has no IPv4 address"),
            "give the name an A record, or put a tunnel that has one in front of the gate",
        ));
    }
    Ok(())
}

/// The steps that differ from client to client.
struct ClientWalk<'w> {
    walk: &'w Walk,
    client: &'w SignInClient,
}

impl ClientWalk<'_> {
    async fn send(&self, request: Request) -> Result<Reply, Fault> {
        let request = match self.client.user_agent {
            Some(name) => request.header("user-agent", name),
            None => request,
        };
        self.walk.send(request).await
    }

    async fn document(&self, segments: &[&str]) -> Result<Value, Fault> {
        let reply = self.send(self.walk.get(segments)).await?;
        let shown = format!("/{}", segments.join("/"));
        let fix = || match reply.status {
            403 | 502..=504 => self.walk.fix_of(&reply),
            _ => "the proxy must pass `/.well-known/` on to the gate, without a guard of its own"
                .to_owned(),
        };
        if reply.status != 200 {
            let hint = host_hint(&reply);
            let message = format!("{shown} answers with status {}{hint}", reply.status);
            return Err(Fault::new(message, fix()));
        }
        serde_json::from_slice(&reply.body)
            .map_err(|_| Fault::new(format!("{shown} is not JSON: something else answers"), fix()))
    }

    /// The handshakes of both eras and a request for a stream all lead to the sign-in.
    async fn challenge(&self) -> Result<(), Fault> {
        let message =
            |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {} });
        let headers = |request: Request| {
            let accepts = "application/json, text/event-stream";
            request.header("accept", accepts).header("mcp-protocol-version", REVISION)
        };
        let post = headers(self.walk.post("mcp"));
        let stream = self.walk.get(&["mcp"]).header("accept", "text/event-stream");
        for (method, request) in [
            ("POST", post.clone().json(&message("server/discover"))),
            ("POST", post.json(&message("initialize"))),
            ("GET", stream),
        ] {
            self.challenged(method, request).await?;
        }
        Ok(())
    }

    async fn challenged(&self, method: &str, request: Request) -> Result<(), Fault> {
        let reply = self.send(request.clone()).await?;
        let challenge = reply.header("www-authenticate").unwrap_or_default();
        let expected = self.walk.issuer.resource_metadata("/mcp");
        if reply.status == 401 && challenge.contains(&format!("resource_metadata=\"{expected}\"")) {
            return Ok(());
        }
        if reply.status == 403
            && let Some(name) = self.client.user_agent
            && self.walk.send(request).await.is_ok_and(|unnamed| unnamed.status == 401)
        {
            return Err(Fault::new(
                format!("requests of `{name}` are refused with status 403, and others are not"),
                "the proxy or its provider has a rule against AI bots: make an exception for this name (at Cloudflare: Block AI bots, and AI Crawl Control)",
            ));
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
        Err(Fault::new(message, self.walk.fix_of(&reply)))
    }

    async fn resource(&self) -> Result<(), Fault> {
        let document = self.document(&[".well-known", "oauth-protected-resource", "mcp"]).await?;
        let found = document.get("resource").and_then(Value::as_str).unwrap_or_default();
        let expected = self.walk.issuer.at("/mcp");
        if found == expected {
            return Ok(());
        }
        let message =
            format!("the gate calls itself `{found}`, and the client was given {expected}");
        Err(Fault::new(message, self.walk.address_fix()))
    }

    async fn metadata(&self) -> Result<Value, Fault> {
        let metadata = self.document(&[".well-known", "oauth-authorization-server"]).await?;
        let expected = self.walk.issuer.server_metadata();
        for name in [
            "issuer",
            "authorization_endpoint",
            "token_endpoint",
            "registration_endpoint",
            "code_challenge_methods_supported",
        ] {
            if metadata.get(name) != expected.get(name) {
                let found = metadata.get(name).map(ToString::to_string).unwrap_or_default();
                let message = format!("`{name}` of the authorization server is {found}");
                return Err(Fault::new(message, self.walk.address_fix()));
            }
        }
        if self.client.needs_offline_access
            && !lists(&metadata, "scopes_supported", "offline_access")
        {
            return Err(Fault::new("`offline_access` is not offered", "use a newer tollgate"));
        }
        Ok(metadata)
    }

    /// The address of its document, or an id that it registers for.
    async fn identity(&self, metadata: &Value) -> Result<String, Fault> {
        match self.client.document {
            Some(document) if takes_documents(metadata) => Ok(document.to_owned()),
            _ => self.register().await,
        }
    }

    async fn register(&self) -> Result<String, Fault> {
        let body = json!({
            "client_name": format!("{} (tollgate doctor)", self.client.name),
            "redirect_uris": self.client.registers,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": self.client.scope,
        });
        let reply = self.send(self.walk.post("register").json(&body)).await?;
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let has_refresh = lists(&answer, "grant_types", "refresh_token");
        match answer.get("client_id").and_then(Value::as_str) {
            Some(id) if reply.status == 201 && has_refresh => Ok(id.to_owned()),
            _ => Err(Fault::new(
                format!("/register answers with status {}{}", reply.status, text_of(&answer)),
                "the proxy must pass POST requests with JSON on to the gate",
            )),
        }
    }

    /// The browser of the owner makes this request, so it is not sent in the client's name.
    async fn authorize(&self, id: &str) -> Result<(), Fault> {
        for redirect in self.client.redirects {
            let request = self
                .walk
                .get(&["authorize"])
                .query("response_type", "code")
                .query("client_id", id)
                .query("redirect_uri", redirect)
                .query("code_challenge", CHALLENGE)
                .query("code_challenge_method", "S256")
                .query("scope", self.client.scope)
                .query("state", "tollgate-doctor")
                .query("resource", &self.walk.issuer.at("/mcp"));
            let reply = self.walk.send(request).await?;
            let page = String::from_utf8_lossy(&reply.body);
            if reply.status != 200 || !page.contains("/authorize/consent?") {
                let message = format!(
                    "/authorize answers with status {} and not with the sign-in page",
                    reply.status
                );
                return Err(Fault::new(
                    message,
                    "the proxy must not ask for a login of its own on `/authorize` and `/sign-in`, nor block addresses in the query",
                ));
            }
        }
        Ok(())
    }

    /// A code that does not exist must be refused by the gate itself.
    async fn token(&self, id: &str) -> Result<(), Fault> {
        let resource = self.walk.issuer.at("/mcp");
        let request = self.walk.post("token").form(&[
            ("grant_type", "authorization_code"),
            ("code", "tg_code_of_the_doctor"),
            ("code_verifier", VERIFIER),
            ("client_id", id),
            ("redirect_uri", self.client.redirects.first().copied().unwrap_or_default()),
            ("resource", &resource),
        ]);
        let reply = self.send(request).await?;
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if reply.status == 400 && answer.get("error").is_some_and(|error| error == "invalid_grant")
        {
            return Ok(());
        }
        let message = format!("/token answers with status {}{}", reply.status, text_of(&answer));
        Err(Fault::new(message, "the proxy must pass POST requests with forms on to the gate"))
    }
}

/// Whether a client may be known by its metadata document. Others register.
fn takes_documents(metadata: &Value) -> bool {
    let is_supported =
        metadata.get("client_id_metadata_document_supported") == Some(&Value::Bool(true));
    is_supported && lists(metadata, "token_endpoint_auth_methods_supported", "none")
}

fn lists(value: &Value, name: &str, item: &str) -> bool {
    let items = value.get(name).and_then(Value::as_array);
    items.is_some_and(|items| items.iter().any(|one| one == item))
}

/// What the answer says is wrong.
fn text_of(answer: &Value) -> String {
    let message = answer.get("error_description").and_then(Value::as_str);
    message.map(|message| format!(": {message}")).unwrap_or_default()
}

/// The gate refuses names that it does not know with a text that names the Host.
pub(super) fn host_hint(reply: &Reply) -> &'static str {
    let is_refused = reply.status == 403 && String::from_utf8_lossy(&reply.body).contains("Host");
    if is_refused { ": the gate does not know this host name" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_have_an_address_that_the_vendor_can_reach() {
        for (origin, found, said) in [
            (Origin::CloudIpv4, &["1.2.3.7"][..], None),
            (Origin::CloudIpv4, &["2001:4860::7", "1.2.3.7"], None),
            (Origin::CloudIpv4, &["2001:4860::7"], Some("no IPv4 address")),
            (Origin::Cloud, &["2001:4860::7"], None),
            (Origin::Cloud, &["10.0.0.7"], Some("private address 10.0.0.7")),
            (Origin::CloudIpv4, &[], None),
        ] {
            let found: Vec<IpAddr> = found.iter().filter_map(|text| text.parse().ok()).collect();
            let fault = reachable("gate.example", &found, origin).err();
            let message = fault.map(|fault| fault.message);
            match said {
                Some(words) => assert!(message.is_some_and(|m| m.contains(words)), "{found:?}"),
                None => assert_eq!(message, None, "{found:?}"),
            }
        }
    }
}
