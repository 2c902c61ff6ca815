//! The process as the system knows it, and its end by signals, by SHUTDOWN and by a mistake.

use crate::harness::{eventually, raw};
use std::fs;
use std::process::Command;
use tollgate_testkit::{Client, Server};

fn start(flags: &[&str]) -> (Server, Client) {
    let flags = [&["--enable-debug-command", "yes"], flags].concat();
    let server = Server::tollgate(&flags).unwrap();
    let client = server.connect().unwrap();
    (server, client)
}

fn signal(server: &Server, name: &str) {
    let pid = server.pid().to_string();
    let sent = Command::new("kill").args([name, &pid]).status();
    assert!(sent.unwrap().success());
}

/// A file of the system that tells of the process.
fn told(server: &Server, name: &str) -> String {
    fs::read_to_string(format!("/proc/{}/{name}", server.pid())).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn lists_of_processes_show_the_title() {
    let (server, mut client) = start(&["--unixsocket", "a.sock"]);
    let port = server.addr().port();
    let title = |server| {
        let words = told(server, "cmdline");
        words.trim_end_matches('\0').to_owned()
    };
    let shown = title(&server);
    assert!(
        shown.ends_with(&format!("tollgate 127.0.0.1:{port}")),
        "{shown}"
    );
    let template = "CONFIG SET proc-title-template X{port}:{unixsocket}:{config-file}";
    assert_eq!(raw(&mut client, template), "+OK\r\n");
    assert_eq!(title(&server), format!("X{port}:a.sock:-"));
    let long = "x".repeat(100_000);
    let template = format!("CONFIG SET proc-title-template {long}");
    assert_eq!(raw(&mut client, &template), "+OK\r\n");
    assert!(title(&server).len() < 100_000);
    let refused = raw(&mut client, "CONFIG SET proc-title-template {x}");
    assert!(refused.contains("template format is invalid"), "{refused}");
    let (server, _) = start(&["--set-proc-title", "no"]);
    assert!(title(&server).contains("serve\0--port"));
}

#[cfg(target_os = "linux")]
#[test]
fn the_oom_score_follows_the_settings_and_the_role() {
    let (server, mut client) = start(&[]);
    let score = || {
        told(&server, "oom_score_adj")
            .trim()
            .parse::<i64>()
            .unwrap()
    };
    let base = score();
    // To go back lower than it was once takes no right, to go lower than it was at first does.
    let mut expect = |command: &str, expected: i64| {
        assert_eq!(raw(&mut client, command), "+OK\r\n", "{command}");
        assert_eq!(score(), expected.min(1_000), "{command}");
    };
    expect("CONFIG SET oom-score-adj yes", base);
    expect("REPLICAOF 127.0.0.1 1", base + 200);
    expect("REPLICAOF NO ONE", base);
    expect("CONFIG SET oom-score-adj no", base);
}

#[test]
fn a_signal_can_be_called_off() {
    let (server, mut client) = start(&[]);
    assert_eq!(
        raw(&mut client, "SHUTDOWN ABORT"),
        "-ERR No shutdown in progress.\r\n"
    );
    assert_eq!(raw(&mut client, "DEBUG PAUSE-CRON 1"), "+OK\r\n");
    signal(&server, "-TERM");
    eventually("it is called off", || {
        raw(&mut client, "SHUTDOWN ABORT") == "+OK\r\n"
    });
    eventually("the log says so", || {
        server.log().contains("Shutdown manually aborted.")
    });
    assert_eq!(raw(&mut client, "DEBUG PAUSE-CRON 0"), "+OK\r\n");
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
}

#[test]
fn a_second_interrupt_does_not_wait_for_the_snapshot() {
    let (mut server, mut client) =
        start(&["--save", "3600 1", "--rdb-key-save-delay", "100000000"]);
    assert_eq!(raw(&mut client, "MSET a 1 b 2"), "+OK\r\n");
    let temporary = server.dir().join(format!("temp-{}.rdb", server.pid()));
    signal(&server, "-INT");
    eventually("the snapshot is being written", || temporary.exists());
    signal(&server, "-INT");
    let mut status = None;
    eventually("it has ended", || {
        status = server.exited().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(1));
    assert!(!temporary.exists() && server.log().contains("You insist... exiting now."));
}

#[test]
fn the_server_stays_while_what_it_was_asked_to_append_has_no_base() {
    let (mut server, mut client) = start(&["--save", ""]);
    assert_eq!(raw(&mut client, "SET a 1"), "+OK\r\n");
    for setting in ["rdb-key-save-delay 100000000", "appendonly yes"] {
        assert_eq!(
            raw(&mut client, &format!("CONFIG SET {setting}")),
            "+OK\r\n"
        );
    }
    let refused = raw(&mut client, "SHUTDOWN");
    assert_eq!(refused, "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
    for line in [
        "Writing initial AOF, can't exit.",
        "Errors trying to shut down the server. Check the logs for more information.",
    ] {
        eventually(line, || server.log().contains(line));
    }
    client.send(b"SHUTDOWN FORCE\r\n").unwrap();
    eventually("it has ended", || server.exited().unwrap().is_some());
}

#[test]
fn a_mistake_that_ends_the_server_is_in_the_log() {
    let (mut server, mut client) = start(&[]);
    client.send(b"PING\r\nDEBUG PANIC\r\n").unwrap();
    eventually("it has ended", || server.exited().unwrap().is_some());
    let log = server.log();
    for part in [
        "=== TOLLGATE BUG REPORT START",
        "thread tollgate-io",
        "DEBUG PANIC",
        "------ STACK TRACE ------",
        "crates/server/src/node/debug.rs",
        "input: 19 bytes: PING\\r\\nDEBUG PANIC\\r\\n",
        "=== TOLLGATE BUG REPORT END",
    ] {
        assert!(log.contains(part), "no '{part}' in {log}");
    }
    // The signal by which it ends is not another mistake.
    assert!(!log.contains("crashed by signal"), "{log}");
}

#[test]
fn a_signal_that_ends_the_server_is_in_the_log() {
    for (how, number) in [("-ABRT", 6), ("DEBUG SEGFAULT", 11)] {
        let (mut server, mut client) = start(&[]);
        match how {
            "DEBUG SEGFAULT" => client.send(b"PING\r\nDEBUG SEGFAULT\r\n").unwrap(),
            name => signal(&server, name),
        }
        eventually("it has ended", || server.exited().unwrap().is_some());
        let log = server.log();
        let by = format!("crashed by signal: {number}, si_code: ");
        let mut parts = vec![
            "=== TOLLGATE BUG REPORT START",
            &*by,
            "Killed by PID: ",
            "------ STACK TRACE ------",
            "(+0x",
            "=== TOLLGATE BUG REPORT END",
        ];
        if how == "DEBUG SEGFAULT" {
            parts.push("input: 22 bytes: PING\\r\\nDEBUG SEGFAULT\\r\\n");
        }
        for part in parts {
            assert!(log.contains(part), "{how}: no '{part}' in {log}");
        }
        assert_eq!(log.matches("BUG REPORT START").count(), 1, "{log}");
    }
}

#[test]
fn what_ends_the_server_is_in_the_log_as_long_as_it_is_wanted() {
    for (at_first, later, told) in [("yes", "no", 0), ("no", "yes", 1)] {
        for how in ["PANIC", "SEGFAULT"] {
            let (mut server, mut client) = start(&[&format!("--crash-log-enabled={at_first}")]);
            let command = format!("CONFIG SET crash-log-enabled {later}\r\n");
            client.send(command.as_bytes()).unwrap();
            assert_eq!(client.frame().unwrap(), b"+OK\r\n");
            client.send(format!("DEBUG {how}\r\n").as_bytes()).unwrap();
            eventually("it has ended", || server.exited().unwrap().is_some());
            let log = server.log();
            assert_eq!(
                log.matches("BUG REPORT START").count(),
                told,
                "{how}: {log}"
            );
        }
    }
}
