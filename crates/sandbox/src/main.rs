//! `sandbox SERVICE --port N --days N --seed N [--unlimited] [--pending] [--now SECONDS]`: a stand-in
//! for tests in any language. Prints one line of JSON when it listens, and runs until it is killed.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use sandbox::{ClockMode, Config, Sandbox, Service};

const USAGE: &str = "usage: sandbox SERVICE [--port N] [--days N] [--seed N] [--now UNIX_SECONDS] \
                     [--stand-still] [--unlimited] [--pending]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match read(&words).and_then(|config| serve(config).map_err(|error| format!("error: {error}"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            let _ = writeln!(std::io::stderr(), "{words}");
            ExitCode::from(2)
        }
    }
}

fn read(words: &[String]) -> Result<Config, String> {
    let mut words = words.iter().map(String::as_str);
    let service = words.next().and_then(Service::named);
    let service = service.ok_or_else(|| {
        format!("{USAGE}\nhint: the services are `{}`", Service::NAMES.join("`, `"))
    })?;
    let mut config = Config::of(service, 1, 365, now_us());
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|text| text.parse::<u64>().ok());
        let wrong = || format!("error: `{word}` needs a number\n{USAGE}");
        match word {
            "--port" => {
                let port = number().and_then(|port| u16::try_from(port).ok()).ok_or_else(wrong)?;
                config.bind.set_port(port);
            }
            "--days" => {
                config.days =
                    number().and_then(|days| u32::try_from(days).ok()).ok_or_else(wrong)?;
            }
            "--seed" => config.seed = number().ok_or_else(wrong)?,
            "--now" => {
                let seconds = number().and_then(|s| i64::try_from(s).ok()).ok_or_else(wrong)?;
                config.now_us = seconds.saturating_mul(1_000_000);
            }
            "--stand-still" => config.time = ClockMode::Frozen,
            "--unlimited" => config.service.unlimit(),
            "--pending" => match &mut config.service {
                Service::Whoop(settings) => settings.pending_newest = true,
                _ => return Err(format!("error: `--pending` is for `whoop` only\n{USAGE}")),
            },
            _ => return Err(format!("error: unknown option `{word}`\n{USAGE}")),
        }
    }
    Ok(config)
}

fn serve(config: Config) -> Result<(), Box<dyn std::error::Error>> {
    let running = Sandbox::start(config)?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", running.control().ready())?;
    out.flush()?;
    loop {
        std::thread::park();
    }
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(0)
}
