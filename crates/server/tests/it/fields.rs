//! Fields of hashes that expire while nobody asks for them.

use tollgate_testkit::Client;

use crate::harness::{Local, eventually, info, raw};

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
