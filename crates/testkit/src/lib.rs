//! Tools of the tests: peers, server processes, a raw RESP client, and command scripts that run four ways.
//!
//! Never shipped. Nothing here links the store: whoever wants to run scripts in process brings an
//! [`script::Executor`] of its own.

pub mod client;
pub mod cluster;
pub mod peers;
pub mod process;
pub mod script;

pub use client::Client;
pub use process::Server;

use std::path::{Path, PathBuf};

/// Root of the repository.
#[must_use]
pub fn repo_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies two levels below the root")
        .to_path_buf()
}
