//! CONFIG and INFO.

use crate::harness::{Local, eventually, info, raw, text};
use tollgate_server::config::render_docs;

#[test]
fn settings_change_together_or_not_at_all() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    assert_eq!(raw(&mut client, "CONFIG SET timeout 100 hz 20"), "+OK\r\n");
    assert_eq!(
        raw(&mut client, "CONFIG GET timeout"),
        "*2\r\n$7\r\ntimeout\r\n$3\r\n100\r\n"
    );
    assert!(raw(&mut client, "CONFIG SET hz 30 timeout x").starts_with("-ERR CONFIG SET failed"));
    assert_eq!(
        raw(&mut client, "CONFIG GET hz"),
        "*2\r\n$2\r\nhz\r\n$2\r\n20\r\n"
    );
    assert_eq!(
        raw(&mut client, "CONFIG GET port"),
        format!(
            "*2\r\n$4\r\nport\r\n${}\r\n{}\r\n",
            server.addr.port().to_string().len(),
            server.addr.port()
        )
    );
    let several = raw(&mut client, "CONFIG GET *memory* app[ex]ndonl? maxmemory");
    assert!(
        several.starts_with("*16\r\n") && several.contains("maxmemory-policy"),
        "{several}"
    );
    assert!(raw(&mut client, "HELLO 3").starts_with('%'));
    assert_eq!(
        raw(&mut client, "CONFIG GET save"),
        "%1\r\n$4\r\nsave\r\n$0\r\n\r\n"
    );
}

#[test]
fn silent_clients_are_closed_once_a_timeout_is_set() {
    let server = Local::start(&[]);
    let mut idle: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut idle {
        raw(client, "PING");
    }
    assert_eq!(
        raw(&mut server.connect(), "CONFIG SET timeout 1"),
        "+OK\r\n"
    );
    for client in &mut idle {
        assert_eq!(client.until_closed().unwrap(), b"");
    }
    // A new connection each time: one that is kept is silent for too long itself where the machine stands still.
    eventually("they are not counted any more", || {
        info(&mut server.connect(), "connected_clients") == "1"
    });
}

#[test]
fn errors_within_transactions_are_counted() {
    let server = Local::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    raw(&mut client, "CLIENT SETNAME it");
    raw(&mut client, "RPUSH list 1");
    for command in ["MULTI", "GET none", "INCR list", "AUTH a", "EXEC"] {
        raw(&mut client, command);
    }
    assert_eq!(info(&mut other, "errorstat_WRONGTYPE"), "count=1");
    assert_eq!(info(&mut other, "errorstat_ERR"), "count=1");
    assert_eq!(info(&mut other, "total_error_replies"), "2");
    let clients = text(&mut other, "CLIENT LIST");
    let line = clients.lines().find(|line| line.contains(" name=it "));
    assert!(line.unwrap().contains(" cmd=exec "), "{clients}");
}

#[test]
fn info_counts_what_rules_refuse() {
    let server = Local::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    raw(&mut client, "ACL SETUSER u on nopass +get +subscribe ~a &a");
    raw(&mut client, "AUTH nobody x");
    raw(&mut client, "AUTH u x");
    for command in ["SET a 1", "GET b", "GET c", "SUBSCRIBE b"] {
        raw(&mut client, command);
    }
    for (name, count) in [
        ("acl_access_denied_auth", "1"),
        ("acl_access_denied_cmd", "1"),
        ("acl_access_denied_key", "2"),
        ("acl_access_denied_channel", "1"),
    ] {
        assert_eq!(info(&mut other, name), count, "{name}");
    }
}

#[test]
fn info_counts_what_happens() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    assert_eq!(raw(&mut client, "SET k v"), "+OK\r\n");
    raw(&mut client, "GET k");
    raw(&mut client, "GET none");
    raw(&mut client, "GET");
    raw(&mut client, "nosuch");
    raw(&mut client, "SET t v PX 1");
    raw(&mut client, "SET e v EX 1000");
    assert_eq!(info(&mut client, "keyspace_hits"), "1");
    assert_eq!(info(&mut client, "keyspace_misses"), "1");
    assert_eq!(info(&mut client, "total_error_replies"), "2");
    assert_eq!(info(&mut client, "errorstat_ERR"), "count=2");
    assert!(
        info(&mut client, "cmdstat_get").starts_with("calls=2,"),
        "{}",
        info(&mut client, "cmdstat_get")
    );
    assert!(info(&mut client, "cmdstat_get").ends_with("rejected_calls=1,failed_calls=0"));
    assert_eq!(info(&mut client, "connected_clients"), "1");
    assert!(info(&mut client, "used_memory_rss").parse::<u64>().unwrap() > 1 << 20);
    assert!(
        info(&mut client, "total_net_input_bytes")
            .parse::<u64>()
            .unwrap()
            > 100
    );
    // The expired key goes by itself, without anyone asking for it.
    eventually("the expired key is removed", || {
        info(&mut client, "db0").starts_with("keys=2,expires=1,avg_ttl=")
    });
    assert_eq!(info(&mut client, "expired_keys"), "1");
    assert_eq!(raw(&mut client, "CONFIG RESETSTAT"), "+OK\r\n");
    for name in [
        "keyspace_hits",
        "keyspace_misses",
        "total_error_replies",
        "expired_keys",
        "total_connections_received",
    ] {
        assert_eq!(info(&mut client, name), "0", "{name}");
    }
    assert_eq!(
        info(&mut client, "connected_clients"),
        "1",
        "a reset does not forget what is"
    );
}

#[test]
fn info_prints_the_sections_asked_for() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    let default = text(&mut client, "INFO");
    for section in [
        "Server",
        "Clients",
        "Memory",
        "Persistence",
        "Stats",
        "Replication",
        "CPU",
        "Errorstats",
        "Cluster",
        "Keyspace",
    ] {
        assert!(default.contains(&format!("# {section}\r\n")), "{section}");
    }
    assert!(!default.contains("# Commandstats"));
    assert!(
        default.contains("\r\nredis_version:7.0.15\r\n")
            && default.contains("\r\ntollgate_version:")
    );
    let two = text(&mut client, "INFO CPU cluster");
    assert!(
        two.starts_with("# CPU\r\nused_cpu_sys:")
            && two.ends_with("\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n"),
        "{two}"
    );
    assert_eq!(text(&mut client, "INFO nosuch"), "");
    let mut names: Vec<_> = text(&mut client, "INFO everything")
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.to_owned()))
        .collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all, "every line has a name of its own");
}

#[test]
fn the_settings_are_documented() {
    let path = tollgate_testkit::repo_root().join("docs/settings.md");
    if std::env::var_os("TOLLGATE_REGENERATE").is_some() {
        std::fs::write(&path, render_docs()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == render_docs(),
        "docs/settings.md is out of date: run with TOLLGATE_REGENERATE=1"
    );
}

/// Settings whose words stand for numbers within the store hold from the start on, not only after CONFIG SET.
#[test]
fn words_given_at_the_start_reach_the_store() {
    let server = Local::start(&[
        ("maxmemory", "4mb"),
        ("maxmemory-policy", "allkeys-lru"),
        ("increx-form", "valkey"),
    ]);
    let mut client = server.connect();
    let value = "x".repeat(100_000);
    for i in 0..100 {
        assert_eq!(raw(&mut client, &format!("SET {i} {value}")), "+OK\r\n");
    }
    assert_ne!(info(&mut client, "evicted_keys"), "0");
    // Only Valkey's form knows NX.
    assert!(!raw(&mut client, "INCREX fresh NX").starts_with('-'));
}

/// What is there beside the data counts from the command behind CONFIG SET on.
#[test]
fn a_memory_limit_holds_at_once() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    let script = format!("--{}", "x".repeat(1_000_000));
    assert!(raw(&mut client, &format!("SCRIPT LOAD {script}")).starts_with('$'));
    assert_eq!(raw(&mut client, "CONFIG SET maxmemory 900kb"), "+OK\r\n");
    assert!(raw(&mut client, "SET key value").starts_with("-OOM "));
}

/// What CONFIG SET of redis-server 7.0 refuses to set even to the value that it has.
const IMMUTABLE: &[&str] = &[
    "aclfile",
    "always-show-logo",
    "aof_rewrite_cpulist",
    "appenddirname",
    "appendfilename",
    "bgsave_cpulist",
    "bio_cpulist",
    "cluster-config-file",
    "cluster-enabled",
    "cluster-port",
    "daemonize",
    "databases",
    "disable-thp",
    "enable-debug-command",
    "enable-module-command",
    "enable-protected-configs",
    "io-threads",
    "io-threads-do-reads",
    "logfile",
    "pidfile",
    "rdbchecksum",
    "replicaof",
    "slaveof",
    "server_cpulist",
    "set-proc-title",
    "socket-mark-id",
    "supervised",
    "syslog-enabled",
    "syslog-facility",
    "syslog-ident",
    "tcp-backlog",
    "unixsocket",
    "unixsocketperm",
];

/// Test suites set every setting to the value that it has; only some of Redis' own refuse that.
#[test]
fn own_settings_may_be_set_to_what_they_are() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    let all = client.line("CONFIG GET *").unwrap();
    let all: Vec<String> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|word| String::from_utf8_lossy(word.as_bytes().unwrap()).into_owned())
        .collect();
    let mut refused = Vec::new();
    for pair in all.chunks_exact(2) {
        let reply = client.call(&["CONFIG", "SET", &pair[0], &pair[1]]).unwrap();
        if reply
            .as_error()
            .is_some_and(|line| line.ends_with(b"can't set immutable config"))
        {
            refused.push(pair[0].as_str());
        }
    }
    refused.retain(|name| !IMMUTABLE.contains(name));
    assert!(
        refused.is_empty(),
        "not immutable in Redis 7.0: {refused:?}"
    );
}

#[test]
fn what_info_tells_of_commands_does_not_begin_with_itself() {
    let server = Local::start(&[("threads", "1")]);
    let mut client = server.connect();
    for command in ["PING", "CONFIG RESETSTAT"] {
        raw(&mut client, command);
    }
    let stats = raw(&mut client, "INFO commandstats");
    assert!(
        stats.contains("cmdstat_config|resetstat:calls=1,"),
        "{stats}"
    );
    assert!(!stats.contains("cmdstat_info"), "{stats}");
    assert_eq!(raw(&mut client, "MULTI"), "+OK\r\n");
    assert_eq!(raw(&mut client, "INFO commandstats"), "+QUEUED\r\n");
    let stats = raw(&mut client, "EXEC");
    assert!(stats.contains("cmdstat_info:calls=1,"), "{stats}");
    assert!(!stats.contains("cmdstat_exec"), "{stats}");
    assert!(info(&mut client, "cmdstat_info").starts_with("calls=2,"));
    assert!(info(&mut client, "cmdstat_exec").starts_with("calls=1,"));
}
