//! The HTTP client and the sign-ins that WHOOP does not use, against a server with scripted
//! responses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where the stage does not stand"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use connectors::account::{Client, Endpoint, Probe, SignIn};
use connectors::http::{Http, HttpError, Request};
use connectors::oauth::device::DeviceCode;
use connectors::oauth::grant::{Form, Grant};
use connectors::whoop::account::ACCOUNT;
use connectors::{Account, BaseUrl, ServiceSettings};
use store::accounts;
use store::secret::Secret;

/// Answers one connection after another with the given bytes and remembers what was asked.
struct Fake {
    base: String,
    asked: Arc<Mutex<Vec<String>>>,
}

fn fake(answers: Vec<String>) -> Fake {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut text = Vec::new();
            let mut part = [0; 4096];
            while let Ok(n) = stream.read(&mut part) {
                text.extend_from_slice(&part[..n]);
                if n == 0 || is_whole(&text) {
                    break;
                }
            }
            heard.lock().unwrap().push(String::from_utf8(text).unwrap());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    Fake { base, asked }
}

fn is_whole(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.to_ascii_lowercase();
    let length = length.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    length.and_then(|length| length.trim().parse().ok()).is_none_or(|n: usize| body.len() >= n)
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}",
        body.len()
    )
}

fn base(fake: &Fake) -> BaseUrl {
    BaseUrl::parse(&fake.base).unwrap()
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let fake = fake(vec![answer(302, "Location: http://127.0.0.1:1/elsewhere\r\n", "")]);
    let reply = Http::new().send(Request::get(&base(&fake), &["x"])).await.unwrap();
    assert_eq!(reply.status, 302);
    assert_eq!(fake.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_failed_response_is_an_error_that_names_only_the_host() {
    let cut = answer(200, "", &"x".repeat(100)).split_at(120).0.to_owned();
    let fake = fake(vec![answer(200, "", &"x".repeat(5000)), cut]);
    let token = Secret::new("planted-token");
    let request =
        || Request::get(&base(&fake), &["path"]).query("key", "planted-key").bearer(&token);
    let http = Http::new();
    let large = http.send(request().reply_bytes_max(1000)).await.unwrap_err();
    assert!(matches!(large, HttpError::TooLarge { bytes_max: 1000, .. }), "{large}");
    let cut = http.send(request()).await.unwrap_err();
    assert!(matches!(cut, HttpError::Lost { .. }), "{cut}");
    let gone = BaseUrl::parse("http://127.0.0.1:1").unwrap();
    let gone =
        http.send(Request::get(&gone, &["x"]).query("key", "planted-key")).await.unwrap_err();
    assert!(matches!(gone, HttpError::Unreachable { .. }), "{gone}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = BaseUrl::parse(&format!("http://{}", silent.local_addr().unwrap())).unwrap();
    let slow = Request::get(&silent, &["x"]).wait_max(Duration::from_millis(300));
    let slow = http.send(slow).await.unwrap_err();
    assert!(matches!(slow, HttpError::TimedOut { .. } | HttpError::Unreachable { .. }), "{slow}");
    let split = http.send(request().header("x-a", "a\r\nb: planted-key")).await.unwrap_err();
    for error in [large, cut, gone, slow, split] {
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("planted"), "{shown}");
        assert!(!shown.contains("/path"), "{shown}");
    }
    assert!(!format!("{:?}", request()).contains("planted"));
}

const DEVICE: Account = Account {
    scopes: &["https://www.googleapis.com/auth/youtube.readonly"],
    sign_in: SignIn::Device {
        device: &["device", "code"],
        token: &["token"],
        client: Client::Post,
    },
    oauth: Endpoint {
        url: "https://oauth2.googleapis.com",
        variable: "OAUTH",
        also: &[],
        completions: &[],
    },
    api: Endpoint {
        url: "https://www.googleapis.com",
        variable: "API",
        also: &[],
        completions: &[],
    },
    probe: Probe { path: &["x"], fixed: &[], query: &[], cookies: &[], person: None },
    ..ACCOUNT
};

const BASIC: Account = Account {
    sign_in: SignIn::Device { device: &["device"], token: &["token"], client: Client::Basic },
    ..DEVICE
};

fn grant(account: &'static Account, fake: &Fake) -> Grant {
    let settings = ServiceSettings::read(account, &|name| match name {
        "OAUTH" => Some(fake.base.clone()),
        "WHOOP_CLIENT_ID" => Some("my id".to_owned()),
        "WHOOP_CLIENT_SECRET" => Some("s&cret".to_owned()),
        _ => None,
    });
    Grant::new(account, &settings.unwrap(), &accounts::Account::new("x", 0)).ok().unwrap()
}

#[tokio::test]
async fn a_code_typed_elsewhere_signs_in_after_a_while() {
    let begun = r#"{"device_code":"dev","user_code":"AB-CD","verification_url":"https://www.google.com/device","expires_in":60,"interval":1}"#;
    let fake = fake(vec![
        answer(200, "", begun),
        answer(428, "", r#"{"error":"authorization_pending"}"#),
        answer(
            200,
            "",
            r#"{"access_token":"a","refresh_token":"r","expires_in":3600,"scope":"s t"}"#,
        ),
    ]);
    let (http, grant) = (Http::new(), grant(&DEVICE, &fake));
    let code = DeviceCode::begin(&http, &grant, &DEVICE).await.unwrap();
    assert_eq!((code.user_code.as_str(), code.url.host_str()), ("AB-CD", Some("www.google.com")));
    let tokens = code.tokens(&http, &grant).await.unwrap();
    assert_eq!(tokens.access.expose(), "a");
    assert_eq!(tokens.scopes.unwrap(), ["s", "t"]);
    let asked = fake.asked.lock().unwrap();
    assert!(
        asked[0].starts_with("POST /device/code ") && asked[0].contains("scope=https%3A%2F%2F")
    );
    assert!(asked[2].contains("device_code=dev") && asked[2].contains("client_secret=s%26cret"));
}

#[tokio::test]
async fn a_refused_device_ends_the_waiting() {
    let begun = r#"{"device_code":"dev","user_code":"AB","verification_uri":"https://x.example/d","interval":1}"#;
    let fake = fake(vec![answer(200, "", begun), answer(403, "", r#"{"error":"access_denied"}"#)]);
    let (http, grant) = (Http::new(), grant(&DEVICE, &fake));
    let code = DeviceCode::begin(&http, &grant, &DEVICE).await.unwrap();
    let error = code.tokens(&http, &grant).await.err().unwrap().to_string();
    assert!(error.contains("access_denied"), "{error}");
}

#[tokio::test]
async fn a_secret_goes_where_the_service_wants_it() {
    let fake = fake(vec![answer(400, "", r#"{"error":"invalid_grant"}"#)]);
    let grant = grant(&BASIC, &fake);
    assert!(grant.tokens(&Http::new(), Form::of("refresh_token")).await.is_err());
    let asked = fake.asked.lock().unwrap()[0].to_ascii_lowercase();
    // "my+id:s%26cret", as RFC 6749 2.3.1 requires.
    assert!(asked.contains("authorization: basic bxkrawq6cyuynmnyzxq="), "{asked}");
    assert!(!asked.contains("client_secret"), "{asked}");
}
