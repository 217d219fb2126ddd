//! Fills an audit log with calls, for measuring what a long log costs:
//! `cargo run --release -p store --example ledger_fill FOLDER CALLS`. A call has two rows.

use std::path::PathBuf;

use policy::{Call, Caller, Format, LocalTime, Policy, Subject, ToolFacts, Weekday};
use store::clock::Clock;
use store::ledger::{Admission, Ending, Facts, Ledger, Options, Outcome};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"echo":{"limits":[
    {"counter":"calls","window":"minute","max":1000000000,"scope":"grant"}]}}}"#;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("name the folder of the log")?);
    let calls: u64 = arguments.next().ok_or("say how many calls")?.parse()?;
    let policy = Policy::load(POLICY, Format::Json).map_err(|e| format!("{e:?}"))?;
    let subject = Subject::Tool("echo");
    let facts = Facts {
        grant: "filler",
        server: "up",
        method: "tools/call",
        subject: Some(subject),
        argument_keys: &["text"],
        argument_digest: Some([7; 32]),
        ..Facts::default()
    };
    std::fs::create_dir_all(&folder)?;
    let ledger = Ledger::open(&folder, Clock::System, Options::default())?;
    for _ in 0..calls {
        let verdict = policy.decide(&Call {
            subject,
            args: None,
            params: None,
            caller: Caller { grant: "filler", session: None, client: None },
            tool: ToolFacts::default(),
            time: LocalTime { hour: 12, weekday: Weekday::Monday },
        });
        let Admission::Permit(permit) = ledger.admit(&verdict, &facts)? else {
            return Err("a call was denied".into());
        };
        permit.settle(&Outcome::new(Ending::Ok))?;
    }
    Ok(())
}
