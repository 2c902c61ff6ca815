//! What the flags of scripts decide: in every state of the server in which something is refused, by each command that runs
//! a script, inside and outside of transactions. Every reply is compared with redis-server's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_testkit::client::Received;
use tollgate_testkit::process::temp_dir;
use tollgate_testkit::{Client, PATIENCE, Server, eventually, peers};
use tollgate_wire::resp::write_command;

use crate::harness::{Local, info};

type Words = Vec<Vec<u8>>;

/// What scripts say of themselves; `None`: nothing, as before there were flags.
const FLAGS: &[Option<&str>] = &[
    None,
    Some(""),
    Some("no-writes"),
    Some("allow-oom"),
    Some("allow-stale"),
    Some("no-writes,allow-stale"),
    Some("allow-oom,allow-stale"),
    Some("no-cluster,allow-cross-slot-keys"),
];

/// One of [`BODIES`].
const SETS: &str = "return redis.call('SET','k','v')";

/// What scripts do.
const BODIES: &[&str] = &[
    SETS,
    "return 1",
    "return redis.call('GET','k')",
    "return redis.pcall('SET','k','v')",
    "return redis.call('DEL','none')",
    "redis.call('DEL','none') return redis.call('SET','k','v')",
    "redis.pcall('SET','k','v') return redis.pcall('DEL','none')",
    "return redis.call('PUBLISH','c','m')",
    "return redis.call('PING')",
];

/// Commands that run no script, for what stands beside one.
const PLAIN: &[&str] = &[
    "PING",
    "GET k",
    "SET k v",
    "DEL none",
    "PUBLISH c m",
    "INFO nothing",
    "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
    "EVALSHA short 0",
    "EVAL_RO return 0",
    "FCALL nothing 0",
    "FCALL_RO nothing 0",
    "FCALL late 0",
    "FUNCTION DELETE nosuch",
    "FUNCTION STATS",
    "SCRIPT EXISTS x",
    "MULTI",
    "WATCH k",
    "UNWATCH",
    "SUBSCRIBE c",
    "EVAL",
    "FCALL",
    "SAVE",
    "NOSUCH",
];

/// Settings (or roles) that make the server refuse something, each with what ends it. `SAVES`: a snapshot has failed.
const OOM: (&str, &str) = ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0");
const FEW: (&str, &str) = (
    "CONFIG SET min-replicas-to-write 1",
    "CONFIG SET min-replicas-to-write 0",
);
const UNSAVED: (&str, &str) = ("CONFIG SET save 3600_1000000", "CONFIG SET save _");
const REPLICA: (&str, &str) = ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE");
const STALE: (&str, &str) = (
    "CONFIG SET replica-serve-stale-data no",
    "CONFIG SET replica-serve-stale-data yes",
);
const WRITABLE: (&str, &str) = (
    "CONFIG SET replica-read-only no",
    "CONFIG SET replica-read-only yes",
);

const STATES: &[&[(&str, &str)]] = &[
    &[],
    &[OOM],
    &[FEW],
    &[UNSAVED],
    &[REPLICA],
    &[REPLICA, WRITABLE],
    &[REPLICA, STALE],
    &[REPLICA, STALE, WRITABLE],
    &[OOM, FEW],
    &[OOM, UNSAVED],
    &[UNSAVED, FEW],
    &[OOM, REPLICA],
    &[OOM, REPLICA, STALE, WRITABLE],
    &[UNSAVED, REPLICA],
    &[UNSAVED, REPLICA, STALE],
    &[OOM, FEW, UNSAVED, REPLICA, STALE],
];

fn words(line: &str) -> Words {
    let word = |word: &str| word.replace('_', " ").trim().as_bytes().to_vec();
    // Names of commands keep what stands for a space elsewhere.
    let mut words: Words = line.split(' ').map(word).collect();
    let name = line.split(' ').next().unwrap_or_default();
    words[0] = name.as_bytes().to_vec();
    words
}

fn script(flags: Option<&str>, body: &str) -> String {
    match flags {
        None => body.to_owned(),
        Some(flags) => format!("#!lua flags={flags}\n{body}"),
    }
}

/// The digest by which EVALSHA calls it.
fn digest(text: &str) -> String {
    let sha = tollgate_engine::sha1(text.as_bytes());
    sha.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name of the function with these flags and this body.
fn function(flags: usize, body: usize) -> String {
    format!("f{flags}{body}")
}

/// One library with a function for each of [`FLAGS`] and [`BODIES`]; `late` has the flags of the last argument.
fn library(late: &str) -> String {
    let mut code = "#!lua name=all\n".to_owned();
    let mut add = |name: &str, flags: &str, body: &str| {
        let quoted: Vec<String> = flags
            .split(',')
            .filter(|flag| !flag.is_empty())
            .map(|flag| format!("'{flag}'"))
            .collect();
        code += &format!(
            "redis.register_function{{function_name='{name}',callback=function(keys,args) {body} end,flags={{{}}}}}\n",
            quoted.join(",")
        );
    };
    for (at, flags) in FLAGS.iter().enumerate() {
        for (body, text) in BODIES.iter().enumerate() {
            add(&function(at, body), flags.unwrap_or(""), text);
        }
    }
    add("late", late, SETS);
    code
}

/// Commands that are tried; those that run scripts, with the first `bodies` of [`BODIES`].
fn forms(bodies: usize) -> Vec<Words> {
    let mut forms: Vec<Words> = PLAIN.iter().map(|line| words(line)).collect();
    let mut add = |words: &[&str]| {
        let words = words.iter().map(|word| word.as_bytes().to_vec());
        forms.push(words.collect());
    };
    for (at, flags) in FLAGS.iter().enumerate() {
        for (number, body) in BODIES.iter().take(bodies).enumerate() {
            let text = script(*flags, body);
            let sha = digest(&text);
            let name = function(at, number);
            add(&["EVAL", &text, "1", "k"]);
            add(&["EVAL_RO", &text, "1", "k"]);
            add(&["EVALSHA", &sha, "1", "k"]);
            add(&["EVALSHA_RO", &sha, "1", "k"]);
            if flags.is_some() {
                add(&["FCALL", &name, "1", "k"]);
                add(&["FCALL_RO", &name, "1", "k"]);
            }
        }
    }
    for text in [
        "#!lua flags=no-writes",
        "#!lua flags=nosuch\nreturn 1",
        "#!js\nreturn 1",
        "#!lua flags=no-writes\nreturn (",
        "#!lua\nreturn (",
        "return (",
    ] {
        add(&["EVAL", text, "0"]);
        add(&["EVAL_RO", text, "0"]);
    }
    add(&["EVAL", "#!lua flags=no-writes\nreturn 1", "x"]);
    add(&["EVAL", "#!lua\nreturn 1", "2", "k"]);
    forms
}

/// One of the two servers that are compared.
struct Side {
    addr: SocketAddr,
    admin: Client,
    /// Connections that queue commands, one each.
    queueing: Vec<Client>,
}

impl Side {
    fn new(addr: SocketAddr) -> Side {
        let mut side = Side {
            addr,
            admin: Client::connect(addr).unwrap(),
            queueing: Vec::new(),
        };
        side.load(&library("no-writes"));
        for flags in FLAGS {
            for body in BODIES {
                let text = script(*flags, body);
                side.ask(&[b"SCRIPT", b"LOAD", text.as_bytes()]);
            }
        }
        side.fail_to_save();
        side
    }

    fn ask(&mut self, words: &[&[u8]]) -> String {
        let mut bytes = Vec::new();
        write_command(&mut bytes, words);
        self.admin.send(&bytes).unwrap();
        String::from_utf8_lossy(&self.admin.frame().unwrap()).into_owned()
    }

    fn load(&mut self, library: &str) {
        let reply = self.ask(&[b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()]);
        assert_eq!(reply, "$3\r\nall\r\n");
    }

    /// Has a snapshot fail, which matters only while there are save points.
    fn fail_to_save(&mut self) {
        let folder: PathBuf = temp_dir().unwrap();
        let name = folder.to_str().unwrap().as_bytes();
        assert_eq!(self.ask(&[b"CONFIG", b"SET", b"dir", name]), "+OK\r\n");
        std::fs::remove_dir(&folder).unwrap();
        // Redis-server may be at one.
        eventually("a snapshot fails", || {
            self.ask(&[b"BGSAVE"]);
            info(&mut self.admin, "rdb_last_bgsave_status") == "err"
        });
        eventually("it has ended", || {
            info(&mut self.admin, "rdb_bgsave_in_progress") == "0"
        });
        self.set("CONFIG SET save _");
    }

    fn set(&mut self, line: &str) {
        let words = words(line);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        assert!(self.ask(&words).starts_with("+OK"), "{line}");
    }

    fn enter(&mut self, state: &[(&str, &str)]) {
        state.iter().for_each(|(enter, _)| self.set(enter));
    }

    fn leave(&mut self, state: &[(&str, &str)]) {
        state.iter().rev().for_each(|(_, leave)| self.set(leave));
    }
}

/// Sends all that is in `bytes` and gives its `count` replies.
fn replies(client: &mut Client, bytes: &[u8], count: usize) -> Vec<String> {
    client.send(bytes).unwrap();
    let reply = |_| String::from_utf8_lossy(&client.frame().unwrap()).into_owned();
    (0..count).map(reply).collect()
}

fn put(bytes: &mut Vec<u8>, words: &[impl AsRef<[u8]>]) {
    let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    write_command(bytes, &words);
}

fn shown(form: &Words) -> String {
    let words = form.iter().map(|word| word.escape_ascii().to_string());
    words.collect::<Vec<_>>().join(" ")
}

/// The state's name, the case's, and the replies.
type Told = (String, Vec<String>);

/// Tries every form by itself and in a transaction, all in one state.
fn within(side: &mut Side, forms: &[Words], told: &mut Vec<Told>) {
    /// Forms that are sent together.
    const TOGETHER: usize = 16;
    let mut client = Client::connect(side.addr).unwrap();
    let [multi, exec, reset] = ["MULTI", "EXEC", "RESET"].map(words);
    for forms in forms.chunks(TOGETHER) {
        let sequences = |form| {
            let alone = vec![form, &reset];
            [alone, vec![&multi, form, &exec, &reset]]
        };
        let sequences: Vec<Vec<&Words>> = forms.iter().flat_map(sequences).collect();
        let mut bytes = Vec::new();
        sequences
            .iter()
            .flatten()
            .for_each(|words| put(&mut bytes, words));
        client.send(&bytes).unwrap();
        for sequence in sequences {
            let names: Vec<String> = sequence.iter().map(|words| shown(words)).collect();
            told.push((names.join(", "), replies(&mut client, b"", sequence.len())));
        }
    }
}

/// Queues every form, enters the state, and runs the transactions. `spoilt`: a command that does not exist comes before.
fn queued_before(
    side: &mut Side,
    state: &[(&str, &str)],
    forms: &[Words],
    spoilt: bool,
    told: &mut Vec<Told>,
) {
    side.load(&library("no-writes"));
    while side.queueing.len() < forms.len() {
        side.queueing.push(Client::connect(side.addr).unwrap());
    }
    let mut queueing = std::mem::take(&mut side.queueing);
    for (client, form) in queueing.iter_mut().zip(forms) {
        let mut bytes = Vec::new();
        put(&mut bytes, &["MULTI"]);
        put(&mut bytes, form);
        if spoilt {
            put(&mut bytes, &["NOSUCH"]);
        }
        replies(client, &bytes, 2 + usize::from(spoilt));
    }
    // What was queued has changed meanwhile.
    side.load(&library(""));
    side.enter(state);
    for (client, form) in queueing.iter_mut().zip(forms) {
        let mut bytes = Vec::new();
        put(&mut bytes, &["EXEC"]);
        put(&mut bytes, &["RESET"]);
        let name = format!("{}, later EXEC ({spoilt})", shown(form));
        told.push((name, replies(client, &bytes, 2)));
    }
    side.leave(state);
    side.queueing = queueing;
}

fn all(side: &mut Side, state: &[(&str, &str)]) -> Vec<Told> {
    let mut told = Vec::new();
    side.set("SET k v");
    side.load(&library("no-writes"));
    side.enter(state);
    within(side, &forms(BODIES.len()), &mut told);
    side.leave(state);
    // What they do has no part in it.
    queued_before(side, state, &forms(1), false, &mut told);
    queued_before(side, state, &forms(1), true, &mut told);
    told
}

#[test]
fn scripts_are_judged_by_their_flags() {
    let Some(redis) = Server::redis(&["--enable-protected-configs", "yes"]).unwrap() else {
        return peers::skip("scripts_are_judged_by_their_flags", "redis-server");
    };
    let server = Local::start(&[("enable-protected-configs", "yes")]);
    let (mut ours, mut theirs) = (Side::new(server.addr), Side::new(redis.addr()));
    let (mut cases, mut wrong) = (0, Vec::new());
    for state in STATES {
        let (own, reference) = (all(&mut ours, state), all(&mut theirs, state));
        let name: Vec<&str> = state.iter().map(|(enter, _)| *enter).collect();
        for ((case, own), (_, reference)) in own.iter().zip(&reference) {
            cases += 1;
            if own != reference {
                wrong.push(format!("{name:?}: {case}\n  {own:?}\n  {reference:?}"));
            }
        }
    }
    let count = wrong.len();
    assert!(
        wrong.is_empty(),
        "{count} of {cases}:\n{}",
        wrong.join("\n")
    );
}

/// Whether a command that was sent on `client` waits, instead of being answered: then the server says that somebody does.
fn waits(client: &mut Client, admin: &mut Client, told: &mut Vec<u8>) -> bool {
    let mut waits = false;
    eventually("it is answered, or waits", || {
        if let Received::Bytes(bytes) = client.receive(Duration::from_millis(1)).unwrap() {
            told.extend_from_slice(&bytes);
        }
        waits = info(admin, "blocked_clients") == "1";
        waits || !told.is_empty()
    });
    waits
}

/// Each form during a pause of writes, and as a queued command, and as one that EXEC runs.
fn paused(side: &mut Side, forms: &[Words]) -> Vec<(String, bool, String)> {
    let mut told = Vec::new();
    for form in forms {
        for (before, during) in [
            (vec![], form.clone()),
            (vec![words("MULTI")], form.clone()),
            (vec![words("MULTI"), form.clone()], words("EXEC")),
        ] {
            let mut client = Client::connect(side.addr).unwrap();
            let mut bytes = Vec::new();
            before.iter().for_each(|words| put(&mut bytes, words));
            replies(&mut client, &bytes, before.len());
            side.set("CLIENT PAUSE 1000000 WRITE");
            let mut bytes = Vec::new();
            put(&mut bytes, &during);
            client.send(&bytes).unwrap();
            let mut reply = Vec::new();
            let waited = waits(&mut client, &mut side.admin, &mut reply);
            side.set("CLIENT UNPAUSE");
            if reply.is_empty()
                && let Received::Bytes(bytes) = client.receive(PATIENCE).unwrap()
            {
                reply = bytes;
            }
            let name = format!("{} after {} others", shown(form), before.len());
            told.push((name, waited, String::from_utf8_lossy(&reply).into_owned()));
        }
    }
    told
}

#[test]
fn a_pause_of_writes_lets_those_go_on_that_say_they_do_not_write() {
    let Some(redis) = Server::redis(&["--enable-protected-configs", "yes"]).unwrap() else {
        return peers::skip(
            "a_pause_of_writes_lets_those_go_on_that_say_they_do_not_write",
            "redis-server",
        );
    };
    let server = Local::start(&[("enable-protected-configs", "yes")]);
    let (mut ours, mut theirs) = (Side::new(server.addr), Side::new(redis.addr()));
    let forms = forms(1);
    let wrong: Vec<_> = paused(&mut ours, &forms)
        .into_iter()
        .zip(paused(&mut theirs, &forms))
        .filter(|(own, reference)| own != reference)
        .collect();
    assert!(wrong.is_empty(), "{} differ: {wrong:#?}", wrong.len());
}
