//! A home in a temporary folder with open records, and helpers to fill it.

use std::path::{Path, PathBuf};

use store::export::{ExportKind, ServiceExports};
use store::home::Home;
use store::records::{Column, Incoming, Records, View, Window};

pub(crate) const DAY_US: i64 = 86_400_000_000;
pub(crate) const NOW_US: i64 = 1_800_000_000_000_000;

pub(crate) struct Fixture {
    pub(crate) home: Home,
    pub(crate) records: Records,
    pub(crate) folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::create(&folder.path().join("home")).unwrap();
        let records = Records::open(&home).unwrap();
        Fixture { home, records, folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another process on the same home, as far as SQLite can tell.
    pub(crate) fn second(&self) -> Records {
        Records::open(&self.home).unwrap()
    }

    pub(crate) fn store(&self, record: &TestRecord) -> store::records::Upserted {
        self.records.upsert("svc", &[record.incoming()]).unwrap()
    }

    pub(crate) fn ids(&self, kind: &str, window: &Window) -> Vec<String> {
        let ids = self.records.ids_in("svc", kind, window).unwrap();
        let rows = self.records.window("svc", kind, window).unwrap();
        assert_eq!(rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>(), ids);
        let flats = self.records.window_flat("svc", kind, window).unwrap();
        assert_eq!(rows.into_iter().map(|row| row.flat).collect::<Vec<_>>(), flats);
        ids
    }
}

/// A record that owns its words.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestRecord {
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) start_us: Option<i64>,
    pub(crate) end_us: Option<i64>,
    pub(crate) updated_us: i64,
    pub(crate) parent: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) follows: Option<&'static str>,
    pub(crate) raw: String,
    pub(crate) flat: String,
    pub(crate) updated: String,
}

impl TestRecord {
    pub(crate) fn new(
        kind: &'static str,
        id: &str,
        start_us: i64,
        end_us: Option<i64>,
    ) -> TestRecord {
        TestRecord {
            kind,
            id: id.to_owned(),
            start_us: Some(start_us),
            end_us,
            ..TestRecord::default()
        }
        .version(1, "first")
    }

    /// Another version of it, stamped and worded.
    pub(crate) fn version(mut self, updated_us: i64, words: &str) -> TestRecord {
        self.updated_us = updated_us;
        self.updated = format!("at {updated_us}");
        self.raw = format!(r#"{{"id":"{}","at":{updated_us},"words":"{words}"}}"#, self.id);
        self.flat = format!(r#"{{"id":"{}","words":"{words}"}}"#, self.id);
        self
    }

    /// Takes the times of a parent.
    pub(crate) fn following(kind: &'static str, id: &str, parent: &str) -> TestRecord {
        TestRecord {
            start_us: None,
            parent: Some(parent.to_owned()),
            follows: Some("cycles"),
            ..TestRecord::new(kind, id, 0, None)
        }
    }

    pub(crate) fn in_state(mut self, state: &str) -> TestRecord {
        self.state = Some(state.to_owned());
        self
    }

    pub(crate) fn incoming(&self) -> Incoming<'_> {
        Incoming {
            kind: self.kind,
            id: &self.id,
            start_us: self.start_us,
            end_us: self.end_us,
            offset_s: None,
            updated: &self.updated,
            updated_us: self.updated_us,
            parent: self.parent.as_deref(),
            state: self.state.as_deref(),
            follows: self.follows,
            raw: &self.raw,
            flat: &self.flat,
        }
    }
}

pub(crate) fn between(from_us: i64, to_us: i64) -> Window {
    Window { from_us: Some(from_us), to_us: Some(to_us), overlap: true, ..Window::default() }
}

/// Numbers that look random and are the same on every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, usize::try_from(self.below(at as u64 + 1)).unwrap());
        }
    }
}

/// Every byte of every file below a folder.
pub(crate) fn bytes_of(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(bytes_of(&path));
        } else {
            all.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

/// The same but for shared memory, in which every reader leaves its mark.
pub(crate) fn lasting_bytes_of(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let is_lasting = |path: &Path| path.extension().is_none_or(|extension| extension != "db-shm");
    bytes_of(folder).into_iter().filter(|(path, _)| is_lasting(path)).collect()
}

pub(crate) fn holds(bytes: &[u8], words: &str) -> bool {
    bytes.windows(words.len()).any(|window| window == words.as_bytes())
}

pub(crate) static NIGHTS: View = View {
    name: "svc_nights",
    service: "svc",
    kind: "nights",
    columns: &[
        Column::integer("id"),
        Column::text("start_utc"),
        Column::bool("nap"),
        Column::double("score"),
        Column::doubles("need", &["base_seconds", "debt_seconds"]),
        Column::text("words"),
    ],
    except_state: Some("INVALID"),
};

pub(crate) static PROFILE: View = View {
    name: "svc_profile",
    service: "svc",
    kind: "profile",
    columns: &[Column::text("email")],
    except_state: None,
};

pub(crate) static EXPORTS: ServiceExports = ServiceExports {
    service: "svc",
    kinds: &[
        ExportKind { name: "nights", file: "nights", is_snapshot: false, view: &NIGHTS },
        ExportKind { name: "profile", file: "profiles", is_snapshot: true, view: &PROFILE },
    ],
};
