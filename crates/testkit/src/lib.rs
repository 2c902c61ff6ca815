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
