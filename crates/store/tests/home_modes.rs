//! The home folder keeps others out, mends what it may, and refuses what it must not touch.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use store::home::{Home, HomeError, Notice};

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_new_home_is_open_to_its_owner_only() {
    let base = tempfile::tempdir().unwrap();
    let home = Home::create(&base.path().join("a/b/home")).unwrap();
    for path in [home.path().to_owned(), home.audit(), home.logs(), home.backups()] {
        assert_eq!(mode_of(&path), 0o700, "{}", path.display());
    }
    assert!(home.notices().is_empty());
    assert!(Home::open(home.path()).is_ok());
}

#[test]
fn wrong_modes_are_repaired_with_a_notice_each() {
    let base = tempfile::tempdir().unwrap();
    let home = Home::create(&base.path().join("home")).unwrap();
    let files = [home.gate_db(), home.vault_key(), home.audit().join("000001.log")];
    for file in &files {
        fs::write(file, "x").unwrap();
        set_mode(file, 0o644);
    }
    set_mode(&home.logs(), 0o755);
    set_mode(home.path(), 0o777);

    let again = Home::open(home.path()).unwrap();
    for file in &files {
        assert_eq!(mode_of(file), 0o600, "{}", file.display());
    }
    assert_eq!(mode_of(&home.logs()), 0o700);
    assert_eq!(mode_of(home.path()), 0o700);
    assert_eq!(again.notices().len(), 5);
    let key = format!(
        "`{}` had mode 0644; it has mode 0600 now (others on this machine may have read the key)",
        home.vault_key().display()
    );
    assert!(again.notices().iter().any(|notice| notice.to_string() == key));
    assert!(Home::open(home.path()).unwrap().notices().is_empty());
}

#[test]
fn links_are_refused_wherever_they_stand() {
    let base = tempfile::tempdir().unwrap();
    let real = Home::create(&base.path().join("real")).unwrap();
    let link = base.path().join("link");
    symlink(real.path(), &link).unwrap();
    for path in [link.clone(), link.join("")] {
        assert!(matches!(Home::open(&path), Err(HomeError::Symlink(_))), "{}", path.display());
        assert!(matches!(Home::create(&path), Err(HomeError::Symlink(_))));
    }
    let target = base.path().join("elsewhere");
    fs::write(&target, "x").unwrap();
    set_mode(&target, 0o644);
    for inside in [real.gate_db(), real.vault_key(), real.audit().join("000001.log")] {
        symlink(&target, &inside).unwrap();
        assert!(matches!(Home::open(real.path()), Err(HomeError::Symlink(at)) if at == inside));
        fs::remove_file(&inside).unwrap();
    }
    assert_eq!(mode_of(&target), 0o644, "the target of a link is never changed");
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_and_not_opened() {
    let base = tempfile::tempdir().unwrap();
    let home = Home::create(&base.path().join("home")).unwrap();
    for inside in [home.gate_db(), home.vault_key(), home.audit().join("seal")] {
        let made = std::process::Command::new("mkfifo").arg(&inside).status().unwrap();
        assert!(made.success());
        assert!(matches!(Home::open(home.path()), Err(HomeError::NotAFile(at)) if at == inside));
        fs::remove_file(&inside).unwrap();
    }
}

#[test]
fn a_folder_with_other_files_is_not_taken_over() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("documents");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("letter.txt"), "x").unwrap();
    set_mode(&folder, 0o755);
    assert!(matches!(Home::create(&folder), Err(HomeError::NotOurs(_))));
    assert_eq!(mode_of(&folder), 0o755);

    fs::write(folder.join("tollgate.toml"), "").unwrap();
    set_mode(&folder.join("letter.txt"), 0o644);
    Home::create(&folder).unwrap();
    assert_eq!(mode_of(&folder.join("letter.txt")), 0o644, "files of others keep their modes");
}

#[test]
fn a_private_folder_with_policies_laid_down_beforehand_is_a_home() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("home");
    fs::create_dir(&folder).unwrap();
    set_mode(&folder, 0o700);
    fs::write(folder.join("policy.json"), "{}").unwrap();
    for (name, is_folder) in [("photos", true), (".profile", false)] {
        let other = folder.join(name);
        if is_folder { fs::create_dir(&other) } else { fs::write(&other, "") }.unwrap();
        assert!(matches!(Home::create(&folder), Err(HomeError::NotOurs(_))), "{name}");
        if is_folder { fs::remove_dir(&other) } else { fs::remove_file(&other) }.unwrap();
    }
    Home::create(&folder).unwrap();
}

#[test]
fn a_missing_home_and_a_file_in_its_place_are_told_apart() {
    let base = tempfile::tempdir().unwrap();
    let missing = base.path().join("nowhere/home");
    assert!(matches!(Home::open(&missing), Err(HomeError::Missing(_))));
    let file = base.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(Home::create(&file), Err(HomeError::NotAFolder(_))));
}

#[test]
fn files_of_another_user_are_refused() {
    // Only root can give a file away; for others the root folder has another owner.
    let base = tempfile::tempdir().unwrap();
    let home = Home::create(&base.path().join("home")).unwrap();
    fs::write(home.gate_db(), "x").unwrap();
    let given_away = std::os::unix::fs::chown(home.gate_db(), Some(12_345), None).is_ok();
    let refused = if given_away { Home::open(home.path()) } else { Home::open(Path::new("/etc")) };
    assert!(matches!(refused, Err(HomeError::ForeignOwner { .. })));
}

#[test]
fn a_parent_that_anyone_may_write_is_pointed_at() {
    let base = tempfile::tempdir().unwrap();
    let open = base.path().join("open");
    fs::create_dir(&open).unwrap();
    set_mode(&open, 0o777);
    let home = Home::create(&open.join("home")).unwrap();
    assert_eq!(home.notices(), [Notice::ParentOpenToAll(open.clone())]);
    set_mode(&open, 0o1777);
    assert!(Home::open(home.path()).unwrap().notices().is_empty());
}
