//! The writer thread of a sync. Pages that arrive during a write go into the next transaction
//! together, and fetching continues during a write.

use std::sync::mpsc;

use store::records::{Incoming, Records, RecordsError, Upserted};
use tokio::sync::oneshot;

use super::ResourceError;

/// Maximum pages per transaction, so that other processes wait only briefly.
const PAGES_AT_ONCE_MAX: usize = 32;

/// A page of a list to be stored.
pub trait StorablePage: Send + 'static {
    /// Its rows. The result has one count per list.
    fn rows(&self) -> Vec<Vec<Incoming<'_>>>;
}

/// The sender to the writer thread. The thread ends when this is dropped; pages whose caller is gone
/// are skipped.
pub struct RecordWriter {
    jobs: mpsc::Sender<WriteJob>,
}

enum WriteJob {
    Page(Box<dyn Waiting>),
    Work(Box<dyn FnOnce(&Records) + Send>),
}

/// A page and the channel for its result.
trait Waiting: Send {
    fn is_given_up(&self) -> bool;
    fn rows(&self) -> Vec<Vec<Incoming<'_>>>;
    fn answer(self: Box<Self>, kept: Result<Vec<Upserted>, ResourceError>);
}

struct QueuedPage<P> {
    page: P,
    done: oneshot::Sender<Result<(P, Vec<Upserted>), ResourceError>>,
}

impl<P: StorablePage> Waiting for QueuedPage<P> {
    fn is_given_up(&self) -> bool {
        self.done.is_closed()
    }

    fn rows(&self) -> Vec<Vec<Incoming<'_>>> {
        self.page.rows()
    }

    fn answer(self: Box<Self>, kept: Result<Vec<Upserted>, ResourceError>) {
        let QueuedPage { page, done } = *self;
        // The caller may be gone.
        let _ = done.send(kept.map(|kept| (page, kept)));
    }
}

impl RecordWriter {
    /// Within a runtime.
    pub fn start(records: &Records, service: &'static str) -> RecordWriter {
        let (jobs, waiting) = mpsc::channel();
        let records = records.clone();
        tokio::task::spawn_blocking(move || run(&records, service, &waiting));
        RecordWriter { jobs }
    }

    /// Stores a page after all earlier ones. Completes when it is in the mirror. It is queued before
    /// the future is polled.
    pub fn keep<P: StorablePage>(
        &self,
        page: P,
    ) -> impl Future<Output = Result<(P, Vec<Upserted>), ResourceError>> + Send + use<P> {
        let (done, kept) = oneshot::channel();
        self.give(WriteJob::Page(Box::new(QueuedPage { page, done })));
        async move { kept.await.unwrap_or_else(|_| Err(ended())) }
    }

    /// Runs a function on the mirror after all earlier work.
    pub fn then<T, W>(
        &self,
        work: W,
    ) -> impl Future<Output = Result<T, ResourceError>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(&Records) -> Result<T, RecordsError> + Send + 'static,
    {
        let (done, found) = oneshot::channel();
        self.give(WriteJob::Work(Box::new(move |records| {
            if !done.is_closed() {
                let _ = done.send(work(records).map_err(ResourceError::from));
            }
        })));
        async move { found.await.unwrap_or_else(|_| Err(ended())) }
    }

    fn give(&self, job: WriteJob) {
        // If the thread has ended, the receiver reports it.
        let _ = self.jobs.send(job);
    }
}

fn ended() -> ResourceError {
    ResourceError {
        code: "CACHE_ERROR",
        message: "the local mirror failed: its writer has ended".to_owned(),
    }
}

fn run(records: &Records, service: &'static str, waiting: &mpsc::Receiver<WriteJob>) {
    while let Ok(first) = waiting.recv() {
        let mut next = Some(first);
        while let Some(job) = next.take() {
            match job {
                WriteJob::Work(work) => work(records),
                WriteJob::Page(page) => next = together(records, service, page, waiting),
            }
        }
    }
}

/// Stores a page and all queued pages up to another kind of work; returns that work, if any.
fn together(
    records: &Records,
    service: &'static str,
    first: Box<dyn Waiting>,
    waiting: &mpsc::Receiver<WriteJob>,
) -> Option<WriteJob> {
    let (mut pages, mut next, mut job) = (Vec::new(), None, Some(WriteJob::Page(first)));
    while let Some(WriteJob::Page(page)) = job {
        if !page.is_given_up() {
            pages.push(page);
        }
        job = if pages.len() < PAGES_AT_ONCE_MAX { waiting.try_recv().ok() } else { None };
        if let Some(WriteJob::Work(_)) = &job {
            next = job.take();
        }
    }
    let kept = {
        let rows: Vec<Vec<Vec<Incoming<'_>>>> = pages.iter().map(|page| page.rows()).collect();
        let lists: Vec<&[Incoming<'_>]> = rows.iter().flatten().map(Vec::as_slice).collect();
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        records.upsert_all(service, &lists).map(|kept| (kept, lengths)).map_err(ResourceError::from)
    };
    match kept {
        Ok((kept, lengths)) => {
            let mut kept = kept.into_iter();
            for (page, length) in pages.into_iter().zip(lengths) {
                page.answer(Ok(kept.by_ref().take(length).collect()));
            }
        }
        Err(fault) => pages.into_iter().for_each(|page| page.answer(Err(fault.clone()))),
    }
    next
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use store::home::Home;

    use super::*;

    /// Rows with these ids; the second list is always empty.
    struct Ids(Vec<&'static str>);

    impl StorablePage for Ids {
        fn rows(&self) -> Vec<Vec<Incoming<'_>>> {
            let row = |id| Incoming { kind: "night", id, raw: "{}", flat: "{}", ..<_>::default() };
            vec![self.0.iter().map(|id| row(*id)).collect(), Vec::new()]
        }
    }

    fn fixture() -> (tempfile::TempDir, Records, RecordWriter) {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Home::create(&folder.path().join("home")).unwrap()).unwrap();
        let writer = RecordWriter::start(&records, "test");
        (folder, records, writer)
    }

    /// Blocks the thread until the sender is used.
    fn hold(writer: &RecordWriter) -> mpsc::Sender<()> {
        let (let_go, held) = mpsc::channel();
        writer.give(WriteJob::Work(Box::new(move |_| held.recv().unwrap())));
        let_go
    }

    #[tokio::test]
    async fn pages_read_during_a_sync_are_kept_and_reported_once() {
        let (_folder, records, writer) = fixture();
        let let_go = hold(&writer);
        let (one, two) = (writer.keep(Ids(vec!["a", "b"])), writer.keep(Ids(vec!["b", "c"])));
        let count = writer.then(|records| records.count("test", "night"));
        let three = writer.keep(Ids(vec!["d"]));
        let_go.send(()).unwrap();
        let (count, three) = tokio::join!(count, three);
        assert_eq!(count.unwrap(), 3, "what was given later is done later");
        let counted = |kept: Vec<Upserted>| {
            kept.into_iter().map(|kept| (kept.inserted, kept.unchanged)).collect::<Vec<_>>()
        };
        assert_eq!(counted(one.await.unwrap().1), [(2, 0), (0, 0)]);
        assert_eq!(counted(two.await.unwrap().1), [(1, 1), (0, 0)]);
        assert_eq!(counted(three.unwrap().1), [(1, 0), (0, 0)]);
        assert_eq!(records.count("test", "night").unwrap(), 4);
    }

    #[tokio::test]
    async fn cancelled_work_is_skipped() {
        let (_folder, _records, writer) = fixture();
        let let_go = hold(&writer);
        drop(writer.keep(Ids(vec!["a"])));
        let kept = writer.keep(Ids(vec!["b"]));
        let_go.send(()).unwrap();
        kept.await.unwrap();
        let count = writer.then(|records| records.count("test", "night")).await;
        assert_eq!(count.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_mirror_that_fails_says_so_to_all_who_wait() {
        let (folder, records, writer) = fixture();
        writer.keep(Ids(vec!["a"])).await.unwrap();
        let let_go = hold(&writer);
        let (one, two) = (writer.keep(Ids(vec!["b"])), writer.keep(Ids(vec!["c"])));
        std::fs::remove_file(folder.path().join("home/data.db")).unwrap();
        let_go.send(()).unwrap();
        for page in [one.await, two.await] {
            assert_eq!(page.err().unwrap().code, "CACHE_ERROR");
        }
        drop(records);
    }
}
