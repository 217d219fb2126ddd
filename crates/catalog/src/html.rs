//! Pages as HTML: one stylesheet, one small script for the search, no request to anybody else, and a
//! content policy that would refuse one. Everything a stranger wrote is escaped here.

use std::fmt::Write as _;

use serde_json::Value;

use crate::pins::visible;
use crate::view::{Question, ServerPage, ToolPage, capital};

mod list;

pub use list::{Entry, Shards, index, letter, letter_of};

/// The files that every page uses.
pub const STYLE: &str = include_str!("html/style.css");
pub const SCRIPT: &str = include_str!("html/search.js");

/// No script and no style but ours, nothing from elsewhere, no frames, no forms.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'none'; base-uri 'none'; form-action 'none'";

/// `servers/SLUG/index.html`
pub fn server(page: &ServerPage) -> String {
    let title = heading(&page.title, &page.name);
    let mut main = format!(
        "<p class=\"crumbs\"><a href=\"../../index.html\">Catalogue</a></p>\n<h1>{}</h1>\n",
        escaped(title)
    );
    if !page.description.is_empty() {
        let _ = writeln!(main, "<p class=\"lead\">{}</p>", escaped(&page.description));
    }
    main.push_str("<dl class=\"facts\">\n");
    fact(&mut main, "Name", &code(&page.name));
    fact(
        &mut main,
        "Risk",
        &page
            .risk
            .map_or_else(|| "unknown: no tools are known".to_owned(), |risk| badge(risk.as_str())),
    );
    let counts: Vec<String> = page.categories.iter().map(|(c, n)| format!("{n} {c}")).collect();
    fact(
        &mut main,
        "Tools",
        &format!(
            "{} {}",
            page.tools.len(),
            if counts.is_empty() { String::new() } else { format!("({})", counts.join(", ")) }
        ),
    );
    fact(&mut main, "Version", &escaped(&page.version));
    fact(&mut main, "Updated", &escaped(&page.updated));
    fact(&mut main, "Website", &link(&page.website));
    fact(&mut main, "Source", &link(&page.repository));
    for origin in &page.origins {
        fact(&mut main, "From", &code(origin));
    }
    main.push_str("</dl>\n");
    if !page.findings.is_empty() {
        main.push_str("<h2>Findings</h2>\n<ul class=\"careful\">\n");
        for finding in &page.findings {
            let _ = writeln!(main, "<li>{}</li>", escaped(finding));
        }
        main.push_str("</ul>\n");
    }
    tools(&mut main, page);
    questions(&mut main, &page.questions);
    whole(title, &main, "../../")
}

fn tools(main: &mut String, page: &ServerPage) {
    if page.tools.is_empty() {
        main.push_str("<p>No tools of this server are known. <code>tollgate scan</code> asks a server for them.</p>\n");
        return;
    }
    main.push_str("<h2>Tools</h2>\n<ul class=\"cards\">\n");
    for tool in &page.tools {
        let mark = if tool.reported {
            " <strong class=\"alarm\">its definition speaks to the model</strong>"
        } else {
            ""
        };
        let _ = writeln!(
            main,
            "<li><a href=\"tools/{}.html\">{}</a> {} <span class=\"kind\">{}</span>{mark}<p>{}</p><p class=\"effect\">{}</p></li>",
            tool.slug,
            code(&tool.name),
            badge(tool.risk.as_str()),
            tool.category,
            escaped(&tool.does),
            escaped(&tool.effect)
        );
    }
    let _ = writeln!(
        main,
        "</ul>\n<h2>Recommended policy</h2>\n<p>{}</p>\n{}",
        escaped(&page.effect),
        block(&page.policy)
    );
}

/// `servers/SLUG/tools/SLUG.html`
pub fn tool(page: &ToolPage) -> String {
    let title = heading(&page.title, &page.name);
    let mut main = format!(
        "<p class=\"crumbs\"><a href=\"../../../index.html\">Catalogue</a> / <a href=\"../index.html\">{}</a></p>\n<h1>{}</h1>\n",
        escaped(&page.server),
        escaped(title)
    );
    if !page.does.is_empty() {
        let _ = writeln!(main, "<p class=\"lead\">{}</p>", escaped(&page.does));
    }
    main.push_str("<dl class=\"facts\">\n");
    fact(&mut main, "Tool", &code(&page.name));
    fact(&mut main, "Category", page.category.as_str());
    fact(&mut main, "Risk", &badge(page.risk.as_str()));
    fact(&mut main, "Recommended", &escaped(&page.rule.effect));
    fact(&mut main, "Fingerprint", &code(page.fingerprint.get(..12).unwrap_or_default()));
    main.push_str("</dl>\n");
    if page.poison.is_reported() {
        main.push_str("<h2>Its definition speaks to the model</h2>\n<ul class=\"careful\">\n");
        for finding in &page.poison.findings {
            let _ = writeln!(
                main,
                "<li>{} {}: {}</li>",
                code(&finding.place),
                escaped(&finding.words),
                code(&finding.quote)
            );
        }
        main.push_str("</ul>\n");
    }
    why(&mut main, page);
    parameters(&mut main, page);
    patterns(&mut main, page);
    let _ = writeln!(
        main,
        "<h2>Recommended rule</h2>\n<p>{}, because {}.</p>\n{}",
        escaped(&capital(&page.rule.effect)),
        escaped(&page.rule.reason),
        block(&page.rule.policy)
    );
    questions(&mut main, &page.questions);
    if !page.description.is_empty() && page.description != page.does {
        let _ = writeln!(
            main,
            "<h2>What its author says</h2>\n<blockquote>{}</blockquote>",
            lines(&page.description)
        );
    }
    whole(title, &main, "../../../")
}

fn why(main: &mut String, page: &ToolPage) {
    main.push_str("<h2>Why</h2>\n<ul>\n");
    for evidence in &page.evidence {
        let _ = writeln!(
            main,
            "<li>{} in the {}: {}</li>",
            code(&evidence.words),
            escaped(&evidence.place),
            escaped(&evidence.meaning)
        );
    }
    for claim in &page.contradictions {
        let _ = writeln!(
            main,
            "<li>claims {}, but {}</li>",
            code(&claim.claim),
            escaped(&claim.finding)
        );
    }
    for signal in &page.signals {
        let _ = writeln!(
            main,
            "<li>{} ({}: {})</li>",
            signal.kind.words(),
            escaped(&signal.place),
            code(&signal.words)
        );
    }
    main.push_str("</ul>\n");
}

fn parameters(main: &mut String, page: &ToolPage) {
    if page.parameters.is_empty() {
        return;
    }
    main.push_str("<h2>Parameters</h2>\n<dl class=\"parameters\">\n");
    for parameter in &page.parameters {
        let need = if parameter.required { "required" } else { "optional" };
        let choices: Vec<String> = parameter.choices.iter().map(|c| code(c)).collect();
        let choices = if choices.is_empty() {
            String::new()
        } else {
            format!(" One of {}.", choices.join(", "))
        };
        let _ = writeln!(
            main,
            "<dt>{} <span class=\"kind\">{} {need}</span></dt><dd>{}{choices}</dd>",
            code(&parameter.name),
            escaped(&parameter.kind),
            escaped(&parameter.description)
        );
    }
    main.push_str("</dl>\n");
}

fn patterns(main: &mut String, page: &ToolPage) {
    if page.patterns.is_empty() {
        return;
    }
    main.push_str("<h2>Attacks that use this access</h2>\n");
    for exposure in &page.patterns {
        let because: Vec<String> = exposure.because.iter().map(|b| escaped(b)).collect();
        let how = crate::patterns::pattern(exposure.id).map_or("", |pattern| pattern.how);
        let _ = writeln!(
            main,
            "<details><summary>{}</summary><p>Exposed: {}.</p><p>{}</p><p class=\"effect\">{}</p>{}</details>",
            escaped(exposure.title),
            because.join("; "),
            escaped(how),
            escaped(exposure.effect),
            block(&exposure.rule)
        );
    }
}

fn questions(main: &mut String, questions: &[Question]) {
    if questions.is_empty() {
        return;
    }
    main.push_str("<h2>Questions</h2>\n");
    for question in questions {
        let policy = question.policy.as_ref().map(block).unwrap_or_default();
        let _ = writeln!(
            main,
            "<details><summary>{}</summary><p>{}</p>{policy}</details>",
            ticked(&question.question),
            ticked(&question.answer)
        );
    }
}

/// A whole page. `up` leads back to the top folder.
fn whole(title: &str, main: &str, up: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{CONTENT_POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{} · tollgate catalogue</title>\n<link rel=\"stylesheet\" href=\"{up}style.css\">\n</head>\n\
         <body>\n<main>\n{main}</main>\n<footer><p>Made by tollgate from definitions as their servers gave them. \
         Categories and risks are ours.</p></footer>\n</body>\n</html>\n",
        escaped(title)
    )
}

fn heading<'a>(title: &'a str, name: &'a str) -> &'a str {
    if title.trim().is_empty() { name } else { title }
}

fn fact(out: &mut String, name: &str, value: &str) {
    if !value.trim().is_empty() {
        let _ = writeln!(out, "<dt>{name}</dt><dd>{value}</dd>");
    }
}

fn badge(word: &str) -> String {
    format!("<span class=\"risk {word}\">{word}</span>")
}

/// The page model lets only plain web addresses through.
fn link(address: &str) -> String {
    if address.is_empty() {
        return String::new();
    }
    let address = escaped(address);
    format!("<a href=\"{address}\" rel=\"noopener noreferrer nofollow\">{address}</a>")
}

/// Somebody's text, visible and without markup.
pub(crate) fn escaped(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    plain(&visible(&words.join(" ")))
}

fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn lines(text: &str) -> String {
    text.lines().map(|line| plain(&visible(line))).collect::<Vec<_>>().join("<br>\n")
}

/// Our own sentences: what stands between backticks is code.
fn ticked(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { code(part) } else { plain(&visible(part)) }).collect()
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", plain(&visible(text)))
}

fn block(policy: &Value) -> String {
    let text = format!("{policy:#}");
    let text: Vec<String> = text.lines().map(|line| plain(&visible(line))).collect();
    format!("<pre tabindex=\"0\"><code>{}</code></pre>", text.join("\n"))
}
