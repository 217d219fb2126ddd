//! The meaning of each feature, as shown to the owner.

use crate::classify::lexicon::Action;

/// The meaning of a feature id.
pub(super) fn of(id: &str) -> String {
    let (family, value) = id.split_once(['=', '+']).unwrap_or((id, ""));
    match family {
        "name.verb" | "name.word" => format!("the name uses the word `{value}`"),
        "name.act" | "name.also" => format!("the name says that it {}", act(value)),
        "name.lone" => format!("the name says `{value}` without an object"),
        "name.object" => format!("the name {}", object(value)),
        "says.object" => format!("the description {}", object(value)),
        "acts" => acts(value),
        "name.pair" => format!("the name {}", pair(value)),
        "name.ends" => format!("the name ends in a word about {}", thing(value)),
        "title.act" => format!("the title says that it {}", act(value)),
        "says.verb" | "says.word" => format!("the description uses the word `{value}`"),
        "says.act" | "says.also" => format!("the description says that it {}", act(value)),
        "says.pair" => format!("the description {}", pair(value)),
        "param" | "param.word" => "a parameter that is common in such tools".to_owned(),
        "param.needs" => format!("needs {}", thing(value)),
        "param.takes" => format!("takes {}", thing(value)),
        "param.none" => "takes nothing".to_owned(),
        "shape" => shape(value).to_owned(),
        "choice" => format!("one of its operations {}", act(value)),
        "told" => format!("one of the operations it describes {}", act(value)),
        "choice.only_read" | "told.only_read" => "all its operations read".to_owned(),
        "choice.no_destroy" => "none of its operations deletes".to_owned(),
        "choice.http" => "sends requests that change topics".to_owned(),
        "choice.any" => "takes an operation without listing the choices".to_owned(),
        "name.raw_request" => "the name says that it sends requests".to_owned(),
        "starts.run" => "the name says that it starts a run".to_owned(),
        "issues.credential" => "issues or renews a credential".to_owned(),
        "cue" => cue(value).to_owned(),
        _ => cue(family).to_owned(),
    }
}

fn act(value: &str) -> &'static str {
    match Action::ALL.into_iter().find(|a| a.as_str() == value) {
        Some(Action::Read) => "reads",
        Some(Action::Write) => "creates, changes or sends",
        Some(Action::Destroy) => "deletes or ends something",
        Some(Action::Run) => "runs, starts or stops something",
        Some(Action::Drive) => "uses a screen or device",
        Some(Action::Money) => "moves money",
        Some(Action::Mixed) => "acts in an unspecified way",
        None => "does something without a plain verb",
    }
}

fn thing(value: &str) -> &'static str {
    match value {
        "obligation" => "payments or trades",
        "money" => "money",
        "job" => "jobs that run",
        "host" => "machines and services",
        "code" => "code or queries",
        "screen" => "a page or device",
        "credential" => "credentials",
        "guidance" => "guidance",
        "facts" => "facts and status",
        "run" => "work that was started",
        "lookup" => "a query language that only reads",
        _ => "something",
    }
}

fn object(value: &str) -> String {
    let (verb, noun) = value.split_once('+').unwrap_or((value, ""));
    format!("says `{verb}` about {}", thing(noun))
}

fn acts(value: &str) -> String {
    let (name, description) = value.split_once('+').unwrap_or((value, ""));
    format!("the name means {}, the description {}", act_noun(name), act_noun(description))
}

fn pair(value: &str) -> String {
    let (verb, noun) = value.split_once('+').unwrap_or((value, ""));
    format!("combines {} with {}", act_noun(verb), thing(noun))
}

fn act_noun(value: &str) -> &'static str {
    match Action::ALL.into_iter().find(|a| a.as_str() == value) {
        Some(Action::Read) => "reading",
        Some(Action::Write) => "a change",
        Some(Action::Destroy) => "deleting",
        Some(Action::Run) => "running or stopping",
        Some(Action::Drive) => "clicking and typing",
        Some(Action::Money) => "paying or trading",
        Some(Action::Mixed) => "an open verb",
        None => "no plain verb",
    }
}

fn shape(value: &str) -> &'static str {
    match value {
        "http" => "takes a method and a path: any request can be sent",
        "command" => "takes a command",
        "code" => "takes code",
        "sql" => "takes a statement",
        "query" => "takes a query",
        "pay" => "takes an amount and a recipient",
        "amount" => "takes an amount",
        "page" => "pages through results",
        "filter" => "filters results",
        "content" => "takes content to store or send",
        "force" => "can be forced or confirmed",
        "point" => "takes a point on a screen",
        "file" => "takes a file or path",
        "output" => "writes to a path that the caller gives",
        "dry_run" => "has a dry run",
        "one_id" => "takes one identifier",
        _ => "its parameters are common in such tools",
    }
}

fn cue(value: &str) -> &'static str {
    match value {
        "read_only" => "says that it only reads",
        "dry_run" => "says that it executes nothing",
        "irreversible" => "says that it cannot be undone",
        "destructive" => "warns of data loss",
        "soft_delete" => "moves to a trash",
        "overwrites" => "overwrites existing content",
        "arbitrary" => "takes anything the caller sends",
        "asks_first" => "tells the model to ask for confirmation",
        "on_chain" => "acts on a blockchain or wallet",
        "raw_request" => "sends requests to an API",
        "real_money" => "says that it costs money or pays",
        "background" => "continues in the background",
        "guidance" => "gives guidance",
        "writes_file" => "writes a file",
        "returns" => "returns results",
        "use_before" => "is meant to be called first",
        "sends" => "sends or notifies",
        "starts" => "starts something",
        "creates" => "creates or adds",
        "deletes" => "deletes or removes",
        "sql_read" => "mentions SELECT",
        "sql_write" => "mentions statements that write",
        "http_read" => "mentions GET",
        "http_write" => "mentions POST, PUT or PATCH",
        _ => "is common in such tools",
    }
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::classify::weight_table::WEIGHTS;

    #[test]
    fn every_feature_of_the_table_has_a_meaning_of_its_own() {
        for (id, _) in WEIGHTS {
            let meaning = of(id);
            assert!(!meaning.contains("such tools") || id.starts_with("param"), "{id}: {meaning}");
            assert!(
                !meaning.contains("something without a plain verb") || id.ends_with("none"),
                "{id}"
            );
        }
    }
}
