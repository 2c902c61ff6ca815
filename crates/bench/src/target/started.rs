//! A store's process, started and answering.

use super::child::{Folder, ServerProcess, free_port, loopback};
use super::further::Further;
use super::program::Program;
use crate::load::address::Endpoint;
use crate::record::{TargetKind, TargetRecord};

/// Attempts to start a server when another process takes its port first.
const ATTEMPTS: usize = 3;

/// What stands when a program was started.
pub(super) struct Started {
    pub(super) record: TargetRecord,
    pub(super) endpoint: Endpoint,
    pub(super) process: ServerProcess,
}

/// Starts `program` with `threads` threads, on processor `core` if one is given, and waits until `answers`.
pub(super) fn start(
    program: Program,
    threads: u32,
    core: Option<usize>,
    further: &Further,
    answers: impl Fn(&Endpoint) -> bool,
) -> Result<Started, String> {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        match attempt(program, threads, core, further, &answers) {
            Ok(started) => return Ok(started),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn attempt(
    program: Program,
    threads: u32,
    core: Option<usize>,
    further: &Further,
    answers: &impl Fn(&Endpoint) -> bool,
) -> Result<Started, String> {
    let name = program.name();
    let exe = program
        .locate()
        .ok_or_else(|| format!("{name}: {}", program.hint()))?;
    let folder =
        Folder::new(name).map_err(|error| format!("cannot create a temporary folder: {error}"))?;
    let port = free_port().map_err(|error| format!("no free port: {error}"))?;
    let arguments = program.arguments(port, threads, folder.path());
    let mut process = ServerProcess::start(name, &exe, &arguments, further, core, folder)?;
    let endpoint = loopback(port);
    let took = process.wait_ready(|| answers(&endpoint))?;
    let scheme = if program.speaks_resp() {
        "redis"
    } else {
        "memcache"
    };
    let record = TargetRecord {
        name: name.into(),
        kind: TargetKind::Store,
        url: format!("{scheme}://{}", endpoint.address),
        threads: Some(threads),
        ..process.record(took)
    };
    Ok(Started {
        record,
        endpoint,
        process,
    })
}
