//! Which facility of the system a server runs on; the same tests on the one that is not the default.

use crate::harness::{BACKEND_VARIABLE, Local, info};
use std::process::Command;
use tollgate_net::{Backend, LoopGroupBuilder};

/// Whether the system has io_uring; says so where it does not.
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn has_io_uring() -> bool {
    let has = LoopGroupBuilder::<()>::new(1, Backend::IoUring).is_ok();
    if !has {
        println!("skipped: needs io_uring");
    }
    has
}

#[test]
fn the_backend_can_be_chosen_and_info_tells_it() {
    for (setting, told) in [
        ("epoll", "epoll"),
        ("io_uring", "io_uring"),
        ("auto", "io_uring"),
    ] {
        if told == "io_uring" && !has_io_uring() {
            continue;
        }
        let server = Local::start(&[("io-backend", setting)]);
        let mut client = server.connect();
        assert_eq!(info(&mut client, "multiplexing_api"), told);
        let reply = client.line("CONFIG GET io-backend").unwrap();
        let value = reply.as_array().unwrap()[1].as_bytes();
        assert_eq!(value, Some(setting.as_bytes()));
    }
}

/// Tests that say nothing of where events come from, beyond what those say that are left: of files and settings, of what one
/// connection is answered, of what servers do together.
const BESIDE_THE_LOOPS: [&str; 20] = [
    "backends::",
    "aof::",
    "aof_crash::",
    "aof_faults::",
    "applications::",
    "cluster::",
    "fields::",
    "log::",
    "names::",
    "operations::",
    "random::",
    "restart::",
    "rows::",
    "saving::",
    "scripts::every_script_holds_on_one_shard",
    "sentinel::",
    "settings::",
    "snapshots::",
    "limits::a_limit_close_above_what_is_used_is_kept_by_evicting",
    "hostile::a_value_of_512_mib_is_stored_and_one_byte_more_is_not",
];

#[test]
fn every_test_of_connections_holds_without_io_uring() {
    if !has_io_uring() {
        return;
    }
    // The other tests of this run use io_uring.
    let output = Command::new(std::env::current_exe().unwrap())
        .args(
            BESIDE_THE_LOOPS
                .iter()
                .flat_map(|skipped| ["--skip", skipped]),
        )
        .env(BACKEND_VARIABLE, "epoll")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
