//! A prompt that a built-in server offers: a question that people ask often, with the tools that answer it.

use std::fmt::Write as _;

/// Longer values of arguments are cut.
const VALUE_CHARS_MAX: usize = 200;

pub struct Prompt {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub arguments: &'static [PromptArgument],
    /// With `{name}` for each argument.
    pub text: &'static str,
}

pub struct PromptArgument {
    pub name: &'static str,
    pub description: &'static str,
    /// Used if the client gives no value; without one the argument is required.
    pub default: Option<&'static str>,
}

impl Prompt {
    /// The text with the values of its arguments, or what is wrong with them.
    pub fn filled<'v>(&self, value_of: impl Fn(&str) -> Option<&'v str>) -> Result<String, String> {
        let mut text = String::with_capacity(self.text.len());
        let mut rest = self.text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) = after.split_once('}').unwrap_or((after, ""));
            let argument = self.arguments.iter().find(|argument| argument.name == name);
            let given = value_of(name).filter(|value| !value.trim().is_empty());
            let value = given.or(argument.and_then(|argument| argument.default));
            let value = value.ok_or_else(|| format!("the prompt needs the argument `{name}`"))?;
            let value = value.chars().filter(|c| !c.is_control()).take(VALUE_CHARS_MAX);
            let _ = write!(text, "{before}{}", value.collect::<String>());
            rest = behind;
        }
        text.push_str(rest);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const RACE: Prompt = Prompt {
        name: "race",
        title: "",
        description: "",
        arguments: &[
            PromptArgument { name: "date", description: "", default: None },
            PromptArgument { name: "event", description: "", default: Some("a race") },
        ],
        text: "Prepare {event} on {date}.",
    };

    #[test]
    fn arguments_are_filled_in_once_and_as_plain_text() {
        let filled = |date: Option<&'static str>, event: Option<&'static str>| {
            RACE.filled(|name| if name == "date" { date } else { event })
        };
        assert_eq!(filled(Some("1 May"), None).unwrap(), "Prepare a race on 1 May.");
        assert_eq!(filled(Some("{event}"), Some("\nx")).unwrap(), "Prepare x on {event}.");
        assert!(filled(None, None).unwrap_err().contains("`date`"));
        assert!(filled(Some(" "), None).is_err());
        let long = filled(Some("1"), Some(Box::leak("y".repeat(999).into_boxed_str()))).unwrap();
        assert_eq!(long.matches('y').count(), VALUE_CHARS_MAX);
    }

    #[test]
    fn every_prompt_is_complete() {
        for prompt in crate::ALL.iter().flat_map(|connector| connector.prompts) {
            let given = |name: &str| prompt.arguments.iter().map(|a| a.name).find(|a| *a == name);
            let text = prompt.filled(given).unwrap();
            for argument in prompt.arguments {
                assert!(prompt.text.contains(&format!("{{{}}}", argument.name)), "{}", prompt.name);
                assert!(text.contains(argument.name));
            }
            assert!(!prompt.title.is_empty() && !prompt.description.is_empty());
        }
    }
}
