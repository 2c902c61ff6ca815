//! The same tests on the backend that is not the default.

use crate::lines::BACKEND_VARIABLE;
use std::process::Command;
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
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--skip", "backends::"])
        .env(BACKEND_VARIABLE, "epoll")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
