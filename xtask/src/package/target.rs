//! The systems that a release is made for, with what each ecosystem calls them.

use anyhow::{Context, Result};

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) triple: &'static str,
    /// Platform tags of the wheel. Of a build against this machine's glibc, only `linux_…`, which the index refuses.
    pub(super) wheel: &'static [&'static str],
    pub(super) npm_os: &'static str,
    pub(super) npm_cpu: &'static str,
    pub(super) deb: Option<&'static str>,
    pub(super) mcpb: &'static str,
}

/// A release has all but the last one, which is what a plain build on a Linux machine gives.
pub(crate) const TARGETS: &[Target] = &[
    Target {
        triple: "x86_64-unknown-linux-musl",
        wheel: &["manylinux_2_17_x86_64", "musllinux_1_2_x86_64"],
        npm_os: "linux",
        npm_cpu: "x64",
        deb: Some("amd64"),
        mcpb: "linux",
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        wheel: &["manylinux_2_17_aarch64", "musllinux_1_2_aarch64"],
        npm_os: "linux",
        npm_cpu: "arm64",
        deb: Some("arm64"),
        mcpb: "linux",
    },
    Target {
        triple: "x86_64-apple-darwin",
        wheel: &["macosx_10_12_x86_64"],
        npm_os: "darwin",
        npm_cpu: "x64",
        deb: None,
        mcpb: "darwin",
    },
    Target {
        triple: "aarch64-apple-darwin",
        wheel: &["macosx_11_0_arm64"],
        npm_os: "darwin",
        npm_cpu: "arm64",
        deb: None,
        mcpb: "darwin",
    },
    Target {
        triple: "x86_64-pc-windows-msvc",
        wheel: &["win_amd64"],
        npm_os: "win32",
        npm_cpu: "x64",
        deb: None,
        mcpb: "win32",
    },
    Target {
        triple: "aarch64-pc-windows-msvc",
        wheel: &["win_arm64"],
        npm_os: "win32",
        npm_cpu: "arm64",
        deb: None,
        mcpb: "win32",
    },
    Target {
        triple: "x86_64-unknown-linux-gnu",
        wheel: &["linux_x86_64"],
        npm_os: "linux",
        npm_cpu: "x64",
        deb: Some("amd64"),
        mcpb: "linux",
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        wheel: &["linux_aarch64"],
        npm_os: "linux",
        npm_cpu: "arm64",
        deb: Some("arm64"),
        mcpb: "linux",
    },
];

impl Target {
    pub(super) fn of(triple: &str) -> Result<&'static Target> {
        TARGETS
            .iter()
            .find(|target| target.triple == triple)
            .with_context(|| format!("there are no packages for `{triple}`"))
    }

    /// What a build without `--target` is for.
    pub(crate) fn host() -> Result<&'static Target> {
        let system = match std::env::consts::OS {
            "linux" => "unknown-linux-gnu",
            "macos" => "apple-darwin",
            "windows" => "pc-windows-msvc",
            other => other,
        };
        Target::of(&format!("{}-{system}", std::env::consts::ARCH))
    }

    fn is_windows(&self) -> bool {
        self.mcpb == "win32"
    }

    pub(crate) fn executable(&self) -> &'static str {
        if self.is_windows() { "tollgate.exe" } else { "tollgate" }
    }

    /// Windows users expect a zip.
    pub(super) fn archive_extension(&self) -> &'static str {
        if self.is_windows() { "zip" } else { "tar.gz" }
    }

    pub(super) fn npm_package(&self) -> String {
        format!("{}-{}-{}", super::npm::NAME, self.npm_os, self.npm_cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_made_for_six_systems_that_npm_tells_apart() {
        let released: Vec<_> =
            TARGETS.iter().filter(|target| !target.triple.ends_with("-gnu")).collect();
        assert_eq!(released.len(), 6);
        for target in &released {
            let same = released.iter().filter(|other| other.npm_package() == target.npm_package());
            assert_eq!(same.count(), 1, "{}", target.triple);
        }
    }

    #[test]
    fn this_machine_is_known() {
        assert!(Target::host().is_ok());
    }
}
