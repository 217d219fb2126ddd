//! Owners of tasks: kept across a restart, for a time, and within a bound.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/fixture.rs"]
mod fixture;

use fixture::Fixture;
use store::registry::{TASK_OWNERS_MAX, TaskOwner};

fn owner(task: usize, until_us: i64) -> TaskOwner {
    TaskOwner {
        server: "s".to_owned(),
        task: task.to_string(),
        grant: "g".to_owned(),
        conversation: String::new(),
        tool: "t".to_owned(),
        is_private: true,
        begun_at_us: i64::try_from(task).unwrap(),
        until_us,
    }
}

#[test]
fn owners_of_tasks_are_kept_until_they_expire() {
    let fixture = Fixture::new();
    let (short, long) = (owner(1, 100), owner(2, 200));
    fixture.registry.put_task_owners(&[short.clone(), long.clone()], 0).unwrap();
    fixture.registry.put_task_owners(std::slice::from_ref(&short), 0).unwrap();
    assert_eq!(fixture.registry.task_owners(99).unwrap(), [short, long.clone()]);
    assert_eq!(fixture.registry.task_owners(100).unwrap(), [long]);
}

#[test]
fn the_oldest_owners_are_deleted_beyond_the_bound() {
    let fixture = Fixture::new();
    let owners: Vec<TaskOwner> = (0..TASK_OWNERS_MAX + 5).map(|n| owner(n, 100)).collect();
    fixture.registry.put_task_owners(&owners, 0).unwrap();
    let kept = fixture.registry.task_owners(0).unwrap();
    assert_eq!(kept, owners.split_at(5).1);
}
