//! Programs of others that tests compare with: found on the machine or in the folder that `cargo xtask peers` fills.

use std::io::Write as _;
use std::path::PathBuf;

/// Name of the program that is built of `github.com/envoyproxy/ratelimit`, the service whose place ours takes.
pub const ENVOY_RATELIMIT: &str = "envoyproxy-ratelimit";

/// Name of a later redis-server than the reference.
pub const LATER_REDIS: &str = "redis-server-8";

/// Name of a valkey-server that is later than the one that systems have packages of.
pub const LATER_VALKEY: &str = "valkey-server-9";

/// Folder of the peers installed for this repository.
#[must_use]
pub fn folder() -> PathBuf {
    crate::repo_root().join(".peers")
}

/// Path of a program (`redis-server`, `memcached`, `node`, `envoy`): in the peers' folder, or else on `PATH`.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(folder().join("bin"))
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}

/// Folder of the programs that use client libraries.
#[must_use]
pub fn clients() -> PathBuf {
    crate::repo_root().join("tests/clients")
}

/// The file that says what has been installed of a kind of peers.
#[must_use]
pub fn stamp(kind: &str) -> PathBuf {
    folder().join(format!("{kind}.installed"))
}

/// A folder of peers, once all of its kind are installed.
fn installed(kind: &str, path: &str) -> Option<PathBuf> {
    stamp(kind).is_file().then(|| folder().join(path))
}

/// A Python that has redis-py and applications on it.
#[must_use]
pub fn python() -> Option<PathBuf> {
    installed("python", "python/bin/python3")
}

/// Folder to set as `NODE_PATH` so that `require("ioredis")` and other clients work.
#[must_use]
pub fn node_modules() -> Option<PathBuf> {
    installed("node", "node/node_modules")
}

/// Folder of Jedis' archives.
#[must_use]
pub fn jedis() -> Option<PathBuf> {
    installed("jedis", "jedis")
}

/// The Go tool, once the modules of the Go program are there.
#[must_use]
pub fn go() -> Option<PathBuf> {
    stamp("go").is_file().then(|| find("go")).flatten()
}

/// Says that a test is left out because `need` is missing. Panics where the environment variable `CI` is set: there every peer is
/// installed, and a check that silently stopped running is worse than a failing one.
///
/// # Panics
/// When `CI` is set.
pub fn skip(test: &str, need: &str) {
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(
        !ci,
        "{test} needs {need}, and CI must not skip it: run `cargo xtask peers`"
    );
    say_skipped(need);
}

/// Path of a program that this system may have no package of, or `None` after saying that a test is left out.
#[must_use]
pub fn find_where_packaged(program: &str) -> Option<PathBuf> {
    let found = find(program);
    if found.is_none() {
        say_skipped(program);
    }
    found
}

/// Says on a line of its own that a test is left out for want of what no installation gives.
pub fn say_skipped(need: &str) {
    // Written past the harness, which swallows the output of tests that pass.
    let line = format!("\nskipped: needs {need}\n");
    std::io::stdout()
        .write_all(line.as_bytes())
        .expect("standard output is open");
}

/// Path of `program`, or `None` after saying that the test is skipped.
#[must_use]
pub fn find_or_skip(test: &str, program: &str) -> Option<PathBuf> {
    let found = find(program);
    if found.is_none() {
        skip(test, program);
    }
    found
}
