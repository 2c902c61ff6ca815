//! The same tests on the backend that is not the default.

use crate::lines::BACKEND_VARIABLE;
use crate::no_process_starts;
use std::process::{Command, Stdio};
use tollgate_net::{Backend, IoBackend, LoopGroupBuilder};

fn chosen(wanted: Backend) -> std::io::Result<IoBackend> {
    Ok(LoopGroupBuilder::<()>::new(1, wanted)?.backend())
}

#[test]
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn every_test_holds_without_io_uring() {
    let Ok(backend) = chosen(Backend::IoUring) else {
        println!("skipped: needs io_uring");
        return;
    };
    assert_eq!(backend, IoBackend::IoUring);
    assert_eq!(chosen(Backend::Auto).unwrap(), IoBackend::IoUring);
    assert_eq!(chosen(Backend::Epoll).unwrap(), IoBackend::Epoll);
    // The other tests of this run use io_uring.
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--skip", "backends::"])
        .env(BACKEND_VARIABLE, "epoll")
        .stdout(Stdio::piped());
    let alone = no_process_starts();
    let child = command.spawn().unwrap();
    drop(alone);
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
