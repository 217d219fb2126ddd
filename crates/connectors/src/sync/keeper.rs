//! Writes what the lists of a sync bring, on a thread of its own: whatever has come while it wrote goes
//! into the next transaction together, and the next pages are fetched meanwhile.

use std::sync::mpsc;

use store::records::{Incoming, Kept, Records, RecordsError};
use tokio::sync::oneshot;

use super::Fault;

/// Pages that go into one transaction at most: what other processes wait for stays short.
const PAGES_AT_ONCE_MAX: usize = 32;

/// A page of a list on its way into the mirror.
pub trait Page: Send + 'static {
    /// Its rows. Answers come back for each of the lists.
    fn rows(&self) -> Vec<Vec<Incoming<'_>>>;
}

/// The way to the thread that writes. It ends when this is dropped; pages that nobody waits for any
/// more are left out.
pub struct Keeper {
    jobs: mpsc::Sender<Job>,
}

enum Job {
    Page(Box<dyn Waiting>),
    Work(Box<dyn FnOnce(&Records) + Send>),
}

/// A page and who waits for it.
trait Waiting: Send {
    fn is_given_up(&self) -> bool;
    fn rows(&self) -> Vec<Vec<Incoming<'_>>>;
    fn answer(self: Box<Self>, kept: Result<Vec<Kept>, Fault>);
}

struct Sent<P> {
    page: P,
    done: oneshot::Sender<Result<(P, Vec<Kept>), Fault>>,
}

impl<P: Page> Waiting for Sent<P> {
    fn is_given_up(&self) -> bool {
        self.done.is_closed()
    }

    fn rows(&self) -> Vec<Vec<Incoming<'_>>> {
        self.page.rows()
    }

    fn answer(self: Box<Self>, kept: Result<Vec<Kept>, Fault>) {
        let Sent { page, done } = *self;
        // Who gave up in the meantime does not want to know.
        let _ = done.send(kept.map(|kept| (page, kept)));
    }
}

impl Keeper {
    /// Within a runtime.
    pub fn start(records: &Records, service: &'static str) -> Keeper {
        let (jobs, waiting) = mpsc::channel();
        let records = records.clone();
        tokio::task::spawn_blocking(move || run(&records, service, &waiting));
        Keeper { jobs }
    }

    /// Keeps a page after all that was given here before. Answers when it is in the mirror. It is on
    /// its way before the answer is waited for.
    pub fn keep<P: Page>(
        &self,
        page: P,
    ) -> impl Future<Output = Result<(P, Vec<Kept>), Fault>> + Send + use<P> {
        let (done, kept) = oneshot::channel();
        self.give(Job::Page(Box::new(Sent { page, done })));
        async move { kept.await.unwrap_or_else(|_| Err(ended())) }
    }

    /// Does something with the mirror after all that was given here before.
    pub fn then<T, W>(&self, work: W) -> impl Future<Output = Result<T, Fault>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(&Records) -> Result<T, RecordsError> + Send + 'static,
    {
        let (done, found) = oneshot::channel();
        self.give(Job::Work(Box::new(move |records| {
            if !done.is_closed() {
                let _ = done.send(work(records).map_err(Fault::from));
            }
        })));
        async move { found.await.unwrap_or_else(|_| Err(ended())) }
    }

    fn give(&self, job: Job) {
        // Without the thread the answer never comes, and that is seen there.
        let _ = self.jobs.send(job);
    }
}

fn ended() -> Fault {
    Fault { code: "CACHE_ERROR", words: "the local mirror failed: its writer has ended".to_owned() }
}

fn run(records: &Records, service: &'static str, waiting: &mpsc::Receiver<Job>) {
    while let Ok(first) = waiting.recv() {
        let mut next = Some(first);
        while let Some(job) = next.take() {
            match job {
                Job::Work(work) => work(records),
                Job::Page(page) => next = together(records, service, page, waiting),
            }
        }
    }
}

/// Keeps a page and all others that have come, up to something else; answers that, if it came.
fn together(
    records: &Records,
    service: &'static str,
    first: Box<dyn Waiting>,
    waiting: &mpsc::Receiver<Job>,
) -> Option<Job> {
    let (mut pages, mut next, mut job) = (Vec::new(), None, Some(Job::Page(first)));
    while let Some(Job::Page(page)) = job {
        if !page.is_given_up() {
            pages.push(page);
        }
        job = if pages.len() < PAGES_AT_ONCE_MAX { waiting.try_recv().ok() } else { None };
        if let Some(Job::Work(_)) = &job {
            next = job.take();
        }
    }
    let kept = {
        let rows: Vec<Vec<Vec<Incoming<'_>>>> = pages.iter().map(|page| page.rows()).collect();
        let lists: Vec<&[Incoming<'_>]> = rows.iter().flatten().map(Vec::as_slice).collect();
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        records.keep_all(service, &lists).map(|kept| (kept, lengths)).map_err(Fault::from)
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

    impl Page for Ids {
        fn rows(&self) -> Vec<Vec<Incoming<'_>>> {
            let row = |id| Incoming { kind: "night", id, raw: "{}", flat: "{}", ..<_>::default() };
            vec![self.0.iter().map(|id| row(*id)).collect(), Vec::new()]
        }
    }

    fn stage() -> (tempfile::TempDir, Records, Keeper) {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Home::create(&folder.path().join("home")).unwrap()).unwrap();
        let keeper = Keeper::start(&records, "test");
        (folder, records, keeper)
    }

    /// Holds the thread up until the sender is used.
    fn hold(keeper: &Keeper) -> mpsc::Sender<()> {
        let (let_go, held) = mpsc::channel();
        keeper.give(Job::Work(Box::new(move |_| held.recv().unwrap())));
        let_go
    }

    #[tokio::test]
    async fn pages_that_came_meanwhile_are_kept_together_and_each_hears_of_its_own() {
        let (_folder, records, keeper) = stage();
        let let_go = hold(&keeper);
        let (one, two) = (keeper.keep(Ids(vec!["a", "b"])), keeper.keep(Ids(vec!["b", "c"])));
        let count = keeper.then(|records| records.count("test", "night"));
        let three = keeper.keep(Ids(vec!["d"]));
        let_go.send(()).unwrap();
        let (count, three) = tokio::join!(count, three);
        assert_eq!(count.unwrap(), 3, "what was given later is done later");
        let counted = |kept: Vec<Kept>| {
            kept.into_iter().map(|kept| (kept.inserted, kept.unchanged)).collect::<Vec<_>>()
        };
        assert_eq!(counted(one.await.unwrap().1), [(2, 0), (0, 0)]);
        assert_eq!(counted(two.await.unwrap().1), [(1, 1), (0, 0)]);
        assert_eq!(counted(three.unwrap().1), [(1, 0), (0, 0)]);
        assert_eq!(records.count("test", "night").unwrap(), 4);
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_left_out() {
        let (_folder, _records, keeper) = stage();
        let let_go = hold(&keeper);
        drop(keeper.keep(Ids(vec!["a"])));
        let kept = keeper.keep(Ids(vec!["b"]));
        let_go.send(()).unwrap();
        kept.await.unwrap();
        let count = keeper.then(|records| records.count("test", "night")).await;
        assert_eq!(count.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_mirror_that_fails_says_so_to_all_who_wait() {
        let (folder, records, keeper) = stage();
        keeper.keep(Ids(vec!["a"])).await.unwrap();
        let let_go = hold(&keeper);
        let (one, two) = (keeper.keep(Ids(vec!["b"])), keeper.keep(Ids(vec!["c"])));
        std::fs::remove_file(folder.path().join("home/data.db")).unwrap();
        let_go.send(()).unwrap();
        for page in [one.await, two.await] {
            assert_eq!(page.err().unwrap().code, "CACHE_ERROR");
        }
        drop(records);
    }
}
