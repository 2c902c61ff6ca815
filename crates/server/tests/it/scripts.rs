//! Command scripts on servers. The same scripts run in process (in this crate's unit tests) and on a real redis-server (in testkit's).

use tollgate_commands::{Row, families};
use tollgate_testkit::script::{Peer, TcpExecutor, commands_used, run_all};

use crate::harness::Local;

fn run(settings: &[(&str, &str)]) {
    let server = Local::start(settings);
    run_all(&mut TcpExecutor::new(Peer::Tollgate, server.addr));
}

#[test]
fn every_script_holds_on_one_shard() {
    run(&[("shards", "1"), ("threads", "1")]);
}

#[test]
fn every_script_holds_on_many_shards() {
    run(&[("shards", "1024"), ("threads", "2")]);
}

/// Commands without a script, and why they have none.
const WITHOUT_SCRIPT: &[(&str, &str)] =
    &[("SHUTDOWN", "ends the server; tests of the process run it")];

#[test]
fn every_command_has_a_script() {
    let used = commands_used().expect("the scripts can be read");
    let excused = |row: &Row| WITHOUT_SCRIPT.iter().any(|(name, _)| *name == row.name);
    let rows = families().iter().flat_map(|family| family.rows);
    let callable = rows.flat_map(|row| {
        if row.subs.is_empty() {
            std::slice::from_ref(row)
        } else {
            row.subs
        }
    });
    let missing: Vec<_> = callable
        .filter(|row| !used.contains(row.name) && !excused(row))
        .map(|row| row.name)
        .collect();
    assert!(
        missing.is_empty(),
        "commands without a script in tests/scripts: {}",
        missing.join(", ")
    );
}
