//! Sign-in at an issuer on loopback that rotates its keys, names another issuer, or sends what it should not.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use connectors::team_login::{TeamLogin, TeamSignIn};
use oauth::pkce;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use store::clock::Clock;
use store::secret::Secret;
use store::settings::OidcSettings;

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// What the issuer does now.
struct Issuer {
    origin: String,
    pair: EcdsaKeyPair,
    kid: u32,
    /// The key that it publishes, if that is not the one it signs with.
    published_kid: u32,
    named: String,
    claims: Value,
    /// Paths that were asked for, with the form of the token request.
    asked: Vec<String>,
}

fn new_pair() -> EcdsaKeyPair {
    let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap()
}

impl Issuer {
    fn rotate(&mut self) {
        self.pair = new_pair();
        self.kid += 1;
        self.published_kid = self.kid;
    }

    /// Signs with a key that has the name of the published one.
    fn forge(&mut self) {
        self.pair = new_pair();
        self.kid = self.published_kid;
    }

    fn answer(&mut self, path: &str, form: &str) -> Option<Value> {
        self.asked.push(format!("{path} {form}"));
        let origin = &self.origin;
        match path {
            "/.well-known/openid-configuration" => Some(json!({
                "issuer": self.named,
                "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"),
                "jwks_uri": format!("{origin}/keys"),
                "authorization_response_iss_parameter_supported": true,
            })),
            "/keys" => {
                let point = self.pair.public_key().as_ref();
                let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
                let key = json!({
                    "kty": "EC", "crv": "P-256", "kid": self.published_kid.to_string(),
                    "x": text(&point[1..33]), "y": text(&point[33..]),
                });
                Some(json!({ "keys": [key] }))
            }
            "/token" => Some(json!({ "access_token": "a", "id_token": self.token() })),
            _ => None,
        }
    }

    fn token(&self) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({ "alg": "ES256", "kid": self.kid.to_string() });
        let message = format!("{}.{}", part(&header), part(&self.claims));
        let signed = self.pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signed))
    }
}

fn serve(stream: TcpStream, issuer: &Mutex<Issuer>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            break;
        }
    }
    let mut form = vec![0; length];
    reader.read_exact(&mut form)?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let answer = issuer.lock().unwrap().answer(&path, &String::from_utf8_lossy(&form));
    let (status, body) = match answer {
        Some(body) => ("200 OK", body.to_string()),
        None => ("404 Not Found", "{}".to_owned()),
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn start() -> (Arc<Mutex<Issuer>>, OidcSettings) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let now_s = Clock::System.now().wall_us / 1_000_000;
    let claims = json!({
        "iss": origin, "aud": "gate", "sub": "ann", "nonce": "n", "iat": now_s, "exp": now_s + 300,
    });
    let issuer = Arc::new(Mutex::new(Issuer {
        named: origin.clone(),
        origin: origin.clone(),
        pair: new_pair(),
        kid: 1,
        published_kid: 1,
        claims,
        asked: Vec::new(),
    }));
    let shared = Arc::clone(&issuer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = serve(stream, &shared);
        }
    });
    let settings = OidcSettings {
        issuer: origin,
        client_id: "gate".to_owned(),
        client_secret: Some(Secret::new("s3cret")),
        label: "Test".to_owned(),
        redirect_uri: None,
        scopes: vec!["openid".to_owned()],
        roles: Vec::new(),
    };
    (issuer, settings)
}

const SIGN_IN: TeamSignIn<'_> = TeamSignIn {
    redirect_uri: "http://127.0.0.1:4180/sign-in/oidc/callback",
    state: "s",
    nonce: "n",
    verifier: VERIFIER,
};

async fn finish(login: &TeamLogin, settings: &OidcSettings) -> Result<String, String> {
    let query = format!("code=c&state=s&iss={}", settings.issuer);
    let claims = login.finish(settings, &SIGN_IN, &query).await;
    claims.map(|claims| claims.subject).map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_request_has_pkce_state_and_nonce_and_the_code_its_verifier() {
    let (issuer, settings) = start();
    let login = TeamLogin::new(Clock::System);
    let url = login.begin(&settings, &SIGN_IN).await.unwrap();
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    for (name, value) in [
        ("response_type", "code"),
        ("state", "s"),
        ("nonce", "n"),
        ("code_challenge_method", "S256"),
        ("code_challenge", pkce::challenge(VERIFIER).as_str()),
        ("scope", "openid"),
    ] {
        assert!(pairs.contains(&(name.to_owned(), value.to_owned())), "{name}");
    }
    assert_eq!(finish(&login, &settings).await, Ok("ann".to_owned()));
    let asked = issuer.lock().unwrap().asked.clone();
    let token = asked.iter().find(|asked| asked.starts_with("/token ")).unwrap();
    assert!(token.contains(&format!("code_verifier={VERIFIER}")), "{token}");
    assert!(!asked.iter().any(|asked| asked.contains("s3cret")), "the secret is in a header");
}

#[tokio::test]
async fn a_new_key_is_fetched_once_and_an_unknown_one_is_refused() {
    let (issuer, settings) = start();
    let login = TeamLogin::new(Clock::System);
    assert!(finish(&login, &settings).await.is_ok());
    issuer.lock().unwrap().rotate();
    assert!(finish(&login, &settings).await.is_ok(), "the new key is fetched");
    let fetched = |issuer: &Mutex<Issuer>| {
        let issuer = issuer.lock().unwrap();
        issuer.asked.iter().filter(|asked| asked.starts_with("/keys")).count()
    };
    assert_eq!(fetched(&issuer), 2);
    issuer.lock().unwrap().kid = 99;
    let refused = finish(&login, &settings).await.unwrap_err();
    assert!(refused.contains("does not publish"), "{refused}");
    assert_eq!(fetched(&issuer), 3, "asked once more and no further");
    // A key of the same name that did not sign is not looked for again.
    issuer.lock().unwrap().forge();
    let refused = finish(&login, &settings).await.unwrap_err();
    assert!(refused.contains("signature"), "{refused}");
    assert_eq!(fetched(&issuer), 3);
}

#[tokio::test]
async fn another_issuer_is_refused_wherever_it_appears() {
    let (issuer, settings) = start();
    let evil = "http://127.0.0.1:1";
    for (query, words) in [
        (format!("code=c&state=s&iss={evil}"), "another issuer"),
        ("code=c&state=s".to_owned(), "lacks `iss`"),
        (format!("error=access_denied&iss={}", settings.issuer), "access_denied"),
    ] {
        let login = TeamLogin::new(Clock::System);
        let error = login.finish(&settings, &SIGN_IN, &query).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    issuer.lock().unwrap().claims["iss"] = json!(evil);
    let refused = finish(&TeamLogin::new(Clock::System), &settings).await.unwrap_err();
    assert!(refused.contains("from another issuer"), "{refused}");
    issuer.lock().unwrap().named = format!("{}/", settings.issuer);
    let refused = finish(&TeamLogin::new(Clock::System), &settings).await.unwrap_err();
    assert!(refused.contains("it names the issuer"), "{refused}");
}
