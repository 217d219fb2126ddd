//! Bounds and path safety of every archive.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;

use super::ArchiveError;
use crate::testing::Fixture;
use crate::testing::archives::{ArchiveFiles, owner};
use crate::{reddit, spotify};

const POSTS: &str = "id,permalink,date,ip,subreddit,gildings,title,url,body\n\
    1abcd2,https://www.reddit.com/r/rust/comments/1abcd2/a/,2023-01-15 12:34:56 UTC,,rust,0,A title,,text\n";

#[test]
fn a_file_that_is_not_an_archive_is_refused_with_a_hint() {
    let (fixture, archives) = (owner(&spotify::SERVICE), ArchiveFiles::new());
    let import = |path| fixture.import(spotify::archive::import, &[path]).unwrap_err();
    let none = import(archives.zip("none.zip", &[("a.txt", b"1")]));
    assert!(matches!(none, ArchiveError::NothingKnown(_)), "{none}");
    let junk = import(archives.file("junk.zip", b"junk"));
    assert!(matches!(junk, ArchiveError::NotAZip { .. }), "{junk}");
    let missing = import(archives.path("missing.zip"));
    assert!(matches!(missing, ArchiveError::Closed { .. }), "{missing}");
    let cut = import(archives.zip("cut.zip", &[("endsong_0.json", b"[{\"ts\":")]));
    assert!(matches!(cut, ArchiveError::Unreadable { .. }), "{cut}");
    let whole = archives.zip("whole.zip", &[("endsong_0.json", b"[]"), ("b.json", &[7; 4_000])]);
    let bytes = fs::read(&whole).unwrap();
    let truncated = import(archives.file("truncated.zip", &bytes[..bytes.len() / 2]));
    assert!(matches!(truncated, ArchiveError::Damaged { .. }), "{truncated}");
    assert!(truncated.to_string().contains("download it again"), "{truncated}");
}

#[test]
fn a_zip_bomb_is_skipped_and_the_other_files_are_imported() {
    let (fixture, archives) = (owner(&reddit::SERVICE), ArchiveFiles::new());
    let mut bomb = b"id,date,body\n1abc,2023-01-15 12:34:56 UTC,".to_vec();
    bomb.resize(20 << 20, b'a');
    let mut field = b"id,permalink\n".to_vec();
    // Noise does not compress, so only the length of the row is out of bounds.
    field
        .extend((0..17_u32 << 20).map(|n| b'a' + (n.wrapping_mul(2_654_435_761) >> 27) as u8 % 26));
    let zip = archives.zip(
        "bomb.zip",
        &[("comments.csv", &bomb), ("hidden_posts.csv", &field), ("posts.csv", POSTS.as_bytes())],
    );
    let imported = fixture.import(reddit::archive::import, &[zip]).unwrap();
    assert_eq!(Fixture::counts(&imported, "posts"), (1, 1, 0, 0));
    assert_eq!(imported.problem_count, 2, "{:?}", imported.problems);
    let (name, why) = &imported.problems[0];
    assert_eq!(name, "comments.csv");
    assert!(why.contains("far more") || why.contains("longer"), "{why}");
    assert!(imported.problems[1].1.contains("16 megabytes"), "{:?}", imported.problems);
}

#[test]
fn names_in_a_zip_cannot_leave_the_folder() {
    let (fixture, archives) = (owner(&reddit::SERVICE), ArchiveFiles::new());
    let zip = archives.zip(
        "odd.zip",
        &[
            ("../../../../posts.csv", POSTS.as_bytes()),
            ("/etc/saved_posts.csv", b"id,permalink\n9zz,/r/a/comments/9zz/t/\n"),
            ("C:\\Users\\x\\hidden_posts.csv", b"id,permalink\n8zz,/r/a/comments/8zz/t/\n"),
            ("__MACOSX/._comments.csv", b"\0\x05\x16\x07"),
        ],
    );
    let before = fs::read_dir(archives.path("")).unwrap().count();
    let imported = fixture.import(reddit::archive::import, &[zip]).unwrap();
    for kind in ["posts", "saved", "hidden"] {
        assert_eq!(Fixture::counts(&imported, kind), (1, 1, 0, 0), "{kind}");
    }
    assert_eq!(imported.problem_count, 0);
    assert_eq!(fs::read_dir(archives.path("")).unwrap().count(), before);
}

#[cfg(unix)]
#[test]
fn a_folder_is_read_without_following_links() {
    let (fixture, archives) = (owner(&reddit::SERVICE), ArchiveFiles::new());
    let folder = archives.unpacked("data", &[("export/posts.csv", POSTS.as_bytes())]);
    archives.file("elsewhere/saved_posts.csv", b"id,permalink\n9zz,/r/a/comments/9zz/t/\n");
    std::os::unix::fs::symlink(archives.path("elsewhere"), folder.join("link")).unwrap();
    let imported = fixture.import(reddit::archive::import, &[folder]).unwrap();
    assert_eq!(Fixture::counts(&imported, "posts"), (1, 1, 0, 0));
    assert_eq!(Fixture::counts(&imported, "saved"), (0, 0, 0, 0));
}
