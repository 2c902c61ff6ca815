//! `rename-command`: commands with other names than their own, or without one.

use crate::harness::raw;
use std::fs;
use tollgate_testkit::process::temp_dir;
use tollgate_testkit::{Client, Server, peers};

/// Old and new names.
const RENAMED: &[[&str; 2]] = &[
    ["get", "Fetch"],
    ["FLUSHALL", ""],
    ["CONFIG", "b840fc02d524045429941cc15f59e41cb7be6c52"],
    ["RPUSH", "add"],
    ["keys", "list"],
];

/// What both servers answer alike.
const CASES: &[&str] = &[
    "SET k v",
    "GET k",
    "FETCH k",
    "fetch",
    "FLUSHALL",
    "flushall async",
    "CONFIG GET timeout",
    "b840fc02d524045429941cc15f59e41cb7be6c52 GET timeout",
    "b840fc02d524045429941cc15f59e41cb7be6c52 NOSUCH",
    "b840fc02d524045429941cc15f59e41cb7be6c52",
    "ADD l 1 2",
    "RPUSH l 3",
    "LRANGE l 0 -1",
    "LIST k",
    "EVAL \"return redis.call('GET', KEYS[1])\" 1 k",
    "EVAL \"return redis.call('fetch', KEYS[1])\" 1 k",
    "EVAL \"return redis.call('list', '*k')\" 0",
    "EVAL \"return redis.acl_check_cmd('fetch', 'k')\" 0",
    "EVAL \"return redis.acl_check_cmd('get', 'k')\" 0",
    "ACL DRYRUN default FETCH k",
    "ACL DRYRUN default GET k",
    "MULTI",
    "FETCH k",
    "ADD l 4",
    "EXEC",
    "MULTI",
    "GET k",
    "EXEC",
    "COMMAND GETKEYS FETCH k",
    "COMMAND GETKEYS GET k",
    "COMMAND GETKEYSANDFLAGS fetch k",
    "COMMAND INFO GET keys flushall",
    "COMMAND INFO fetch",
    "COMMAND DOCS get keys flushall config|get",
    "COMMAND LIST FILTERBY PATTERN flusha*",
    "COMMAND LIST FILTERBY PATTERN fetc*",
    "LATENCY HISTOGRAM get rpush config",
    "b840fc02d524045429941cc15f59e41cb7be6c52 HELP",
];

fn answers(client: &mut Client) -> Vec<String> {
    CASES.iter().map(|case| raw(client, case)).collect()
}

#[test]
fn renamed_commands_are_answered_as_by_redis() {
    let flags: Vec<&str> = RENAMED
        .iter()
        .flat_map(|[name, new]| ["--rename-command", name, new])
        .collect();
    let Some(redis) = Server::redis(&flags).unwrap() else {
        return peers::skip("renamed_commands_are_answered_as_by_redis", "redis-server");
    };
    let dir = temp_dir().unwrap();
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let lines: String = RENAMED
        .iter()
        .map(|[name, new]| format!("rename-command {name} \"{new}\"\n"))
        .collect();
    let renames = write("renames.conf", lines);
    let main = write("main.conf", format!("include {renames}\n"));
    let theirs = answers(&mut redis.connect().unwrap());
    for threads in ["1", "2"] {
        let folder = dir.join(threads);
        fs::create_dir(&folder).unwrap();
        let folder = folder.display().to_string();
        let flags = [
            "--config",
            &main,
            "--threads",
            threads,
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--dir",
            &folder,
        ];
        let ours = Server::tollgate(&flags).unwrap();
        for (case, (there, here)) in CASES
            .iter()
            .zip(theirs.iter().zip(answers(&mut ours.connect().unwrap())))
        {
            assert_eq!(*there, here, "{case}");
        }
        // What was written under another name is read again under it.
        drop(ours);
        let again = Server::tollgate(&flags).unwrap();
        let list = raw(&mut again.connect().unwrap(), "LRANGE l 0 -1");
        assert!(list.starts_with("*3\r\n"), "{list}");
    }
    fs::remove_dir_all(dir).unwrap();
}
