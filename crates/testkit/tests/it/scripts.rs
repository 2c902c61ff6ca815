//! Script runs on a store of a few lines.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use tollgate_testkit::script::{Executor, Peer, Received, Release, Report, Script, record, run};
use tollgate_wire::resp::{Limits, Progress, Protocol, ReplyBuf, RequestParser};

/// GET, SET, KEYS and TTL of a store whose clock the scripts move.
#[derive(Default)]
struct Store {
    values: HashMap<Vec<u8>, Vec<u8>>,
    now: Duration,
    conns: Vec<Conn>,
    poses_as_redis: bool,
}

#[derive(Default)]
struct Conn {
    input: Vec<u8>,
    output: Vec<u8>,
    protocol: Protocol,
    closed: bool,
}

impl Store {
    fn command(&mut self, conn: usize, args: &[Vec<u8>]) {
        let mut out = ReplyBuf::new(self.conns[conn].protocol);
        match args[0].as_slice() {
            b"HELLO" => {
                self.conns[conn].protocol = Protocol::Resp3;
                out.map(0);
            }
            b"FLUSHALL" => {
                self.values.clear();
                out.ok();
            }
            b"SET" => {
                self.values.insert(args[1].clone(), args[2].clone());
                out.ok();
            }
            b"GET" => match self.values.get(&args[1]) {
                Some(value) => out.bulk(value),
                None => out.null(),
            },
            b"KEYS" => {
                // Always in an order of its own.
                let mut keys: Vec<_> = self.values.keys().collect();
                keys.sort();
                out.array(keys.len());
                keys.iter().rev().for_each(|key| out.bulk(key));
            }
            b"CLOCK" => out.int(self.now.as_millis() as i64),
            b"QUIT" => self.conns[conn].closed = true,
            _ => out.ok(),
        }
        self.conns[conn].output.extend_from_slice(out.bytes());
    }
}

impl Executor for Store {
    fn peer(&self) -> Peer {
        if self.poses_as_redis {
            Peer::Redis
        } else {
            Peer::Tollgate
        }
    }

    fn connect(&mut self) -> io::Result<usize> {
        self.conns.push(Conn::default());
        Ok(self.conns.len() - 1)
    }

    fn close(&mut self, conn: usize) {
        self.conns[conn].closed = true;
    }

    fn send(&mut self, conn: usize, bytes: &[u8]) -> io::Result<()> {
        self.conns[conn].input.extend_from_slice(bytes);
        let mut parser = RequestParser::new();
        while let Ok(Progress::Ready { consumed }) =
            parser.parse(&self.conns[conn].input, &Limits::authenticated())
        {
            let args: Vec<_> = parser
                .args(&self.conns[conn].input)
                .iter()
                .map(|arg| arg.to_vec())
                .collect();
            self.conns[conn].input.drain(..consumed);
            self.command(conn, &args);
        }
        Ok(())
    }

    fn receive(&mut self, conn: usize, _: Duration) -> io::Result<Received> {
        let conn = &mut self.conns[conn];
        match (conn.output.is_empty(), conn.closed) {
            (false, _) => Ok(Received::Bytes(std::mem::take(&mut conn.output))),
            (true, true) => Ok(Received::Closed),
            (true, false) => Ok(Received::Quiet),
        }
    }

    fn advance(&mut self, time: Duration) {
        self.now += time;
    }
}

fn report(text: &str) -> Report {
    let script = Script::parse(Path::new("a.resp"), text).expect("the script parses");
    run(&script, &mut Store::default())
}

fn failures(text: &str) -> Vec<usize> {
    report(text)
        .failures
        .iter()
        .map(|failure| failure.line)
        .collect()
}

#[test]
fn right_replies_pass() {
    let text = "
== a
> SET k ${x*6}
< +OK
> GET k
< $\"xxxxxx\"
> SET a 5
< +OK
@sort
> KEYS
< *2
<   $\"a\"
<   $\"k\"
> GET a
< $\"5\"
@let five
> SET b ${five}${five}
< +OK
> GET b
<~ $\"{50..60}\"
@advance 20
> CLOCK
< :20
== b (resp3)
>> GET a
> GET k
< _
< _
@conn other
raw \"GET a\\r\\nQUIT\\r\\n\"
< _
@closed
";
    assert_eq!(failures(text), [0; 0]);
}

#[test]
fn wrong_replies_fail_where_they_stand() {
    assert_eq!(
        failures("== a\n> SET k v\n< +OK\n> GET k\n< $\"w\"\n> GET k\n< $-1\n"),
        [4, 6]
    );
    assert_eq!(
        failures("== a\n> KEYS\n< *0\n< +OK\n"),
        [2],
        "a line too many"
    );
    assert_eq!(
        failures("== a\n> SET k v\n< +OK\n> KEYS\n< *1\n"),
        [4],
        "a line too few"
    );
    assert_eq!(
        failures("== a\n> SET k v\n"),
        [2],
        "a reply that nobody wrote down"
    );
    assert_eq!(
        failures("== a\n> SET k 5\n< +OK\n> GET k\n<~ $\"{6..9}\"\n"),
        [4]
    );
    assert_eq!(
        failures("== a\n@closed\n"),
        [2],
        "the connection stays open"
    );
    assert_eq!(
        failures(
            "== a\n> SET k v\n< +OK\nraw \"GET k\\r\\nGET k\\r\\nQUIT\\r\\n\"\n< $\"v\"\n@closed\n"
        ),
        [6],
        "a reply too many"
    );
}

#[test]
fn sections_do_not_see_each_other() {
    assert_eq!(
        failures("== a\n> SET k v\n< +OK\n== b\n> GET k\n< $-1\n"),
        [0; 0]
    );
}

#[test]
fn sections_for_another_peer_are_skipped_and_said_to_be() {
    let report = report("== a\n@only redis: it is theirs\n> SET k v\n< -ERR\n");
    assert_eq!((report.commands, report.failures.len()), (0, 0));
    assert_eq!(
        report.skipped,
        [("a".to_owned(), "it is theirs".to_owned())]
    );
}

#[test]
fn what_is_newer_than_the_reference_is_asked_of_servers_that_have_it() {
    let text = "== a\n> GET k\n== b\n@since redis 7.4, valkey 9.0\n> GET k\n";
    let script = Script::parse(Path::new("a.resp"), text).expect("the script parses");
    let newer = |text| Peer::Newer(Release::parse(text).expect("a release"));
    for (peer, expected) in [
        (Peer::Redis, [true, false]),
        (Peer::Tollgate, [true, true]),
        (newer("redis 7.2"), [false, false]),
        (newer("redis 7.4"), [false, true]),
        (newer("redis 10.0"), [false, true]),
        (newer("valkey 8.1"), [false, false]),
        (newer("valkey 9.1.2"), [false, true]),
    ] {
        let sections = script.sections.iter();
        let runs: Vec<bool> = sections
            .map(|section| section.left_out_on(peer).is_none())
            .collect();
        assert_eq!(runs, expected, "{peer}");
    }
}

fn recorded(text: &str, poses_as_redis: bool) -> String {
    let mut store = Store {
        poses_as_redis,
        ..Store::default()
    };
    record(Path::new("a.resp"), text, &mut store).expect("the script can be recorded")
}

#[test]
fn each_peer_says_only_what_it_is_asked() {
    let text = "== a\n> GET k\n== b\n@only tollgate: ours\n> GET k\n";
    assert_eq!(
        recorded(text, true),
        "== a\n> GET k\n< $-1\n== b\n@only tollgate: ours\n> GET k\n"
    );
    assert_eq!(
        recorded(text, false),
        "== a\n> GET k\n== b\n@only tollgate: ours\n> GET k\n< $-1\n"
    );
}

#[test]
fn a_recording_keeps_what_fits_and_replaces_what_does_not() {
    let text = "# about\n== a\n> SET k 5\n# why\n> GET k\n<~ $\"{1..9}\"\n> GET k\n< $-1\n< +more\nraw \"QUIT\\r\\n\"\n";
    let once = recorded(text, true);
    let expected = "# about\n== a\n> SET k 5\n< +OK\n# why\n> GET k\n<~ $\"{1..9}\"\n> GET k\n< $\"5\"\nraw \"QUIT\\r\\n\"\n@closed\n";
    assert_eq!(once, expected);
    assert_eq!(failures(&once), [0; 0]);
    assert_eq!(recorded(&once, true), once);
}

#[test]
fn mistakes_in_a_script_name_their_line() {
    for (text, line) in [
        ("> GET k\n", 1),
        ("== a\n< +OK\n", 2),
        ("== a\nGET k\n", 2),
        ("== a\n@advance 5000\n", 2),
        ("== a\n== a\n", 2),
        ("== a\n> GET k\n< +OK\n@only redis: x\n", 4),
        ("== a\n@since redis\n", 2),
        ("== a\n@since redis 7.4, keydb 6.0\n", 2),
        ("== a\n> GET k\n< +OK\n@since redis 7.4\n", 4),
    ] {
        let error = Script::parse(Path::new("a.resp"), text)
            .expect_err("not a script")
            .to_string();
        assert!(error.starts_with(&format!("a.resp:{line}: ")), "{error}");
    }
}
