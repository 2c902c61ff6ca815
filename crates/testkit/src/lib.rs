//! Tools of the tests: peers, server processes, a raw RESP client, and command scripts that run four ways.
//!
//! Never shipped. Nothing here links the store: whoever wants to run scripts in process brings an
//! [`script::Executor`] of its own.

pub mod client;
pub mod cluster;
pub mod peers;
pub mod process;
pub mod random;
pub mod script;

pub use client::Client;
pub use process::Server;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a test waits for what is bound to come before it fails: a start, a reply, a state. Long enough for a machine that does a
/// great deal else, since whoever waits goes on as soon as it has come; a test that hangs still ends.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Root of the repository.
#[must_use]
pub fn repo_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies two levels below the root")
        .to_path_buf()
}

/// Cargo in the root of the repository, as a shell would call it. What `cargo test` and `cargo run` tell a process about its package
/// is taken away: some build scripts look at it, and whoever tells them something else builds them again, with all that needs them.
#[must_use]
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repo_root());
    let of_package = |name: &str| {
        ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|begin| name.starts_with(begin))
    };
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(of_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Waits until `done`, which is asked every millisecond.
///
/// # Panics
/// After [`PATIENCE`]; `what` says what did not happen.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}: did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    #[test]
    fn cargo_is_told_nothing_of_the_package_that_calls_it() {
        let told = super::cargo();
        for name in [
            "CARGO_PKG_NAME",
            "CARGO_MANIFEST_DIR",
            "CARGO_PKG_VERSION_PRE",
        ] {
            assert!(std::env::var_os(name).is_some(), "{name} is set by cargo");
            let taken = told.get_envs().any(|env| env == (OsStr::new(name), None));
            assert!(taken, "{name}");
        }
    }
}
