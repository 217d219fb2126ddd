//! Finds the client of an authorization request: one that registered itself, or one whose id is the address
//! of its metadata document. A document is fetched only for a signed-in owner, so that strangers cannot make
//! the gate send requests.

use http::StatusCode;
use oauth::server::{DOCUMENT_BYTES_MAX, is_document_url, read_document};
use store::registry::OAuthClient;

use crate::app::App;
use crate::problem::Problem;

pub(super) fn client(app: &App, id: &str) -> Result<OAuthClient, Problem> {
    if let Some(client) = app.registry.oauth_client(id, app.now_us())? {
        return Ok(client);
    }
    if !is_document_url(id) {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "this application is not registered here, or its registration has expired\nhint: remove the gate from the application and add it again",
        ));
    }
    let refused = |message: &str| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            format!("the document of this application cannot be used: {message}"),
        )
    };
    let body = app.documents.fetch(id, DOCUMENT_BYTES_MAX).map_err(|message| refused(&message))?;
    let metadata = read_document(id, &body).map_err(|refusal| refused(&refusal.description))?;
    Ok(app.registry.put_client_document(id, &metadata, app.now_us())?)
}
