//! Requests with the token of a login: refreshed once and sent again after a 401.

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Response};

use super::HttpLink;
use super::server::SessionHeaders;
use crate::upstream::body::Body;
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
    Bodyless(&'a BodylessRequest<'a>),
}

impl HttpLink {
    /// The login, if there is one to use.
    pub(super) fn login_in_use(&self) -> Option<&LinkLogin> {
        self.login.as_ref().filter(|login| login.is_known())
    }

    /// Posts a message, with a token if there is a login.
    pub(super) async fn post(
        &self,
        session_headers: &SessionHeaders,
        out: &UpstreamMessage,
    ) -> Result<Response<Body>, UpstreamError> {
        match self.login_in_use() {
            None => self.server.post(&self.limits, session_headers, out).await,
            Some(login) => Box::pin(self.post_signed_in(login, session_headers, out)).await,
        }
    }

    pub(super) async fn post_signed_in(
        &self,
        login: &LinkLogin,
        session_headers: &SessionHeaders,
        out: &UpstreamMessage,
    ) -> Result<Response<Body>, UpstreamError> {
        self.send_signed_in(login, session_headers, &Outgoing::Post(out)).await
    }

    /// Sends a request without a body, with a token if there is a login.
    pub(super) async fn request_without_body(
        &self,
        session_headers: &SessionHeaders,
        request: &BodylessRequest<'_>,
    ) -> Result<Response<Body>, UpstreamError> {
        let outgoing = Outgoing::Bodyless(request);
        match self.login_in_use() {
            None => self.send_outgoing(session_headers, &outgoing).await,
            Some(login) => Box::pin(self.send_signed_in(login, session_headers, &outgoing)).await,
        }
    }

    /// A request that got a 401 was not processed, so it is sent again with another token: with one that another
    /// process has fetched, then with one of its own. A refusal of that is final.
    async fn send_signed_in(
        &self,
        login: &LinkLogin,
        session_headers: &SessionHeaders,
        outgoing: &Outgoing<'_>,
    ) -> Result<Response<Body>, UpstreamError> {
        const TRIES_MAX: usize = 3;
        let mut token = login.token().await?;
        let mut headers = session_headers.clone();
        let mut tries = 0;
        loop {
            headers.authorization = Some(token.header.clone());
            let response = self.send_outgoing(&headers, outgoing).await?;
            tries += 1;
            if !LinkLogin::is_refused(response.status(), response.headers()) {
                return Ok(response);
            }
            if token.is_new || tries == TRIES_MAX {
                login.note_refused(&token).await;
                return Ok(response);
            }
            response.into_body().finish(&self.server.bounds);
            token = login.next_token(&token).await?;
        }
    }

    async fn send_outgoing(
        &self,
        session_headers: &SessionHeaders,
        outgoing: &Outgoing<'_>,
    ) -> Result<Response<Body>, UpstreamError> {
        match outgoing {
            Outgoing::Post(out) => self.server.post(&self.limits, session_headers, out).await,
            Outgoing::Bodyless(request) => {
                let BodylessRequest { method, accept, more } = request;
                self.server
                    .request_without_body(&self.limits, method, accept, session_headers, *more)
                    .await
            }
        }
    }

    /// What a refusal means for the login, if it has to do with it.
    pub(super) async fn login_refusal(&self, response: &Response<Body>) -> Option<UpstreamError> {
        let login = self.login.as_ref()?;
        login.refusal(response.status(), response.headers()).await
    }

    /// A refused request as an error.
    pub(super) async fn refusal(&self, response: Response<Body>) -> UpstreamError {
        if let Some(error) = self.login_refusal(&response).await {
            response.into_body().finish(&self.server.bounds);
            return error;
        }
        self.server.refusal(response).await
    }

    /// Checks that a message was accepted.
    pub(super) async fn check_accepted(
        &self,
        response: Response<Body>,
    ) -> Result<(), UpstreamError> {
        if response.status().is_success() {
            return self.server.check_accepted(response).await;
        }
        Err(self.refusal(response).await)
    }
}
