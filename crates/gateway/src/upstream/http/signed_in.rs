//! Requests with the token of a login: refreshed once and sent again after a 401.

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Response, Uri};

use super::HttpLink;
use super::server::{HttpServer, SessionHeaders};
use crate::upstream::body::ResponseBody;
use crate::upstream::connection_limits::GrantLimits;
use crate::upstream::error::UpstreamError;
use crate::upstream::login::LinkLogin;
use crate::upstream::message::UpstreamMessage;

/// A request for a stream, or to end a session.
pub(super) struct BodylessRequest<'a> {
    pub(super) method: Method,
    pub(super) accept: HeaderValue,
    pub(super) more: Option<&'a (HeaderName, HeaderValue)>,
}

/// What is sent with a token.
enum Outgoing<'a> {
    Post(&'a UpstreamMessage),
    /// To another address of the server.
    PostTo(&'a Uri, &'a UpstreamMessage),
    Bodyless(&'a BodylessRequest<'a>),
}

/// A server, with the limits and the login of one grant.
pub(in crate::upstream) struct GrantRoute<'a> {
    pub(in crate::upstream) server: &'a HttpServer,
    pub(in crate::upstream) limits: &'a GrantLimits,
    /// None for a server whose token the owner configured as a header.
    pub(in crate::upstream) login: Option<&'a LinkLogin>,
}

impl GrantRoute<'_> {
    /// Posts a message to another address of the server, which must accept it.
    pub(in crate::upstream) async fn post_to(
        &self,
        uri: &Uri,
        out: &UpstreamMessage,
    ) -> Result<(), UpstreamError> {
        let outgoing = Outgoing::PostTo(uri, out);
        let response = self.send(&SessionHeaders::default(), &outgoing).await?;
        self.check_accepted(response).await
    }

    /// Sends a request, with a token if there is a login.
    async fn send(
        &self,
        session_headers: &SessionHeaders,
        outgoing: &Outgoing<'_>,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        match self.login.filter(|login| login.is_known()) {
            None => self.send_once(session_headers, outgoing).await,
            Some(login) => Box::pin(self.send_signed_in(login, session_headers, outgoing)).await,
        }
    }

    /// A request that got a 401 was not processed, so it is sent again with another token: with one that another
    /// process has fetched, then with one of its own. A refusal of that is final.
    async fn send_signed_in(
        &self,
        login: &LinkLogin,
        session_headers: &SessionHeaders,
        outgoing: &Outgoing<'_>,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        const TRIES_MAX: usize = 3;
        let mut token = login.token().await?;
        let mut headers = session_headers.clone();
        let mut tries = 0;
        loop {
            headers.authorization = Some(token.header.clone());
            let response = self.send_once(&headers, outgoing).await?;
            tries += 1;
            if !LinkLogin::is_refused(response.status(), response.headers()) {
                return Ok(response);
            }
            // A token of another process may have been revoked since; only the refusal of our own ends the login.
            if token.is_new {
                login.note_refused(&token).await;
            }
            if token.is_new || tries == TRIES_MAX {
                return Ok(response);
            }
            response.into_body().finish(&self.server.bounds);
            token = login.next_token(&token).await?;
        }
    }

    async fn send_once(
        &self,
        session_headers: &SessionHeaders,
        outgoing: &Outgoing<'_>,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        match outgoing {
            Outgoing::Post(out) => self.server.post(self.limits, session_headers, out).await,
            Outgoing::PostTo(uri, out) => {
                self.server.post_at(uri, self.limits, session_headers, out).await
            }
            Outgoing::Bodyless(request) => {
                let BodylessRequest { method, accept, more } = request;
                self.server
                    .request_without_body(self.limits, method, accept, session_headers, *more)
                    .await
            }
        }
    }

    /// What a refusal means for the login, if it has to do with it.
    async fn login_refusal(&self, response: &Response<ResponseBody>) -> Option<UpstreamError> {
        self.login?.refusal(response.status(), response.headers()).await
    }

    /// A refused request as an error.
    async fn refusal(&self, response: Response<ResponseBody>) -> UpstreamError {
        if let Some(error) = self.login_refusal(&response).await {
            response.into_body().finish(&self.server.bounds);
            return error;
        }
        self.server.refusal(response).await
    }

    /// Checks that a message was accepted.
    async fn check_accepted(&self, response: Response<ResponseBody>) -> Result<(), UpstreamError> {
        if response.status().is_success() {
            return self.server.check_accepted(response).await;
        }
        Err(self.refusal(response).await)
    }
}

impl HttpLink {
    fn route(&self) -> GrantRoute<'_> {
        GrantRoute { server: &self.server, limits: &self.limits, login: self.login.as_deref() }
    }

    /// The login, if there is one to use.
    pub(super) fn login_in_use(&self) -> Option<&LinkLogin> {
        self.login.as_deref().filter(|login| login.is_known())
    }

    /// Posts a message, with a token if there is a login.
    pub(super) async fn post(
        &self,
        session_headers: &SessionHeaders,
        out: &UpstreamMessage,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        self.route().send(session_headers, &Outgoing::Post(out)).await
    }

    pub(super) async fn post_signed_in(
        &self,
        login: &LinkLogin,
        session_headers: &SessionHeaders,
        out: &UpstreamMessage,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        self.route().send_signed_in(login, session_headers, &Outgoing::Post(out)).await
    }

    /// Sends a request without a body, with a token if there is a login.
    pub(super) async fn request_without_body(
        &self,
        session_headers: &SessionHeaders,
        request: &BodylessRequest<'_>,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        self.route().send(session_headers, &Outgoing::Bodyless(request)).await
    }

    /// What a refusal means for the login, if it has to do with it.
    pub(super) async fn login_refusal(
        &self,
        response: &Response<ResponseBody>,
    ) -> Option<UpstreamError> {
        self.route().login_refusal(response).await
    }

    /// A refused request as an error.
    pub(super) async fn refusal(&self, response: Response<ResponseBody>) -> UpstreamError {
        self.route().refusal(response).await
    }

    /// Checks that a message was accepted.
    pub(super) async fn check_accepted(
        &self,
        response: Response<ResponseBody>,
    ) -> Result<(), UpstreamError> {
        self.route().check_accepted(response).await
    }
}
