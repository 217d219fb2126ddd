//! The keyrings of operating systems, through their command-line programs. A key is stored under its id, so
//! that storing it twice has no effect and no key replaces another.

use anyhow::{Result, anyhow};
use store::vault::{ExternalKey, KeyId, KeyProgramError, KeyStore, Program, ProgramTimeout, Vault};
use zeroize::Zeroizing;

use super::fetch;

/// The name under which keys are stored.
const SERVICE: &str = "tollgate";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyring {
    /// GNOME Keyring, KWallet, KeePassXC, through `secret-tool` of libsecret.
    SecretService,
    /// The macOS Keychain, through `security`.
    Keychain,
    /// The Credential Manager of Windows, through its PowerShell. Newer ones lack the interface.
    CredentialManager,
}

/// Opens the web credentials of the Credential Manager as `$v`.
const OPEN_CREDENTIALS: &str = "$ErrorActionPreference='Stop';[void][Windows.Security.Credentials.PasswordVault,Windows.Security.Credentials,ContentType=WindowsRuntime];$v=New-Object Windows.Security.Credentials.PasswordVault;";
const POWERSHELL: [&str; 4] = ["powershell", "-NoProfile", "-NonInteractive", "-Command"];

impl Keyring {
    pub(crate) fn of_this_system() -> Keyring {
        match platform::SYSTEM {
            platform::System::MacOs => Keyring::Keychain,
            platform::System::Windows => Keyring::CredentialManager,
            platform::System::Linux => Keyring::SecretService,
        }
    }

    /// How to fetch a stored key.
    pub(crate) fn external(self, key: KeyId, wait: ProgramTimeout) -> Result<ExternalKey> {
        let credential = format!("$v.Retrieve('{SERVICE}','{key}').Password");
        let credential = format!("{OPEN_CREDENTIALS}{credential}");
        let command = program(&match self {
            Keyring::SecretService => {
                ["secret-tool", "lookup", "service", SERVICE, "key", key.as_str()].to_vec()
            }
            Keyring::Keychain => {
                ["security", "find-generic-password", "-s", SERVICE, "-a", key.as_str(), "-w"]
                    .to_vec()
            }
            Keyring::CredentialManager => [&POWERSHELL[..], &[&credential]].concat(),
        })?;
        Ok(ExternalKey { keeper: KeyStore::Keyring, key, command, wait_seconds_max: wait })
    }

    /// How to store a key: the command and its input, because other users can see arguments. Not every
    /// keyring reports success, so the caller fetches the key again to check.
    fn storing(self, id: &KeyId, line: &str) -> Result<(Program, Zeroizing<String>)> {
        let label = format!("tollgate vault key {id}");
        let id = id.as_str();
        Ok(match self {
            Keyring::SecretService => {
                let message =
                    ["secret-tool", "store", "--label", &label, "service", SERVICE, "key", id];
                (program(&message)?, Zeroizing::new(line.to_owned()))
            }
            // It reads commands from stdin, one per line.
            Keyring::Keychain => (
                program(&["security", "-i"])?,
                Zeroizing::new(format!(
                    "add-generic-password -U -s {SERVICE} -a {id} -l \"{label}\" -w {line}\n"
                )),
            ),
            Keyring::CredentialManager => {
                let store = format!(
                    "{OPEN_CREDENTIALS}$v.Add((New-Object Windows.Security.Credentials.PasswordCredential('{SERVICE}','{id}',[Console]::In.ReadLine())))"
                );
                let message = [&POWERSHELL[..], &[&store]].concat();
                (program(&message)?, Zeroizing::new(format!("{line}\n")))
            }
        })
    }

    pub(crate) fn put(
        self,
        vault: &Vault,
        wait: ProgramTimeout,
    ) -> Result<Result<(), KeyProgramError>> {
        let (program, input) = self.storing(&vault.key_id(), vault.key_line().trim_end())?;
        Ok(fetch::run(&program, Some(&input), wait).map(drop))
    }

    /// The command that deletes a key. tollgate does not run it: another home, such as a copy of this
    /// one, may need the key.
    pub(crate) fn removal(self, id: &KeyId) -> String {
        match self {
            Keyring::SecretService => format!("secret-tool clear service {SERVICE} key {id}"),
            Keyring::Keychain => format!("security delete-generic-password -s {SERVICE} -a {id}"),
            Keyring::CredentialManager => {
                format!(
                    "{} \"{OPEN_CREDENTIALS}$v.Remove($v.Retrieve('{SERVICE}','{id}'))\"",
                    POWERSHELL.join(" ")
                )
            }
        }
    }
}

fn program(message: &[&str]) -> Result<Program> {
    let message: Vec<String> = message.iter().map(|word| (*word).to_owned()).collect();
    Program::try_from(message).map_err(|message| anyhow!(message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;
    use std::path::Path;

    use store::secret::Secret;

    use super::*;

    /// Imitates `security`: stores by account, and exits with 44 for an unknown one.
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

    /// The same command with the imitated program.
    fn imitated(program: &Program, folder: &Path) -> Program {
        let file = folder.join(program.name()).display().to_string();
        let message =
            ["sh".to_owned(), file].into_iter().chain(program.arguments().iter().cloned());
        Program::try_from(message.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_keychain_gets_the_key_on_stdin_and_returns_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("security"), SECURITY).unwrap();
        let vault = Vault::from_key(Secret::new([7; 32]));
        let (id, line) = (vault.key_id(), vault.key_line());
        let mut external =
            Keyring::Keychain.external(id.clone(), ProgramTimeout::default()).unwrap();
        external.command = imitated(&external.command, folder.path());
        assert!(matches!(fetch::fetch(&external), Err(KeyProgramError::Failed { .. })));
        let (program, input) = Keyring::Keychain.storing(&id, line.trim_end()).unwrap();
        assert!(!program.to_string().contains("tgvk1_"));
        fetch::run(&imitated(&program, folder.path()), Some(&input), ProgramTimeout::default())
            .unwrap();
        assert_eq!(*fetch::fetch(&external).unwrap(), *line);
    }

    /// Windows alone has the interface, so only the words are tested here.
    #[test]
    fn the_credential_manager_gets_the_key_on_stdin() {
        let vault = Vault::from_key(Secret::new([7; 32]));
        let (id, line) = (vault.key_id(), vault.key_line());
        let (program, input) = Keyring::CredentialManager.storing(&id, line.trim_end()).unwrap();
        assert_eq!((program.name(), input.as_str()), ("powershell", line.as_str()));
        assert!(!program.to_string().contains("tgvk1_"));
        let external =
            Keyring::CredentialManager.external(id.clone(), ProgramTimeout::default()).unwrap();
        let fetched = external.command.to_string();
        assert!(fetched.contains(&format!("$v.Retrieve('tollgate','{id}').Password")), "{fetched}");
    }
}
