//! The keyrings of operating systems, by the programs that come with them. A key is kept under its id,
//! so that keeping it twice is keeping it once, and no key ever takes the place of another.

use anyhow::{Result, anyhow};
use store::vault::{AskError, Elsewhere, Keeper, KeyId, Program, Vault, Wait};
use zeroize::Zeroizing;

use super::ask;

/// Under which name keys are kept.
const SERVICE: &str = "tollgate";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyring {
    /// GNOME Keyring, KWallet, KeePassXC: whatever `secret-tool` of libsecret reaches.
    SecretService,
    /// The Keychain of macOS, by its program `security`.
    Keychain,
}

impl Keyring {
    pub(crate) fn of_this_system() -> Keyring {
        if cfg!(target_os = "macos") { Keyring::Keychain } else { Keyring::SecretService }
    }

    /// Where a key is once it has been put there.
    pub(super) fn place(self, key: KeyId, wait: Wait) -> Result<Elsewhere> {
        let command = program(&match self {
            Keyring::SecretService => {
                ["secret-tool", "lookup", "service", SERVICE, "key", key.as_str()].to_vec()
            }
            Keyring::Keychain => {
                ["security", "find-generic-password", "-s", SERVICE, "-a", key.as_str(), "-w"]
                    .to_vec()
            }
        })?;
        Ok(Elsewhere { keeper: Keeper::Keyring, key, command, wait_seconds_max: wait })
    }

    /// How to put a key there: the command, and its input, because others see the arguments of a
    /// program. Only asking for it again tells whether it is there: not every keyring says so.
    fn storing(self, id: &KeyId, line: &str) -> Result<(Program, Zeroizing<String>)> {
        let label = format!("tollgate vault key {id}");
        let id = id.as_str();
        Ok(match self {
            Keyring::SecretService => {
                let words =
                    ["secret-tool", "store", "--label", &label, "service", SERVICE, "key", id];
                (program(&words)?, Zeroizing::new(line.to_owned()))
            }
            // Its commands may come on its input, one in a line.
            Keyring::Keychain => (
                program(&["security", "-i"])?,
                Zeroizing::new(format!(
                    "add-generic-password -U -s {SERVICE} -a {id} -l \"{label}\" -w {line}\n"
                )),
            ),
        })
    }

    pub(super) fn put(self, vault: &Vault, wait: Wait) -> Result<Result<(), AskError>> {
        let (program, input) = self.storing(&vault.key_id(), vault.key_line().trim_end())?;
        Ok(ask::run(&program, Some(&input), wait).map(drop))
    }

    /// How the owner takes a key out for good. tollgate does not: another home, such as a copy of
    /// this one, may need it.
    pub(crate) fn removal(self, id: &KeyId) -> String {
        match self {
            Keyring::SecretService => format!("secret-tool clear service {SERVICE} key {id}"),
            Keyring::Keychain => format!("security delete-generic-password -s {SERVICE} -a {id}"),
        }
    }
}

fn program(words: &[&str]) -> Result<Program> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    Program::try_from(words).map_err(|words| anyhow!(words))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;
    use std::path::Path;

    use store::secret::Secret;

    use super::*;

    /// What `security` does with the words we give it: it keeps by account, and answers 44 for what
    /// it has not.
    const SECURITY: &str = r#"cd "$(dirname "$0")" || exit 9
case "$1" in
-i) read -r act u s service a account l label1 label2 label3 label4 w line
    test "$act $u $s $service $a $l $w" = "add-generic-password -U -s tollgate -a -l -w" || exit 9
    test "$label1 $label2 $label3 $label4" = "\"tollgate vault key $account\"" || exit 9
    printf '%s' "$line" > "kept-$account" ;;
find-generic-password)
    test "$2 $3 $4 $6" = "-s tollgate -a -w" || exit 9
    cat "kept-$5" 2> /dev/null || exit 44
    echo ;;
esac
"#;

    /// The same command with the stand-in's program.
    fn standing_in(program: &Program, folder: &Path) -> Program {
        let file = folder.join(program.name()).display().to_string();
        let words = ["sh".to_owned(), file].into_iter().chain(program.arguments().iter().cloned());
        Program::try_from(words.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_keychain_is_given_the_key_on_its_input_and_gives_it_back() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("security"), SECURITY).unwrap();
        let vault = Vault::from_key(Secret::new([7; 32]));
        let (id, line) = (vault.key_id(), vault.key_line());
        let mut place = Keyring::Keychain.place(id.clone(), Wait::default()).unwrap();
        place.command = standing_in(&place.command, folder.path());
        assert!(matches!(ask::ask(&place), Err(AskError::Failed { .. })));
        let (program, input) = Keyring::Keychain.storing(&id, line.trim_end()).unwrap();
        assert!(!program.to_string().contains("tgvk1_"));
        ask::run(&standing_in(&program, folder.path()), Some(&input), Wait::default()).unwrap();
        assert_eq!(*ask::ask(&place).unwrap(), *line);
    }
}
