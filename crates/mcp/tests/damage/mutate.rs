//! Damages the seeds of surfaces at random and parses the result: no panic, no hang.
//! `TOLLGATE_FUZZ_SECONDS` sets the duration; `cargo xtask fuzz` is guided by coverage instead.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use crate::surface::Surface;

/// CPU time that one input may take.
const INPUT_CPU_MAX: Duration = Duration::from_secs(2);
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// A xorshift generator.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).unwrap()
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let from = self.below(length + 1);
        from..(from + self.below(40)).min(length)
    }
}

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "null",
    "true",
    "1e400",
    "-0",
    "0.1",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "\u{feff}",
    "\n",
    "\r",
    "\t",
    "\u{202e}",
    "\u{17f}",
    "\u{212a}",
    "name",
    "arguments",
    "method",
    "params",
    "_meta",
    "id",
    "jsonrpc",
    "result",
    "*",
    "&a",
    "!!",
    "<<",
    "---",
    "%",
    "..",
    "//",
    "@",
    "[*]",
    "args.",
    "9007199254740993",
    "data:",
    "event:",
    "'",
    "#",
    "|",
    ">",
    "?",
    "=",
    "\u{e9}",
    "e\u{301}",
];

/// One input: a seed after a few random edits.
fn damaged(surface: &Surface, all: &[Surface], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = surface.seeds[dice.below(surface.seeds.len())].as_bytes().to_vec();
    for _ in 0..=dice.below(6) {
        let range = dice.range(bytes.len());
        match dice.below(9) {
            0 if !bytes.is_empty() => {
                let place = dice.below(bytes.len());
                bytes[place] ^= 1 << dice.below(8);
            }
            1 => drop(bytes.splice(range, dice.next().to_le_bytes())),
            2 => drop(bytes.drain(range)),
            3 => {
                let part = bytes[range.clone()].to_vec();
                bytes.splice(range.start..range.start, part);
            }
            4 => {
                let other = surface.seeds[dice.below(surface.seeds.len())].as_bytes();
                let part = other[dice.range(other.len())].to_vec();
                bytes.splice(range, part);
            }
            5 => bytes.truncate(range.start),
            6 => {
                let part = bytes[range.clone()].repeat(dice.below(200));
                bytes.splice(range, part);
            }
            7 => {
                let other = all[dice.below(all.len())].seeds[0].as_bytes();
                let part = other[dice.range(other.len())].to_vec();
                bytes.splice(range, part);
            }
            _ => drop(bytes.splice(range, WORDS[dice.below(WORDS.len())].bytes())),
        }
        bytes.truncate(INPUT_BYTES_MAX);
    }
    bytes
}

/// CPU time of this thread; a busy machine must not look like a hang.
fn on_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// Feeds every surface for its share of the time and prints the number of inputs.
pub(crate) fn attack(surfaces: &[Surface]) {
    let seconds = std::env::var("TOLLGATE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let seconds: u64 = seconds.unwrap_or(4);
    let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0) | 1;
    let mut dice = Dice(seed);
    let each = Duration::from_secs(seconds) / u32::try_from(surfaces.len()).unwrap();
    let mut total = 0_u64;
    for surface in surfaces {
        let (began, mut inputs, mut slowest) = (Instant::now(), 0_u64, Duration::ZERO);
        while began.elapsed() < each {
            let input = damaged(surface, surfaces, &mut dice);
            let started = on_cpu();
            let outcome = catch_unwind(|| (surface.read)(&input));
            let took = on_cpu().saturating_sub(started);
            let shown = || String::from_utf8_lossy(&input).into_owned();
            assert!(outcome.is_ok(), "{}, seed {seed}: {:?}", surface.name, shown());
            assert!(took < INPUT_CPU_MAX, "{}: {took:?} for {:?}", surface.name, shown());
            slowest = slowest.max(took);
            inputs += 1;
        }
        total += inputs;
        println!("P22: {}: {inputs} damaged inputs, slowest {slowest:.1?}", surface.name);
    }
    println!("P22: {total} damaged inputs in {seconds} s on one core, 0 panics, 0 hangs");
    assert!(total > 0);
}
