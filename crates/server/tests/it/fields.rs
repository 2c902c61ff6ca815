//! Fields of hashes that expire while nobody asks for them.

use tollgate_testkit::Client;

use crate::aof::Folder;
use crate::harness::{Local, eventually, info, raw};
use crate::replication::{attach, wait_for_link};

/// The event and the key of the next message.
fn told(listener: &mut Client) -> (String, String) {
    let message = listener.frame().expect("a message");
    let message = String::from_utf8_lossy(&message).into_owned();
    let parts: Vec<&str> = message.split("\r\n").collect();
    let event = parts[4].trim_start_matches("__keyevent@0__:");
    (event.to_owned(), parts[6].to_owned())
}

#[test]
fn expired_fields_go_by_themselves_and_are_told_of() {
    let server = Local::start(&[("notify-keyspace-events", "Ehg")]);
    let (mut writer, mut listener) = (server.connect(), server.connect());
    raw(&mut listener, "SUBSCRIBE __keyevent@0__:hexpired");
    raw(&mut listener, "SUBSCRIBE __keyevent@0__:del");
    raw(&mut writer, "HSET stays a 1 b 2");
    raw(&mut writer, "HPEXPIRE stays 1 FIELDS 1 a");
    let event = |event: &str, key: &str| (event.to_owned(), key.to_owned());
    assert_eq!(told(&mut listener), event("hexpired", "stays"));
    raw(&mut writer, "HSET goes a 1");
    raw(&mut writer, "HPEXPIRE goes 1 FIELDS 1 a");
    assert_eq!(told(&mut listener), event("hexpired", "goes"));
    assert_eq!(told(&mut listener), event("del", "goes"));
    assert_eq!(raw(&mut writer, "DBSIZE"), ":1\r\n");
}

#[test]
fn many_hashes_are_emptied() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    for i in 0..500 {
        raw(&mut client, &format!("HSET h{i} a 1 b 2 c 3"));
        raw(&mut client, &format!("HPEXPIRE h{i} 20 FIELDS 3 a b c"));
    }
    raw(&mut client, "HSET kept a 1");
    eventually("the emptied hashes are gone", || {
        raw(&mut client, "DBSIZE") == ":1\r\n"
    });
    assert_eq!(info(&mut client, "expired_subkeys"), "1500");
}

/// What a replica is told of fields that expire does to its data what the commands did to the master's.
#[test]
fn replicas_have_the_same_fields_and_times() {
    let (master, replica) = (Local::start(&[]), Local::start(&[]));
    let (mut here, mut there) = (master.connect(), replica.connect());
    raw(&mut here, "HSET before a 1 b 2");
    raw(&mut here, "HEXPIRE before 1000 FIELDS 1 a");
    attach(&mut there, master.addr);
    wait_for_link(&mut there);
    let commands = [
        "HSETEX h EX 1000 FIELDS 3 a 1 b 2 c 3",
        "HSETEX h KEEPTTL FIELDS 2 a 4 d 5",
        "HEXPIRE h 2000 GT FIELDS 3 b d x",
        "HPEXPIREAT h 3000000000000 NX FIELDS 2 a d",
        "HINCRBYFLOAT h c 1.5",
        "HINCRBY h b 1",
        "HGETEX h PERSIST FIELDS 1 b",
        "HEXPIRE h 0 FIELDS 1 a",
        "HGETEX before PX 500000 FIELDS 2 a b",
        "HPERSIST before FIELDS 1 a",
    ];
    raw(&mut here, "MULTI");
    for command in commands.iter().chain(["EXEC"].iter()) {
        assert!(!raw(&mut here, command).starts_with('-'), "{command}");
    }
    for command in commands {
        raw(&mut here, &command.replace(" h ", " single "));
    }
    assert_eq!(raw(&mut here, "WAIT 1 60000"), ":1\r\n");
    for key in ["before", "h", "single"] {
        for question in [
            "HMGET key a b c d",
            "HPEXPIRETIME key FIELDS 4 a b c d",
            "HLEN key",
        ] {
            let question = question.replace("key", key);
            assert_eq!(
                raw(&mut there, &question),
                raw(&mut here, &question),
                "{question}"
            );
        }
    }
}

/// What producers have sent is known to replicas, and after restarts.
#[test]
fn ids_of_producers_are_known_everywhere() {
    let folder = Folder::new();
    // However long the test takes.
    let lasting = ("stream-idmp-duration", "86400");
    let settings = [("dir", folder.path()), ("appendonly", "yes"), lasting];
    let (master, replica) = (Local::start(&settings), Local::start(&[lasting]));
    let (mut here, mut there) = (master.connect(), replica.connect());
    let before = raw(&mut here, "XADD before IDMP p 1 * f v");
    attach(&mut there, master.addr);
    wait_for_link(&mut there);
    let single = raw(&mut here, "XADD s IDMP p 1 * f v");
    let automatic = raw(&mut here, "XADD s MAXLEN ~ 5 IDMPAUTO p * a 1 b 2");
    let named = raw(&mut here, "XADD s IDMP MAXLEN IDMP * f v");
    raw(&mut here, "XADD gone IDMP p 1 MAXLEN 0 * f v");
    raw(&mut here, "XADD deleted IDMP p 1 MAXLEN 5 DELREF * f v");
    raw(&mut here, "XADD set 1-1 f v");
    raw(&mut here, "XCFGSET set IDMP-DURATION 7 IDMP-MAXSIZE 3");
    raw(&mut here, "MULTI");
    raw(&mut here, "XADD m IDMP p 1 * f v");
    raw(&mut here, "XADD m IDMP p 1 * f v");
    raw(&mut here, "EXEC");
    assert_eq!(raw(&mut here, "WAIT 1 60000"), ":1\r\n");
    let described = |client: &mut Client| {
        let streams = ["before", "s", "gone", "deleted", "set", "m"];
        let streams = streams.map(|key| raw(client, &format!("XINFO STREAM {key} FULL")));
        // How often a message was sent again, the last of these lines, is counted where it came.
        streams.map(|text| {
            let (head, tail) = text.split_once("iids-duplicates").expect("the line");
            let (_, tail) = tail.split_once("entries").expect("the line");
            format!("{head}{tail}")
        })
    };
    let present = described(&mut here);
    assert_eq!(described(&mut there), present);
    let repeated = |client: &mut Client| {
        assert_eq!(raw(client, "XADD before IDMP p 1 * f v"), before);
        assert_eq!(raw(client, "XADD s IDMP p 1 * f v"), single);
        assert_eq!(raw(client, "XADD s IDMPAUTO p * b 2 a 1"), automatic);
        assert_eq!(raw(client, "XADD s IDMP MAXLEN IDMP * f v"), named);
        assert_eq!(raw(client, "XLEN s"), ":3\r\n");
    };
    repeated(&mut here);
    raw(&mut there, "REPLICAOF NO ONE");
    repeated(&mut there);
    drop((here, master));
    let again = Local::start(&settings);
    let mut here = again.connect();
    assert_eq!(described(&mut here), present);
    repeated(&mut here);
    raw(&mut here, "BGREWRITEAOF");
    eventually("the new base", || {
        info(&mut here, "aof_rewrite_in_progress") == "0" && info(&mut here, "aof_rewrites") != "0"
    });
    drop((here, again));
    let last = Local::start(&settings);
    let mut here = last.connect();
    assert_eq!(described(&mut here), present);
    repeated(&mut here);
}

/// Replicas of Valkey say so, and are sent hashes whose fields expire in the form that they read.
#[test]
fn replicas_of_valkey_are_sent_its_form() {
    let local = Local::start(&[]);
    let mut client = local.connect();
    raw(&mut client, "HSET h a 1 b 2");
    raw(&mut client, "HEXPIRE h 1000 FIELDS 1 a");
    for (version, magic) in [("8.1.1", "REDIS0010"), ("9.0.0", "VALKEY080")] {
        let mut replica = local.connect();
        raw(&mut replica, "REPLCONF rdb-only 1");
        let said = raw(&mut replica, &format!("REPLCONF version {version}"));
        assert_eq!(said, "+OK\r\n");
        replica.send(b"SYNC\r\n").expect("a connection");
        let sent = replica.until_closed().expect("the data");
        let start = sent.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
        assert!(sent[start..].starts_with(magic.as_bytes()), "{version}");
    }
    let said = raw(&mut client, "REPLCONF version nine");
    assert_eq!(said, "-ERR Unrecognized version format: nine\r\n");
}
