//! Translates results and errors of a server into the client's era.

use mcp::translate::{self, modern_tasks};
use policy::json::Value;

use super::Crossing;
use crate::exchange::finish::apply_edit;
use crate::exchange::in_flight::InFlightCall;
use crate::upstream::lists::List;

impl InFlightCall {
    /// Translates a result. `text` is the result as edited so far, if it was edited.
    pub(in crate::exchange) fn translated_result(
        &self,
        text: Option<&str>,
        result: Value<'_>,
    ) -> Option<String> {
        match self.crossing {
            Crossing::None => None,
            Crossing::NewerToOlder(_) => Some(apply_edit(text, result, |result| {
                translate::modern_result(&self.method, result)
            })),
            Crossing::OlderToNewer(_) => {
                let text = apply_edit(text, result, |result| {
                    translate::legacy_result(&self.method, result)
                });
                if self.list != Some(List::Tools) || !self.offers_tasks() {
                    return Some(text);
                }
                Some(apply_edit(Some(&text), result, modern_tasks::with_optional_tasks))
            }
        }
    }

    /// Translates an error. `text` is the error as edited so far, if it was edited.
    pub(in crate::exchange) fn translated_error(
        &self,
        text: Option<&str>,
        error: Value<'_>,
    ) -> String {
        let to_modern = self.crossing.to_older().is_some();
        apply_edit(text, error, |error| translate::error(error, to_modern, &self.method))
    }
}
