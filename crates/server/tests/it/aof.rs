//! The append-only file: what is written, what is read, and what redis-server makes of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tollgate_testkit::peers::{find, skip};
use tollgate_testkit::process::temp_dir;
use tollgate_testkit::{Client, Server};
use tollgate_wire::resp::{Value, write_command};

use crate::harness::{Local, eventually, info, raw};

/// Goes with what is in it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(temp_dir().unwrap())
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join("appendonlydir").join(name)
    }

    pub(crate) fn manifest(&self) -> String {
        fs::read_to_string(self.file("appendonly.aof.manifest")).unwrap()
    }

    /// Names of the files beside the manifest.
    pub(crate) fn files(&self) -> Vec<String> {
        let folder = fs::read_dir(self.0.join("appendonlydir")).unwrap();
        let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.ends_with("manifest")).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Errors mean that it has gone already.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A server with an append-only file in `folder`, and the settings behind.
fn here(folder: &Folder, more: &[(&str, &str)]) -> Local {
    let own = [
        ("dir", folder.path()),
        ("appendonly", "yes"),
        ("enable-debug-command", "yes"),
    ];
    Local::start(&[&own[..], more].concat())
}

/// A redis-server that has loaded the file; it answers some commands before.
fn redis(folder: &Folder) -> Option<Server> {
    let server = Server::redis(&["--dir", folder.path(), "--appendonly", "yes"]).unwrap()?;
    let mut client = server.connect().unwrap();
    eventually("the load", || {
        raw(&mut client, "INFO persistence").contains("\nloading:0")
    });
    Some(server)
}

/// Every type that redis-server 7.0 has, changed in ways that are recorded differently.
const COMMANDS: &[&str] = &[
    "DEL stream",
    "SET text a",
    "INCR number",
    "SET passing v EX 100000",
    "APPEND text xyz",
    "RPUSH list a b c d",
    "LPOP list",
    "LMPOP 1 list RIGHT COUNT 1",
    "SADD set a b c d e",
    "SPOP set 2",
    "ZADD zset 1 a 2 b 3 c",
    "ZPOPMIN zset",
    "HSET hash f 1",
    "HINCRBYFLOAT hash f 1.5",
    "XADD stream * f v",
    "XGROUP CREATE stream g 0",
    "XREADGROUP GROUP g c COUNT 1 STREAMS stream >",
    "PFADD hll a b",
    "SETRANGE text 9 zz",
    "GETEX passing PERSIST",
    "PEXPIRE text 100000000",
    "COPY list copied",
    "RENAME hash renamed",
    "SMOVE set other a",
    "GEOADD places 13 38 P",
    "BITFIELD bits SET u8 0 255",
    "MULTI",
    "INCR number",
    "SELECT 2",
    "SET elsewhere 1",
    "SELECT 0",
    "EXEC",
    "EVAL redis.call('incr',KEYS[1])redis.call('incr',KEYS[1]) 1 number",
    "MSETEX 2 one 1 two 2 EX 100000",
];

fn fill(client: &mut Client) {
    for command in COMMANDS {
        // The last one is for those who know it.
        let reply = client.line(command).unwrap();
        let unknown =
            matches!(&reply, Value::Error(line) if line.starts_with(b"ERR unknown command"));
        assert!(
            !matches!(reply, Value::Error(_)) || unknown,
            "{command}: {reply:?}"
        );
    }
    let library = b"#!lua name=l\nredis.register_function('f',function() return 7 end)";
    client
        .call(&[&b"FUNCTION"[..], b"LOAD", b"REPLACE", library])
        .unwrap();
}

fn digest(client: &mut Client) -> String {
    raw(client, "DEBUG DIGEST")
}

fn rewrite(client: &mut Client) {
    let reply = raw(client, "BGREWRITEAOF");
    assert_eq!(reply, "+Background append only file rewriting started\r\n");
    wait_for_rewrite(client);
    assert_eq!(info(client, "aof_last_bgrewrite_status"), "ok");
}

fn wait_for_rewrite(client: &mut Client) {
    eventually("the rewrite", || {
        // Others need the machine more than those who look.
        thread::sleep(Duration::from_millis(1));
        raw(client, "INFO persistence").contains("aof_rewrite_in_progress:0")
    });
}

/// What a server that does not start says.
fn refused(folder: &Folder, more: &[&str]) -> String {
    let flags = [&["--dir", folder.path(), "--appendonly", "yes"], more].concat();
    let error = Server::tollgate(&flags).expect_err("it must not start");
    error.to_string()
}

#[test]
fn data_of_every_kind_outlive_restarts_and_rewrites() {
    let folder = Folder::new();
    let forms = [("yes", "rdb"), ("no", "aof"), ("yes", "rdb")];
    for (round, (preamble, suffix)) in forms.into_iter().enumerate() {
        let server = here(
            &folder,
            &[
                ("aof-use-rdb-preamble", preamble),
                ("appendfsync", "always"),
            ],
        );
        let mut client = server.connect();
        fill(&mut client);
        for command in [
            "HSET fields a 1 b 2",
            "HPEXPIRE fields 100000000 FIELDS 1 a",
        ] {
            client.line(command).unwrap();
        }
        for command in [
            "RL.TAKE fixed FIXED 100 100000000",
            "RL.TAKE log LOG 100 100000000",
            "RL.TAKE gcra GCRA 100 100000000",
        ] {
            assert!(
                raw(&mut client, command).starts_with("*5\r\n:1\r\n"),
                "{command}"
            );
        }
        let before = digest(&mut client);
        drop(client);
        drop(server);
        let server = here(&folder, &[("aof-use-rdb-preamble", preamble)]);
        let mut client = server.connect();
        assert_eq!(digest(&mut client), before);
        assert_eq!(raw(&mut client, "FCALL f 0"), ":7\r\n");
        rewrite(&mut client);
        assert_eq!(folder.files().len(), 2);
        assert!(folder.files()[0].ends_with(suffix), "{:?}", folder.files());
        fill(&mut client);
        let before = digest(&mut client);
        assert_eq!(raw(&mut client, "DEBUG LOADAOF"), "+OK\r\n");
        assert_eq!(digest(&mut client), before);
        for (key, word) in [("fixed", "FIXED"), ("log", "LOG")] {
            let look = format!("RL.TAKE {key} {word} 100 100000000 PEEK");
            let left = format!("*5\r\n:1\r\n:100\r\n:{}\r\n", 98 - round);
            let reply = raw(&mut client, &look);
            assert!(reply.starts_with(&left), "{reply}");
        }
    }
}

/// Commands with words that read like options, what only groups of streams know, and what fails and changes something.
const ODD: &[&[&str]] = &[
    &[
        "SETBIT k 20 1",
        "BITFIELD k OVERFLOW FAIL INCRBY i63 7 4611686018427387904",
    ],
    &["SET k nx", "SET k new IFEQ nx"],
    &["SET k a", "SET k new IFNE XX"],
    &[
        "SET k keepttl PX 900000",
        "SET k new IFEQ keepttl PX 50000000",
    ],
    &[
        "XADD k 1-1 a b",
        "XADD k 2-1 a b",
        "XGROUP CREATE k g 0",
        "XREADGROUP GROUP g c COUNT 1 STREAMS k >",
    ],
    &[
        "XADD k 1-1 a b",
        "XGROUP CREATE k noack 0",
        "XREADGROUP GROUP noack c STREAMS k >",
    ],
    &[
        "XADD k 1-1 a b",
        "XGROUP CREATE k g 0",
        "XREADGROUP GROUP g NOACK STREAMS k >",
    ],
    &[
        "XADD k 1-1 a b",
        "XGROUP CREATE k g 0",
        "XREADGROUP COUNT 9 NOACK GROUP g c STREAMS k >",
    ],
    &[
        "XADD k 1-1 a b",
        "XGROUP CREATE k g 0",
        "XREADGROUP GROUP g c STREAMS k k 0 >",
    ],
    &[
        "XADD k 1-1 a b",
        "XADD k 2-1 a b",
        "XGROUP CREATE k g 0",
        "XREADGROUP GROUP g other COUNT 1 STREAMS k >",
        "XREADGROUP GROUP g c NOACK CLAIM 0 STREAMS k >",
    ],
    &[
        "XADD k 1-1 a b",
        "XGROUP CREATE k g $",
        "XREADGROUP GROUP g c STREAMS k >",
    ],
];

#[test]
fn what_the_file_makes_is_what_was_there() {
    let folder = Folder::new();
    let server = here(&folder, &[]);
    let mut client = server.connect();
    for commands in ODD {
        client.line("FLUSHALL").unwrap();
        for command in *commands {
            let reply = client.line(command).unwrap();
            assert!(!matches!(reply, Value::Error(_)), "{command}: {reply:?}");
        }
        let mut seen = || {
            let looks = [
                "GET k",
                "PEXPIRETIME k",
                "XINFO GROUPS k",
                "XPENDING k g - + 9",
                "XPENDING k noack - + 9",
            ];
            // When an entry was delivered is told as how long ago.
            let shown = |look: &&str| match client.line(look).unwrap() {
                Value::Array(rows) if look.starts_with("XPENDING") => Value::Array(
                    rows.into_iter()
                        .map(|row| match row {
                            Value::Array(mut row) => {
                                row.remove(2);
                                Value::Array(row)
                            }
                            other => other,
                        })
                        .collect(),
                ),
                other => other,
            };
            looks.iter().map(shown).collect::<Vec<_>>()
        };
        let before = seen();
        assert_eq!(raw(&mut server.connect(), "DEBUG LOADAOF"), "+OK\r\n");
        assert_eq!(seen(), before, "{commands:?}");
    }
}

#[test]
fn files_go_both_ways() {
    const NAME: &str = "files_go_both_ways";
    let folder = Folder::new();
    let server = here(&folder, &[("aof-timestamp-enabled", "yes")]);
    let mut client = server.connect();
    fill(&mut client);
    rewrite(&mut client);
    fill(&mut client);
    let ours = digest(&mut client);
    drop(client);
    drop(server);
    if let Some(program) = find("redis-check-aof") {
        let manifest = folder.file("appendonly.aof.manifest");
        let output = Command::new(program).arg(manifest).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && said.contains("are valid"),
            "{said}"
        );
    } else {
        skip(NAME, "redis-check-aof");
    }
    let Some(there) = redis(&folder) else {
        return skip(NAME, "redis-server");
    };
    let mut client = there.connect().unwrap();
    assert_eq!(digest(&mut client), ours);
    fill(&mut client);
    client.line("BGREWRITEAOF").unwrap();
    wait_for_rewrite(&mut client);
    fill(&mut client);
    let theirs = digest(&mut client);
    client.line("CONFIG SET appendfsync always").unwrap();
    client.line("SET last 1").unwrap();
    client.line("DEL last").unwrap();
    drop(there);
    let server = here(&folder, &[]);
    let mut client = server.connect();
    assert_eq!(digest(&mut client), theirs);
    assert_eq!(raw(&mut client, "FCALL f 0"), ":7\r\n");
}

#[test]
fn limiters_are_no_hindrance_to_redis() {
    let folder = Folder::new();
    let server = here(&folder, &[]);
    let mut client = server.connect();
    client.line("SET before 1").unwrap();
    client.line("RL.TAKE limit FIXED 10 100000000").unwrap();
    client.line("SET after 1").unwrap();
    drop(client);
    drop(server);
    let Some(there) = redis(&folder) else {
        return skip("limiters_are_no_hindrance_to_redis", "redis-server");
    };
    let mut client = there.connect().unwrap();
    assert_eq!(
        raw(&mut client, "MGET before after"),
        "*2\r\n$1\r\n1\r\n$1\r\n1\r\n"
    );
    assert_eq!(raw(&mut client, "DBSIZE"), ":2\r\n");
}

/// A file of commands that follows no base.
fn write_file(folder: &Folder, bytes: &[u8]) -> PathBuf {
    fs::create_dir_all(folder.0.join("appendonlydir")).unwrap();
    let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
    fs::write(folder.file("appendonly.aof.manifest"), manifest).unwrap();
    let path = folder.file("appendonly.aof.1.incr.aof");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn what_no_manifest_has_named_is_not_taken_for_the_first_commands() {
    let folder = Folder::new();
    drop(here(&folder, &[]));
    // As a crash leaves it between the files of a rewrite and the manifest that names them.
    let manifest = "file appendonly.aof.1.base.rdb seq 1 type b\n";
    fs::write(folder.file("appendonly.aof.manifest"), manifest).unwrap();
    let stale = commands(&["SELECT 0", "SET stale 1"]);
    fs::write(folder.file("appendonly.aof.1.incr.aof"), stale).unwrap();
    drop(here(&folder, &[]));
    let server = here(&folder, &[]);
    assert_eq!(raw(&mut server.connect(), "EXISTS stale"), ":0\r\n");
}

fn commands(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        write_command(&mut bytes, &words);
    }
    bytes
}

/// Fact 100: half of a transaction is no transaction.
#[test]
fn a_torn_end_is_cut_off_unless_that_is_not_wanted() {
    let whole = commands(&["SELECT 0", "SET a 1", "MULTI", "SET b 1", "EXEC"]);
    let torn = commands(&["MULTI", "SET a 2", "SET c 2", "EXEC"]);
    let transaction = torn.len() - commands(&["EXEC"]).len();
    for end in [
        &torn[..transaction],
        &torn[..transaction - 5],
        &torn[..3],
        b"*3\r\n$3\r\nSET\r\n$9999999",
    ] {
        let folder = Folder::new();
        let path = write_file(&folder, &[&whole[..], end].concat());
        let said = refused(&folder, &["--aof-load-truncated", "no"]);
        assert!(said.contains("Unexpected end of file"), "{said}");
        assert!(said.contains(&format!("offset {}", whole.len())), "{said}");
        let server = here(&folder, &[]);
        let mut client = server.connect();
        assert_eq!(
            raw(&mut client, "MGET a b c"),
            "*3\r\n$1\r\n1\r\n$1\r\n1\r\n$-1\r\n"
        );
        assert_eq!(fs::read(&path).unwrap(), whole);
        // What is added goes behind the cut.
        client.line("SET c 3").unwrap();
        drop(client);
        drop(server);
        let server = here(&folder, &[("aof-load-truncated", "no")]);
        assert_eq!(raw(&mut server.connect(), "GET c"), "$1\r\n3\r\n");
    }
}

#[test]
fn what_is_no_file_of_commands_is_refused_with_its_place() {
    let start = commands(&["SELECT 0", "SET a 1"]);
    let behind = commands(&["SET b 1"]);
    for (middle, expected) in [
        (&b"garbage"[..], "Bad file format"),
        (b"*1\r\n$6\r\nNOSUCH\r\n", "Unknown command 'NOSUCH'"),
        (b"*0\r\n", "Bad file format"),
    ] {
        let folder = Folder::new();
        write_file(&folder, &[&start[..], middle, &behind[..]].concat());
        let said = refused(&folder, &[]);
        assert!(said.contains(expected), "{said}");
        assert!(said.contains("appendonly.aof.1.incr.aof"), "{said}");
        assert!(said.contains(&format!("offset {}", start.len())), "{said}");
    }
    let folder = Folder::new();
    write_file(&folder, &start);
    let manifest = "file appendonly.aof.1.base.rdb seq 1 type b\nfile gone.incr.aof seq 1 type i\n";
    fs::write(folder.file("appendonly.aof.manifest"), manifest).unwrap();
    fs::write(folder.file("appendonly.aof.1.base.rdb"), "REDIS0011").unwrap();
    assert!(refused(&folder, &[]).contains("gone.incr.aof"));
    fs::write(folder.file("gone.incr.aof"), "").unwrap();
    assert!(refused(&folder, &[]).contains("appendonly.aof.1.base.rdb"));
    fs::write(folder.file("appendonly.aof.manifest"), "nonsense\n").unwrap();
    assert!(refused(&folder, &[]).contains("Invalid AOF manifest file format"));
    // A file in the middle must be whole.
    let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\nfile gone.incr.aof seq 2 type i\n";
    fs::write(folder.file("appendonly.aof.manifest"), manifest).unwrap();
    fs::write(
        folder.file("appendonly.aof.1.incr.aof"),
        &start[..start.len() - 1],
    )
    .unwrap();
    assert!(refused(&folder, &[]).contains("not the last file"));
}

#[test]
fn one_file_as_before_redis_7_is_taken_over() {
    for preamble in [false, true] {
        let folder = Folder::new();
        let mut bytes = Vec::new();
        if preamble {
            let there = Local::start(&[("dir", folder.path())]);
            let mut client = there.connect();
            client.line("SET base 1").unwrap();
            client.line("SAVE").unwrap();
            drop(client);
            bytes = fs::read(folder.0.join("dump.rdb")).unwrap();
            fs::remove_file(folder.0.join("dump.rdb")).unwrap();
        }
        bytes.extend(commands(&["SELECT 0", "SET a 1", "INCR a"]));
        // Old files may end torn, too.
        bytes.extend_from_slice(b"*3\r\n$3\r\nSE");
        fs::write(folder.0.join("appendonly.aof"), &bytes).unwrap();
        for _ in 0..2 {
            let server = here(&folder, &[("appendfsync", "always")]);
            let mut client = server.connect();
            assert_eq!(
                raw(&mut client, "EXISTS base"),
                format!(":{}\r\n", u8::from(preamble))
            );
            assert_eq!(raw(&mut client, "GET a"), "$1\r\n2\r\n");
            let expected = "file appendonly.aof seq 1 type b\n\
                            file appendonly.aof.1.incr.aof seq 1 type i\n";
            assert_eq!(folder.manifest(), expected);
            assert!(!folder.0.join("appendonly.aof").exists());
        }
    }
}

#[test]
fn expired_keys_stay_until_the_file_says_that_they_went() {
    let folder = Folder::new();
    write_file(
        &folder,
        &commands(&[
            "SELECT 0",
            "SET old 1 PXAT 1000",
            "INCR old",
            "PERSIST old",
            "SET gone 1 PXAT 1000",
            "HSET hash f 1 g 1",
            "HPEXPIREAT hash 1000 FIELDS 1 f",
        ]),
    );
    let server = here(&folder, &[("appendfsync", "always")]);
    let mut client = server.connect();
    assert_eq!(
        raw(&mut client, "MGET old gone"),
        "*2\r\n$1\r\n2\r\n$-1\r\n"
    );
    assert_eq!(raw(&mut client, "HKEYS hash"), "*1\r\n$1\r\ng\r\n");
    drop(client);
    drop(server);
    let file = fs::read(folder.file("appendonly.aof.1.incr.aof")).unwrap();
    let deleted = commands(&["DEL gone"]);
    assert!(file.windows(deleted.len()).any(|part| part == deleted));
}

#[test]
fn it_can_be_switched_on_and_off() {
    let folder = Folder::new();
    let server = Local::start(&[("dir", folder.path()), ("enable-debug-command", "yes")]);
    let mut client = server.connect();
    client.line("SET a 1").unwrap();
    assert_eq!(info(&mut client, "aof_enabled"), "0");
    assert!(raw(&mut client, "WAITAOF 1 0 0").starts_with("-ERR WAITAOF cannot be used"));
    assert!(raw(&mut client, "DEBUG LOADAOF").starts_with("-ERR Error trying to load"));
    client.line("SET a 1").unwrap();
    for round in 1..=3 {
        assert_eq!(raw(&mut client, "CONFIG SET appendonly yes"), "+OK\r\n");
        assert_eq!(raw(&mut client, "CONFIG SET appendonly yes"), "+OK\r\n");
        assert_eq!(info(&mut client, "aof_enabled"), "1");
        eventually("the first base", || {
            info(&mut client, "aof_pending_rewrite") == "0"
                && info(&mut client, "aof_rewrite_in_progress") == "0"
        });
        assert_eq!(folder.files().len(), 2, "{:?}", folder.files());
        client.line(&format!("SET b {round}")).unwrap();
        assert_eq!(raw(&mut client, "WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
        assert_eq!(raw(&mut client, "DEBUG LOADAOF"), "+OK\r\n");
        assert_eq!(
            raw(&mut client, "MGET a b"),
            format!("*2\r\n$1\r\n1\r\n$1\r\n{round}\r\n")
        );
        assert_eq!(raw(&mut client, "CONFIG SET appendonly no"), "+OK\r\n");
        assert_eq!(info(&mut client, "aof_enabled"), "0");
        client.line(&format!("SET b {round}0")).unwrap();
    }
    // Without a file of commands there is a base alone.
    rewrite(&mut client);
    assert_eq!(folder.files().len(), 1, "{:?}", folder.files());
    assert_eq!(raw(&mut client, "MULTI"), "+OK\r\n");
    client.line("BGREWRITEAOF").unwrap();
    let scheduled = "*1\r\n+Background append only file rewriting scheduled\r\n";
    assert_eq!(raw(&mut client, "EXEC"), scheduled);
    eventually("the rewrite", || {
        info(&mut client, "aof_rewrites") == "5"
            && info(&mut client, "aof_rewrite_in_progress") == "0"
    });
}

#[test]
fn a_snapshot_goes_on_as_the_base() {
    let folder = Folder::new();
    let server = Local::start(&[("dir", folder.path())]);
    let mut client = server.connect();
    client.line("SET a 1").unwrap();
    client.line("SAVE").unwrap();
    drop(client);
    drop(server);
    let server = here(&folder, &[]);
    assert_eq!(raw(&mut server.connect(), "GET a"), "$1\r\n1\r\n");
    drop(server);
    fs::remove_file(folder.0.join("dump.rdb")).unwrap();
    let server = here(&folder, &[]);
    assert_eq!(raw(&mut server.connect(), "GET a"), "$1\r\n1\r\n");
}

#[test]
fn a_file_that_grows_is_made_anew_by_itself() {
    let folder = Folder::new();
    let server = here(
        &folder,
        &[
            ("auto-aof-rewrite-min-size", "2000"),
            ("auto-aof-rewrite-percentage", "100"),
        ],
    );
    let mut client = server.connect();
    for _ in 0..200 {
        client.line("INCR n").unwrap();
    }
    // One that begins before the last command is followed by another.
    eventually("a rewrite", || {
        let size: u64 = info(&mut client, "aof_current_size").parse().unwrap();
        info(&mut client, "aof_rewrites") != "0" && size < 2_000
    });
    wait_for_rewrite(&mut client);
}

/// Commands of several keys, which lie on both sides of what a base has passed.
const MIXED: &[&str] = &[
    "SMOVE s{a} s{b} {c}",
    "SADD s{a} {b} {c} {n}",
    "LMOVE l{a} l{b} LEFT RIGHT",
    "RPUSH l{a} {n}",
    "RENAME l{a} l{b}",
    "COPY l{a} l{b} REPLACE",
    "MSET k{a} {n} k{b} {n}",
    "INCRBY n{a} {n}",
    "EVAL for_i,k_in_ipairs(KEYS)do_redis.call('incr',k)end 3 n{a} n{b} n{c}",
    "SUNIONSTORE s{a} s{b} s{c}",
    "LPOP l{a} 2",
    "HSET h{a} f{b} {n}",
    "XADD x{a} MAXLEN 20 * f {n}",
    "SORT s{a} STORE l{b}",
    "RL.TAKE r{a} FIXED 1000000 100000000",
    "RL.TAKE g{a} LOG 1000 100000000",
    "MULTI",
    "INCRBY n{a} 1",
    "SELECT 1",
    "INCRBY n{b} 1",
    "SELECT 0",
    "EXEC",
    "FLUSHDB",
    "SWAPDB 0 1",
];

#[test]
fn a_base_written_beside_writers_and_what_follows_are_the_data() {
    let folder = Folder::new();
    let server = here(&folder, &[]);
    let mut client = server.connect();
    for number in 0..500 {
        client
            .line(&format!("SET filler{number} {number}"))
            .unwrap();
    }
    let write = |mut client: Client, seed: usize| {
        let mut random = seed;
        let mut next = |bound: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % bound
        };
        for number in 0..300 {
            // The last two seldom, those of a transaction in their order.
            let command = match next(400) {
                0 => 22,
                1 => 23,
                other => other % 17,
            };
            let end = if command == 16 { 22 } else { command + 1 };
            for line in &MIXED[command..end] {
                let line = ["{a}", "{b}", "{c}"]
                    .iter()
                    .fold((*line).to_owned(), |line, word| {
                        line.replace(word, &next(20).to_string())
                    });
                let words = line.replace("{n}", &number.to_string());
                let words: Vec<String> = words
                    .split(' ')
                    .map(|word| match word.contains("_in_") {
                        true => word.replace('_', " "),
                        false => word.to_owned(),
                    })
                    .collect();
                client.call(&words).unwrap();
            }
        }
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (1..=3)
            .map(|seed| {
                let client = server.connect();
                scope.spawn(move || write(client, seed))
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            rewrite(&mut client);
        }
    });
    let before = digest(&mut client);
    assert_eq!(raw(&mut client, "DEBUG LOADAOF"), "+OK\r\n");
    assert_eq!(digest(&mut client), before);
    rewrite(&mut client);
    assert_eq!(raw(&mut client, "DEBUG LOADAOF"), "+OK\r\n");
    assert_eq!(digest(&mut client), before);
}

#[test]
fn replies_that_are_held_back_come_in_order_also_after_a_hang_up() {
    let folder = Folder::new();
    let server = here(&folder, &[("appendfsync", "always")]);
    let mut client = server.connect();
    client.send(b"SET a 1\r\nGET a\r\nINCR a\r\n").unwrap();
    client.stream().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.until_closed().unwrap(), b"+OK\r\n$1\r\n1\r\n:2\r\n");
    let mut client = server.connect();
    client.send(b"INCR a\r\nQUIT\r\nINCR a\r\n").unwrap();
    assert_eq!(client.until_closed().unwrap(), b":3\r\n+OK\r\n");
    // One that waits, behind a write of its own, is answered by another one's.
    let (mut waiting, mut client) = (server.connect(), server.connect());
    waiting
        .send(b"INCR a\r\nBLPOP list 0\r\nINCR a\r\n")
        .unwrap();
    assert_eq!(waiting.frame().unwrap(), b":4\r\n");
    assert_eq!(raw(&mut client, "LPUSH list x"), ":1\r\n");
    assert_eq!(waiting.frame().unwrap(), b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    assert_eq!(waiting.frame().unwrap(), b":5\r\n");
    waiting.send(b"BLPOP list 0.01\r\nINCR a\r\n").unwrap();
    assert_eq!(waiting.frame().unwrap(), b"*-1\r\n");
    assert_eq!(waiting.frame().unwrap(), b":6\r\n");
}

/// A server whose files cannot grow above some kilobytes.
#[cfg(unix)]
fn cramped(folder: &Path, policy: &str) -> std::process::Child {
    let program = tollgate_testkit::process::tollgate_binary().unwrap();
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    Command::new("sh")
        .args(["-c", script])
        .arg(program)
        .args(["serve", "--port", "0", "--unixsocket", "socket"])
        .args(["--appendonly", "yes", "--appendfsync", policy, "--dir", "."])
        .current_dir(folder)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

#[cfg(unix)]
#[test]
fn a_disk_that_takes_no_more_refuses_writes_or_ends_the_server() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    let connect = |folder: &Folder| {
        let mut stream = None;
        eventually("the socket", || {
            stream = UnixStream::connect(folder.0.join("socket")).ok();
            stream.is_some()
        });
        stream.unwrap()
    };
    let ask = |stream: &mut UnixStream, line: &str| {
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut reply = [0; 256];
        let len = stream.read(&mut reply).unwrap();
        String::from_utf8_lossy(&reply[..len]).into_owned()
    };
    let large = format!("SET large {}", "x".repeat(20_000));
    let folder = Folder::new();
    let mut server = cramped(&folder.0, "everysec");
    let mut client = connect(&folder);
    assert_eq!(ask(&mut client, "SET small 1"), "+OK\r\n");
    assert_eq!(ask(&mut client, &large), "+OK\r\n");
    eventually("a refusal", || {
        ask(&mut client, "SET small 2").starts_with("-MISCONF Errors writing to the AOF file: ")
    });
    assert!(ask(&mut client, "PING").starts_with("-MISCONF"));
    assert_eq!(ask(&mut client, "STRLEN large"), ":20000\r\n");
    server.kill().unwrap();
    server.wait().unwrap();
    let folder = Folder::new();
    let mut server = cramped(&folder.0, "always");
    let mut client = connect(&folder);
    assert_eq!(ask(&mut client, "SET small 1"), "+OK\r\n");
    assert_eq!(ask(&mut client, &large), "");
    assert_eq!(server.wait().unwrap().code(), Some(1));
}
