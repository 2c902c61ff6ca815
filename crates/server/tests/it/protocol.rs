//! What clients send, well-formed and not.

use crate::harness::{Local, raw};
use std::net::Shutdown;
use std::time::Duration;
use tollgate_testkit::client::Received;

#[test]
fn a_command_split_at_every_byte_is_one_command() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    for byte in
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nva\r\nl\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n"
    {
        client.send(&[*byte]).unwrap();
    }
    assert_eq!(client.frame().unwrap(), b"+OK\r\n");
    assert_eq!(client.frame().unwrap(), b"$5\r\nva\r\nl\r\n");
    assert_eq!(client.frame().unwrap(), b"+PONG\r\n");
}

#[test]
fn a_pipeline_of_ten_thousand_is_answered_in_order() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    let mut pipeline = Vec::new();
    for i in 0..10_000 {
        let number = i.to_string();
        tollgate_wire::resp::write_command(&mut pipeline, &[b"ECHO", number.as_bytes()]);
    }
    client.send(&pipeline).unwrap();
    for i in 0..10_000 {
        let number = i.to_string();
        assert_eq!(client.value().unwrap().as_bytes(), Some(number.as_bytes()));
    }
}

#[test]
fn a_large_value_arrives_in_pieces_and_leaves_whole() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    let value: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    assert_eq!(
        client
            .call(&[b"SET", b"big", &value[..]])
            .unwrap()
            .as_bytes(),
        Some(&b"OK"[..])
    );
    let back = client.call(&["GET", "big"]).unwrap();
    assert!(back.as_bytes() == Some(&value[..]));
}

/// Bytes, what is answered before the connection is closed.
const BROKEN: &[(&[u8], &str)] = &[
    (
        b"*1\r\n$4294967296\r\n",
        "-ERR Protocol error: invalid bulk length\r\n",
    ),
    (
        b"*1\r\n$536870913\r\n",
        "-ERR Protocol error: invalid bulk length\r\n",
    ),
    (
        b"*1\r\n$-1\r\n",
        "-ERR Protocol error: invalid bulk length\r\n",
    ),
    (
        b"*1\r\nfoo\r\n",
        "-ERR Protocol error: expected '$', got 'f'\r\n",
    ),
    (
        b"*01\r\n",
        "-ERR Protocol error: invalid multibulk length\r\n",
    ),
    (
        b"*2147483648\r\n",
        "-ERR Protocol error: invalid multibulk length\r\n",
    ),
    (
        b"ECHO \"open\r\n",
        "-ERR Protocol error: unbalanced quotes in request\r\n",
    ),
    (b"POST / HTTP/1.1\r\n", ""),
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", ""),
    (b"PING\r\nQUIT\r\nPING\r\n", "+PONG\r\n+OK\r\n"),
    (b"*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n", "+OK\r\n"),
];

#[test]
fn broken_input_is_answered_and_the_connection_closed() {
    let server = Local::start(&[]);
    for (bytes, answer) in BROKEN {
        let mut client = server.connect();
        client.send(bytes).unwrap();
        let got = client.until_closed().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&got),
            *answer,
            "{}",
            bytes.escape_ascii()
        );
    }
    assert_eq!(
        raw(&mut server.connect(), "PING"),
        "+PONG\r\n",
        "the server still answers"
    );
}

#[test]
fn broken_input_is_answered_as_redis_answers() {
    let Some(redis) = tollgate_testkit::Server::redis(&[]).unwrap() else {
        return tollgate_testkit::peers::skip(
            "broken_input_is_answered_as_redis_answers",
            "redis-server",
        );
    };
    for (bytes, answer) in BROKEN {
        let mut client = redis.connect().unwrap();
        client.send(bytes).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&client.until_closed().unwrap()),
            *answer,
            "{}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn a_too_long_inline_line_is_refused_before_it_ends() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    // The rest may meet a closed connection.
    drop(client.send(&vec![b'a'; 70 * 1024]));
    let got = client.until_closed().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&got),
        "-ERR Protocol error: too big inline request\r\n"
    );
}

#[test]
fn empty_commands_get_no_reply() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    client.send(b"\r\n*0\r\n*-1\r\n\r\n").unwrap();
    assert_eq!(
        client.receive(Duration::from_millis(50)).unwrap(),
        Received::Quiet
    );
    assert_eq!(raw(&mut client, "PING"), "+PONG\r\n");
}

#[test]
fn random_bytes_leave_the_server_answering() {
    let server = Local::start(&[]);
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for round in 0..200 {
        let mut client = server.connect();
        let mut bytes: Vec<u8> = (0..2_000)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Mostly the bytes that the parser looks at.
                b"*$0123456789\r\n\"'\\ PINGSET\x00\xff"[(state % 27) as usize]
            })
            .collect();
        if round % 2 == 0 {
            bytes.splice(0..0, *b"*3\r\n$");
        }
        // The server may close before everything is sent.
        drop(client.send(&bytes));
        drop(client.stream().shutdown(Shutdown::Write));
        client.until_closed().unwrap();
    }
    assert_eq!(raw(&mut server.connect(), "PING"), "+PONG\r\n");
}

#[test]
fn a_half_closed_connection_gets_its_replies() {
    let server = Local::start(&[]);
    let mut client = server.connect();
    client.send("PING\r\n".repeat(20_000).as_bytes()).unwrap();
    client.stream().shutdown(Shutdown::Write).unwrap();
    assert_eq!(
        client.until_closed().unwrap().len(),
        20_000 * "+PONG\r\n".len()
    );
}
