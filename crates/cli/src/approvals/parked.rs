//! The params of a parked call, as they were sent. They lie sealed and are opened only to be shown.

use anyhow::Result;
use policy::json::{Bounds, Doc, write_string};
use store::ledger::Approval;

use crate::context::Stores;

/// Stands before the params. Older versions parked the arguments alone, which begin with a brace.
const PARAMS: &str = "params ";

/// What was parked, as JSON text.
pub(super) enum Parked {
    /// All params that the approval is bound to.
    Params(String),
    /// What an older version kept and bound.
    Arguments(String),
}

/// Whether an older version parked it.
pub(super) fn is_older(parked: Option<&Parked>) -> bool {
    matches!(parked, Some(Parked::Arguments(_)))
}

impl Parked {
    /// Nothing when it is not kept any more.
    pub(super) fn of(approval: &Approval, stores: &Stores) -> Result<Option<Parked>> {
        let parked = stores.registry.parked(&approval.id)?;
        Ok(parked.map(|bytes| Parked::read(&String::from_utf8_lossy(bytes.expose()))))
    }

    fn read(text: &str) -> Parked {
        match text.strip_prefix(PARAMS) {
            Some(params) => Parked::Params(params.to_owned()),
            None => Parked::Arguments(text.to_owned()),
        }
    }

    /// The exact arguments.
    pub(super) fn arguments(&self) -> String {
        let Parked::Params(params) = self else { return self.text().to_owned() };
        let doc = Doc::read(params.as_bytes(), &Bounds::MESSAGE).ok();
        let arguments = doc.as_ref().and_then(|doc| doc.root().get("arguments"));
        arguments.map_or("{}", |arguments| arguments.raw()).to_owned()
    }

    pub(super) fn params(&self) -> Option<&str> {
        match self {
            Parked::Params(params) => Some(params),
            Parked::Arguments(_) => None,
        }
    }

    /// What is bound beyond the arguments and the name that is shown as the subject.
    pub(super) fn others(&self) -> Option<String> {
        let doc = Doc::read(self.params()?.as_bytes(), &Bounds::MESSAGE).ok()?;
        let mut out = Vec::new();
        for (key, value) in doc.root().entries() {
            let key = key.text();
            if matches!(&*key, "arguments" | "name" | "uri") {
                continue;
            }
            out.push(if out.is_empty() { b'{' } else { b',' });
            write_string(&key, &mut out);
            out.push(b':');
            out.extend_from_slice(value.raw().as_bytes());
        }
        out.push(b'}');
        String::from_utf8(out).ok().filter(|text| text != "}")
    }

    fn text(&self) -> &str {
        match self {
            Parked::Params(text) | Parked::Arguments(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Parked;

    #[test]
    fn parked_params_are_shown_in_two_parts_and_older_ones_as_arguments() {
        let table = [
            (r#"{"a":1}"#, r#"{"a":1}"#, None),
            (r#"params {"name":"x","arguments":{"a":1.10}}"#, r#"{"a":1.10}"#, None),
            (
                r#"params {"_meta":{"to":"m"},"name":"x","task":{}}"#,
                "{}",
                Some(r#"{"_meta":{"to":"m"},"task":{}}"#),
            ),
            (r#"params {"uri":"x:y"}"#, "{}", None),
            ("params {}", "{}", None),
        ];
        for (text, arguments, others) in table {
            let parked = Parked::read(text);
            assert_eq!(parked.arguments(), arguments, "{text}");
            assert_eq!(parked.others().as_deref(), others, "{text}");
        }
    }
}
