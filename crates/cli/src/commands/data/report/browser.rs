//! Prints a page to PDF with a browser that is installed: headless, with an empty profile, from a folder that
//! only the owner can read.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

/// Browsers of one family: they take the same arguments.
const BROWSERS: &[&str] = &[
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "microsoft-edge-stable",
    "msedge",
];
const WAIT_MAX: Duration = Duration::from_mins(2);
const POLL_EVERY: Duration = Duration::from_millis(50);

/// The page as PDF.
pub(super) fn print(page: &str) -> Result<Vec<u8>> {
    let browser = find(std::env::var_os("PATH").as_deref()).ok_or_else(|| {
        anyhow!(
            "no browser that prints a PDF is on the PATH (looked for {})\nhint: `tollgate report --html report.html`, then print the page in any browser",
            BROWSERS.join(", ")
        )
    })?;
    let folder = tempfile::Builder::new().prefix("tollgate-report-").tempdir()?;
    let (html, pdf) = (folder.path().join("report.html"), folder.path().join("report.pdf"));
    fs::write(&html, page)?;
    let mut output = run(&browser, folder.path(), &html, &pdf, &[])?;
    // A browser of root refuses to start with its own sandbox. The page is ours and has no script.
    if output.contains("no-sandbox") && !pdf.exists() {
        output = run(&browser, folder.path(), &html, &pdf, &["--no-sandbox"])?;
    }
    fs::read(&pdf).with_context(|| {
        let last = output.lines().last().unwrap_or_default();
        format!(
            "`{}` did not print the page: {last}\nhint: `--html` writes the page to print yourself",
            browser.display()
        )
    })
}

fn find(path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(path?).collect();
    let at = |name: &&str| folders.iter().map(|folder| folder.join(name)).find(|own| own.is_file());
    BROWSERS.iter().find_map(at)
}

/// What the browser said. It must end in time.
fn run(browser: &Path, folder: &Path, html: &Path, pdf: &Path, more: &[&str]) -> Result<String> {
    let mut print = std::ffi::OsString::from("--print-to-pdf=");
    print.push(pdf);
    let mut profile = std::ffi::OsString::from("--user-data-dir=");
    profile.push(folder.join("profile"));
    let mut child = Command::new(browser)
        .args(["--headless", "--disable-gpu", "--no-first-run", "--no-pdf-header-footer"])
        .args(["--disable-background-networking", "--disable-dev-shm-usage"])
        .args(more)
        .args([print, profile])
        .arg(html)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("said"))?)
        .spawn()
        .with_context(|| format!("cannot start `{}`", browser.display()))?;
    wait(&mut child, browser)?;
    let mut output = String::new();
    let file = fs::File::open(folder.join("said"))?;
    // A browser may print without end; the last words are near the start.
    file.take(64 * 1024).read_to_string(&mut output).unwrap_or_default();
    Ok(output)
}

fn wait(child: &mut Child, browser: &Path) -> Result<()> {
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > WAIT_MAX {
            child.kill()?;
            child.wait()?;
            bail!("`{}` did not finish within {} s", browser.display(), WAIT_MAX.as_secs());
        }
        std::thread::sleep(POLL_EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_browser_is_found_on_the_path_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().as_os_str();
        assert_eq!(find(Some(path)), None);
        assert_eq!(find(None), None);
        let browser = folder.path().join("google-chrome");
        fs::write(&browser, "").unwrap();
        assert_eq!(find(Some(path)), Some(browser));
    }
}
