//! Finds the authorization server of an MCP server: the challenge, the protected resource metadata, the issuer's
//! metadata, each checked before the next is fetched.

use std::time::Duration;

use ::oauth::client::address::{self, AddressRefused, Network};
use ::oauth::client::challenge::Challenge;
use ::oauth::client::discovery;
use ::oauth::client::metadata::{
    AuthorizationServer, MetadataRefused, ProtectedResource, resource_of,
};
use hyper::Method;
use serde_json::{Value, json};
use url::Url;

use super::{ServerLogins, network_of};
use crate::http::{HttpError, Request};

/// What a server answers without a token.
#[derive(Debug)]
pub enum ServerProbe {
    /// It answers without a sign-in.
    Open,
    NeedsSignIn(Box<Discovered>),
}

/// A server that wants a sign-in, and its authorization server.
#[derive(Clone, Debug)]
pub struct Discovered {
    pub server: Url,
    pub network: Network,
    pub challenge: Challenge,
    /// The `resource` of tokens for this server.
    pub resource: String,
    pub resource_scopes: Option<Vec<String>>,
    pub issuer: AuthorizationServer,
    /// No document was found: the endpoints are the defaults of revision 2025-03-26.
    pub is_guessed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("the server cannot be reached: {0}")]
    Unreachable(HttpError),
    #[error("the server requires a sign-in, but names no authorization server")]
    NoIssuer,
    #[error("the server's sign-in metadata is not used: {0}")]
    Resource(MetadataRefused),
    #[error("the metadata of the authorization server `{issuer}` is not used: {why}")]
    Issuer { issuer: String, why: MetadataRefused },
    #[error("the authorization server `{issuer}` has no metadata at any of its addresses")]
    NoMetadata { issuer: String },
    #[error("an address in the server's sign-in metadata is not used: {0}")]
    Address(#[from] AddressRefused),
}

impl ServerLogins {
    /// Asks a server without a token, and finds its authorization server if it wants one. Some servers answer the
    /// handshake and want a token for the rest; some only for certain tools, which their metadata shows.
    pub async fn probe(&self, server: &Url) -> Result<ServerProbe, DiscoverError> {
        let network = network_of(server).await;
        for message in [hello(), list_tools()] {
            if let Some(challenge) = self.challenge(server, network, &message).await? {
                let found = self.discover(server, network, challenge).await?;
                return Ok(ServerProbe::NeedsSignIn(Box::new(found)));
            }
        }
        let challenge = Challenge::default();
        match self.protected_resource(server, network, &challenge).await {
            Ok(Some(_)) => {
                let found = self.discover(server, network, challenge).await?;
                Ok(ServerProbe::NeedsSignIn(Box::new(found)))
            }
            _ => Ok(ServerProbe::Open),
        }
    }

    /// The challenge of a 401; none if the server answers otherwise.
    async fn challenge(
        &self,
        server: &Url,
        network: Network,
        message: &Value,
    ) -> Result<Option<Challenge>, DiscoverError> {
        let request = Request::at(Method::POST, server)
            .header("accept", "application/json, text/event-stream")
            .json(message);
        let mut reply = self.send(request, network).await.map_err(DiscoverError::Unreachable)?;
        if matches!(reply.status, 400 | 404 | 405) {
            // A server with HTTP+SSE of 2024-11-05 may protect its stream only. An open stream does not end, so
            // an error here says nothing.
            let request = Request::at(Method::GET, server).header("accept", "text/event-stream");
            let request = request.wait_max(STREAM_WAIT_MAX).reply_bytes_max(STREAM_BYTES_MAX);
            match self.http(network).send(request).await {
                Ok(of_stream) => reply = of_stream,
                Err(_) => return Ok(None),
            }
        }
        if reply.status != 401 {
            return Ok(None);
        }
        let values = reply.headers.get_all("www-authenticate");
        let values = values.iter().filter_map(|value| value.to_str().ok());
        Ok(Some(Challenge::of(values).unwrap_or_default()))
    }

    async fn discover(
        &self,
        server: &Url,
        network: Network,
        challenge: Challenge,
    ) -> Result<Discovered, DiscoverError> {
        let Some(resource) = self.protected_resource(server, network, &challenge).await? else {
            let (issuer, is_guessed) = self.legacy_issuer(server, network).await?;
            let resource = resource_of(server);
            let server = server.clone();
            return Ok(Discovered {
                server,
                network,
                challenge,
                resource,
                resource_scopes: None,
                issuer,
                is_guessed,
            });
        };
        let issuer = resource.authorization_servers.first().ok_or(DiscoverError::NoIssuer)?;
        Ok(Discovered {
            server: server.clone(),
            network,
            challenge,
            issuer: self.issuer(issuer, network).await?,
            resource: resource.resource,
            resource_scopes: resource.scopes_supported,
            is_guessed: false,
        })
    }

    /// The metadata of the server: where the challenge says, else at the well-known addresses.
    async fn protected_resource(
        &self,
        server: &Url,
        network: Network,
        challenge: &Challenge,
    ) -> Result<Option<ProtectedResource>, DiscoverError> {
        let candidates = match &challenge.resource_metadata {
            Some(named) => vec![address::parse(named, network)?],
            None => discovery::resource_metadata(server),
        };
        for candidate in candidates {
            if let Some(document) = self.document(&candidate, network).await? {
                let read = ProtectedResource::read(&document, server);
                return read.map(Some).map_err(DiscoverError::Resource);
            }
        }
        Ok(None)
    }

    /// The metadata of an issuer: every address of the specification in its order, until one has a document. A
    /// document of another issuer ends the search, because it may be an attack.
    pub(super) async fn issuer(
        &self,
        issuer: &str,
        network: Network,
    ) -> Result<AuthorizationServer, DiscoverError> {
        let url = address::parse(issuer, network)?;
        for candidate in discovery::issuer_metadata(&url) {
            if let Some(document) = self.document(&candidate, network).await? {
                return AuthorizationServer::read(&document, issuer, network)
                    .map_err(|why| DiscoverError::Issuer { issuer: issuer.to_owned(), why });
            }
        }
        Err(DiscoverError::NoMetadata { issuer: issuer.to_owned() })
    }

    /// A server of revision 2025-03-26: its own origin is the issuer, with or without metadata.
    async fn legacy_issuer(
        &self,
        server: &Url,
        network: Network,
    ) -> Result<(AuthorizationServer, bool), DiscoverError> {
        let origin = discovery::origin(server);
        for candidate in discovery::issuer_metadata(&origin) {
            let Some(document) = self.document(&candidate, network).await? else { continue };
            // No document named the issuer, so the origin is accepted with or without its slash.
            let named = document.get("issuer").and_then(Value::as_str).unwrap_or_default();
            let expected =
                if named == origin.as_str() { named.to_owned() } else { resource_of(&origin) };
            return AuthorizationServer::read(&document, &expected, network)
                .map(|issuer| (issuer, false))
                .map_err(|why| DiscoverError::Issuer { issuer: expected, why });
        }
        Ok((AuthorizationServer::with_default_endpoints(server), true))
    }

    /// A JSON document; none if there is no such document at this address.
    async fn document(&self, at: &Url, network: Network) -> Result<Option<Value>, DiscoverError> {
        address::check(at, network)?;
        let reply = self
            .send(Request::at(Method::GET, at), network)
            .await
            .map_err(DiscoverError::Unreachable)?;
        if reply.status != 200 {
            return Ok(None);
        }
        Ok(serde_json::from_slice(&reply.body).ok().filter(Value::is_object))
    }
}

/// A 401 comes at once.
const STREAM_WAIT_MAX: Duration = Duration::from_secs(5);
const STREAM_BYTES_MAX: usize = 64 << 10;

/// The first request of a client of any revision with a handshake.
fn hello() -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": "tollgate-sign-in",
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "tollgate", "version": env!("CARGO_PKG_VERSION") },
        },
    })
}

/// A request that most servers protect. One without a session may be refused, but a server that wants a token says
/// so first.
fn list_tools() -> Value {
    json!({ "jsonrpc": "2.0", "id": "tollgate-sign-in", "method": "tools/list", "params": {} })
}
