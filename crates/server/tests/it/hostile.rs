//! Clients that ask for too much: each is answered in bounded time and memory, and the server serves on.

use crate::harness::{Local, eventually, info, raw};
use tollgate_testkit::{Client, Server};

fn words(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    tollgate_wire::resp::write_command(&mut bytes, words);
    bytes
}

fn frame(client: &mut Client) -> String {
    String::from_utf8_lossy(&client.frame().unwrap()).into_owned()
}

#[test]
fn a_value_of_512_mib_is_stored_and_one_byte_more_is_not() {
    const LARGEST: usize = 512 << 20;
    const PIECE: usize = 16 << 20;
    let server = Local::start(&[]);
    let mut client = server.connect();
    client
        .send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${LARGEST}\r\n").as_bytes())
        .unwrap();
    let piece = vec![b'x'; PIECE];
    for _ in 0..LARGEST / PIECE {
        client.send(&piece).unwrap();
    }
    client.send(b"\r\n").unwrap();
    assert_eq!(frame(&mut client), "+OK\r\n");
    assert_eq!(raw(&mut client, "STRLEN k"), ":536870912\r\n");
    let error = raw(&mut client, "APPEND k y");
    assert!(
        error.starts_with("-ERR string exceeds maximum allowed size"),
        "{error}"
    );
    let error = raw(&mut client, "SETRANGE k 536870912 y");
    assert!(
        error.starts_with("-ERR string exceeds maximum allowed size"),
        "{error}"
    );
}

#[test]
fn the_longest_argument_follows_its_setting() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    assert_eq!(
        raw(&mut client, "CONFIG SET proto-max-bulk-len 1mb"),
        "+OK\r\n"
    );
    let long = vec![b'x'; (1 << 20) + 1];
    // The server may close the connection before all is sent.
    drop(client.send(&words(&[b"ECHO", &long])));
    let mut other = server.connect();
    other.send(b"*2\r\n$4\r\nECHO\r\n$1048577\r\n").unwrap();
    assert_eq!(
        String::from_utf8_lossy(&other.until_closed().unwrap()),
        "-ERR Protocol error: invalid bulk length\r\n"
    );
    let mut fine = server.connect();
    fine.send(&words(&[b"ECHO", &long[1..]])).unwrap();
    assert_eq!(fine.value().unwrap().as_bytes(), Some(&long[1..]));
}

#[test]
fn what_is_only_announced_takes_no_memory() {
    let server = Server::tollgate(&[]).unwrap();
    let mut client = server.connect().unwrap();
    let resident =
        |client: &mut Client| -> usize { info(client, "used_memory_rss").parse().unwrap() };
    let before = resident(&mut client);
    let announced: [&[u8]; 4] = [
        b"*2\r\n$4\r\nECHO\r\n$536870912\r\n",
        b"*2147483647\r\n$4\r\n",
        b"*3\r\n$3\r\nSET\r\n$536870912\r\nx",
        b"*1000000\r\n$3\r\nDEL\r\n$536870912\r\n",
    ];
    let mut waiting = Vec::new();
    for _ in 0..25 {
        for bytes in announced {
            let mut one = server.connect().unwrap();
            one.send(bytes).unwrap();
            waiting.push(one);
        }
    }
    eventually("all are read", || {
        info(&mut client, "connected_clients") == "101"
            && info(&mut client, "mem_clients_normal")
                .parse::<usize>()
                .unwrap()
                > 0
    });
    let grown = resident(&mut client).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for what never came");
    // More than any argument may have.
    let mut too_long = server.connect().unwrap();
    too_long.send(b"*1\r\n$4294967296\r\n").unwrap();
    assert_eq!(
        String::from_utf8_lossy(&too_long.until_closed().unwrap()),
        "-ERR Protocol error: invalid bulk length\r\n"
    );
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
}

#[test]
fn a_million_arguments_are_one_command() {
    const MANY: usize = 1_000_000;
    let server = Local::start(&[]);
    let mut client = server.connect();
    let mut bytes = format!("*{}\r\n$3\r\nDEL\r\n", MANY + 1).into_bytes();
    bytes.extend_from_slice(&b"$1\r\nk\r\n".repeat(MANY));
    assert_eq!(raw(&mut client, "SET k x"), "+OK\r\n");
    client.send(&bytes).unwrap();
    assert_eq!(frame(&mut client), ":1\r\n");
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
}

#[test]
fn a_pattern_of_many_stars_is_matched_in_bounded_time() {
    let server = Local::start(&[("threads", "1")]);
    let mut client = server.connect();
    let pattern = format!("{}b", "a*".repeat(40));
    let name = "a".repeat(500);
    assert_eq!(raw(&mut client, &format!("SET {name} x")), "+OK\r\n");
    assert_eq!(raw(&mut client, &format!("KEYS {pattern}")), "*0\r\n");
    let scan = raw(&mut client, &format!("SCAN 0 COUNT 1000 MATCH {pattern}"));
    assert!(scan.ends_with("*0\r\n"), "{scan}");
    let mut subscriber = server.connect();
    raw(&mut subscriber, &format!("PSUBSCRIBE {pattern}"));
    assert_eq!(raw(&mut client, &format!("PUBLISH {name} x")), ":0\r\n");
    assert_eq!(raw(&mut client, &format!("PUBLISH {name}b x")), ":1\r\n");
    assert!(frame(&mut subscriber).contains("pmessage"));
}

#[test]
fn a_deep_table_of_a_script_is_answered() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    for script in [
        "local t = {} for i = 1, 100000 do t = {t} end return t",
        "local t = {} t[1] = t return t",
        "local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)",
        "local t = {} for i = 1, 100000 do t = {t} end return #cmsgpack.pack(t)",
        "return cjson.decode(string.rep('[', 100000))",
        "return string.rep('x', 100000):find(string.rep('a?', 50) .. string.rep('a', 50))",
    ] {
        client
            .send(&words(&[b"EVAL", script.as_bytes(), b"0"]))
            .unwrap();
        assert!(!client.frame().unwrap().is_empty(), "{script}");
        assert_eq!(raw(&mut client, "PING"), "+PONG\r\n", "{script}");
    }
}

#[test]
fn keys_are_watched_up_to_a_bound() {
    const MOST: usize = 100_000;
    const AT_ONCE: usize = 10_000;
    let server = Local::start(&[]);
    let mut client = server.connect();
    for start in (0..MOST).step_by(AT_ONCE) {
        let keys: Vec<String> = (start..start + AT_ONCE).map(|n| format!("w{n}")).collect();
        let mut command: Vec<&[u8]> = vec![b"WATCH"];
        command.extend(keys.iter().map(|key| key.as_bytes()));
        client.send(&words(&command)).unwrap();
        assert_eq!(frame(&mut client), "+OK\r\n");
    }
    let error = raw(&mut client, "WATCH onemore");
    assert!(error.starts_with("-ERR too many watched keys"), "{error}");
    assert_eq!(raw(&mut client, "WATCH w7"), "+OK\r\n");
    let mut other = server.connect();
    assert_eq!(raw(&mut other, "SET w99999 x"), "+OK\r\n");
    assert_eq!(raw(&mut client, "MULTI"), "+OK\r\n");
    assert_eq!(raw(&mut client, "PING"), "+QUEUED\r\n");
    assert_eq!(raw(&mut client, "EXEC"), "*-1\r\n");
    assert_eq!(raw(&mut client, "WATCH onemore"), "+OK\r\n");
}
