//! A running stand-in with signed-in requests.

use sandbox::{ClockMode, Config, Running, Sandbox, Service};
use serde_json::Value;

use crate::wire::{Got, send};

/// 16 November 2026, 09:30 UTC.
pub(crate) const NOW_US: i64 = 1_794_821_400_000_000;
pub(crate) const DAY_US: u64 = 86_400_000_000;
pub(crate) const AGENT: &str = "linux:tollgate-tests:0.1 (by /u/sandbox)";

pub(crate) struct ServiceTest {
    pub(crate) running: Running,
    headers: Vec<(&'static str, String)>,
    /// Appended to every query.
    query: String,
}

/// A service without limits and with a frozen clock.
pub(crate) fn start(name: &str) -> ServiceTest {
    let mut service = Service::named(name).unwrap();
    service.unlimit();
    of(service)
}

pub(crate) fn of(service: Service) -> ServiceTest {
    let config = Config { time: ClockMode::Frozen, ..Config::of(service, 42, 90, NOW_US) };
    let mut test = ServiceTest {
        running: Sandbox::start(config).unwrap(),
        headers: Vec::new(),
        query: String::new(),
    };
    test.sign_in();
    test
}

impl ServiceTest {
    /// Gets new tokens, keys or cookies.
    pub(crate) fn sign_in(&mut self) {
        let tokens = self.running.control().tokens();
        self.query = match tokens["STEAM_API_KEY"].as_str() {
            Some(key) => format!("key={key}"),
            None => String::new(),
        };
        self.headers = vec![("user-agent", AGENT.to_owned())];
        if let Some(token) = tokens["access_token"].as_str() {
            self.headers.push(("authorization", format!("Bearer {token}")));
        }
        if let Some(session) = tokens["BILIBILI_SESSDATA"].as_str() {
            self.headers.push(("cookie", format!("SESSDATA={session}; buvid3=x")));
        }
    }

    /// Replaces the headers of the sign-in.
    pub(crate) fn bear(&mut self, token: &str) {
        self.headers =
            vec![("user-agent", AGENT.to_owned()), ("authorization", format!("Bearer {token}"))];
    }

    pub(crate) fn get(&self, path: &str) -> Got {
        self.ask("GET", path)
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> Got {
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        send(self.running.url(), method, &self.address(path), &headers, "")
    }

    /// The path with the appended query.
    pub(crate) fn address(&self, path: &str) -> String {
        let mark = if path.contains('?') { '&' } else { '?' };
        if self.query.is_empty() { path.to_owned() } else { format!("{path}{mark}{}", self.query) }
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let got = self.get(path);
        assert_eq!(got.status, 200, "{path}: {}", got.text());
        got.json()
    }

    pub(crate) fn post(&self, path: &str, basic: Option<&str>, form: &str) -> Got {
        let mut headers = vec![
            ("user-agent", AGENT.to_owned()),
            ("content-type", "application/x-www-form-urlencoded".to_owned()),
        ];
        if let Some(basic) = basic {
            headers.push(("authorization", format!("Basic {basic}")));
        }
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        send(self.running.url(), "POST", path, &headers, form)
    }

    pub(crate) fn set(&self, settings: &Value) {
        self.running.control().set(settings).unwrap();
    }

    pub(crate) fn records(&self, kind: &str) -> Vec<Value> {
        self.running.control().records(kind).unwrap()
    }

    /// Checks the status of each path and a value in its response.
    pub(crate) fn check(&self, rows: &[(&str, u16, &str, Value)]) {
        for (path, status, pointer, said) in rows {
            let got = self.get(path);
            assert_eq!(got.status, *status, "{path}: {}", got.text());
            if !pointer.is_empty() {
                let body = got.json();
                let found = body.pointer(pointer).cloned().unwrap_or(Value::Null);
                assert_eq!(found, *said, "{path}: {pointer}");
            }
        }
    }
}
