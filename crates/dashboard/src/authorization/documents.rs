//! Finds the client of an authorization request: one that registered itself, or one whose id is the address
//! of its metadata document. A document is fetched only for a signed-in owner, so that strangers cannot make
//! the gate send requests.

use http::StatusCode;
use oauth::server::{DOCUMENT_BYTES_MAX, is_document_url, known_document, read_document};
use store::registry::OAuthClient;

use crate::app::App;
use crate::problem::Problem;

/// A client, and why its document could not be fetched if it is the copy that tollgate has.
pub(super) struct FoundClient {
    pub(super) client: OAuthClient,
    pub(super) copied_because: Option<String>,
}

pub(super) fn client(app: &App, id: &str) -> Result<FoundClient, Problem> {
    let found = |client| Ok(FoundClient { client, copied_because: None });
    if let Some(client) = app.registry.oauth_client(id, app.now_us())? {
        return found(client);
    }
    if !is_document_url(id) {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "this application is not registered here, or its registration has expired\nhint: remove the gate from the application and add it again",
        ));
    }
    let why = match app.documents.fetch(id, DOCUMENT_BYTES_MAX) {
        Ok(body) if is_json(&body) => {
            let metadata =
                read_document(id, &body).map_err(|refusal| refused(&refusal.description))?;
            return found(app.registry.put_client_document(id, &metadata, app.now_us())?);
        }
        Ok(_) => "what is there is not JSON".to_owned(),
        Err(message) => message,
    };
    // Not stored, so that the vendor's own document is used as soon as it can be fetched.
    let Some(metadata) = known_document(id) else { return Err(refused(&why)) };
    Ok(FoundClient { client: OAuthClient::of_document(id, metadata), copied_because: Some(why) })
}

/// A host that refuses programs answers with a page.
fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

fn refused(message: &str) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        format!("the document of this application cannot be used: {message}"),
    )
}
