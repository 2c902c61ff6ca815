//! Messages between connections on several threads: each once, in order, and nobody who does not read costs memory.

use crate::harness::{Local, eventually, info, raw, text};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};
use tollgate_testkit::Client;

const PUBLISHERS: usize = 3;
const SUBSCRIBERS: usize = 24;
const MESSAGES: usize = 1_500;

/// The last word of the next message.
fn payload(client: &mut Client) -> String {
    let frame = client.frame().unwrap();
    let text = String::from_utf8(frame).unwrap();
    text.trim_end().rsplit("\r\n").next().unwrap().to_owned()
}

#[test]
fn every_subscriber_sees_every_message_once_and_in_order() {
    let server = Local::start(&[("threads", "4")]);
    let subscribers: Vec<_> = (0..SUBSCRIBERS)
        .map(|number| {
            let mut client = server.connect();
            if number % 2 == 0 {
                raw(&mut client, "HELLO 3");
            }
            match number % 3 {
                0 => raw(&mut client, "PSUBSCRIBE chan*"),
                1 => raw(&mut client, "SSUBSCRIBE channel"),
                _ => raw(&mut client, "SUBSCRIBE channel"),
            };
            client
        })
        .collect();
    let publishers = (0..PUBLISHERS).map(|publisher| {
        let mut client = server.connect();
        thread::spawn(move || {
            for batch in (0..MESSAGES).collect::<Vec<_>>().chunks(50) {
                let mut bytes = String::new();
                for number in batch {
                    // The same thread sends both, so each subscriber sees its own numbers in order.
                    bytes += &format!("PUBLISH channel {publisher}:{number}\r\n");
                    bytes += &format!("SPUBLISH channel {publisher}:{number}\r\n");
                }
                client.send(bytes.as_bytes()).unwrap();
                for _ in 0..2 * batch.len() {
                    let reached = client.frame().unwrap();
                    assert!(reached == b":16\r\n" || reached == b":8\r\n");
                }
            }
        })
    });
    let publishers: Vec<_> = publishers.collect();
    let readers = subscribers.into_iter().map(|mut client| {
        thread::spawn(move || {
            let mut next = BTreeMap::new();
            let mut order = Vec::new();
            for _ in 0..PUBLISHERS * MESSAGES {
                let text = payload(&mut client);
                let (publisher, number) = text.split_once(':').unwrap();
                let expected: &mut usize = next.entry(publisher.to_owned()).or_default();
                assert_eq!(number.parse(), Ok(*expected));
                *expected += 1;
                order.push(text);
            }
            // Nothing comes twice.
            client.send(b"PING\r\n").unwrap();
            let pong = String::from_utf8(client.frame().unwrap()).unwrap();
            assert!(pong.to_lowercase().contains("pong"), "{pong}");
            order
        })
    });
    let readers: Vec<_> = readers.collect();
    publishers
        .into_iter()
        .for_each(|publisher| publisher.join().unwrap());
    let orders: Vec<_> = readers
        .into_iter()
        .map(|reader| reader.join().unwrap())
        .collect();
    for (number, order) in orders.iter().enumerate() {
        if number % 3 == 2 {
            assert!(
                *order == orders[2],
                "subscribers of a channel see one order"
            );
        }
    }
}

// Fact 116.
#[test]
fn a_subscriber_that_never_reads_is_dropped_at_its_limit() {
    let server = Local::start(&[]);
    let mut admin = server.connect();
    assert_eq!(
        admin
            .call(&[
                &b"CONFIG"[..],
                b"SET",
                b"client-output-buffer-limit",
                b"pubsub 1mb 0 0"
            ])
            .unwrap()
            .as_bytes(),
        Some(&b"OK"[..])
    );
    let mut slow: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut slow {
        raw(client, "SUBSCRIBE news");
    }
    let mut good = server.connect();
    raw(&mut good, "SUBSCRIBE news");
    assert_eq!(info(&mut admin, "pubsub_channels"), "1");
    let message = "x".repeat(64 << 10);
    let mut most = 0;
    eventually("the slow ones are gone", || {
        let reached = admin.call(&[&b"PUBLISH"[..], b"news", message.as_bytes()]);
        good.frame().unwrap();
        let held: usize = text(&mut admin, "CLIENT LIST")
            .split(" omem=")
            .skip(1)
            .map(|rest| rest.split(' ').next().unwrap().parse::<usize>().unwrap())
            .sum();
        most = most.max(held);
        reached.unwrap().as_int() == Some(1)
    });
    assert!(most <= 4 * ((1 << 20) + 2 * message.len()), "{most} bytes");
    eventually("all of them are counted", || {
        info(&mut admin, "client_output_buffer_limit_disconnections") == "4"
            && info(&mut admin, "connected_clients") == "2"
    });
}

#[test]
fn the_soft_limit_acts_after_its_time() {
    let server = Local::start(&[]);
    let mut admin = server.connect();
    admin
        .call(&[
            &b"CONFIG"[..],
            b"SET",
            b"client-output-buffer-limit",
            b"pubsub 0 100kb 1",
        ])
        .unwrap();
    let mut slow = server.connect();
    raw(&mut slow, "SUBSCRIBE news");
    let message = "x".repeat(256 << 10);
    let mut sent = 0;
    let began = Instant::now();
    eventually("the slow one is gone", || {
        // Enough to fill the socket, then now and then a little.
        let message = if sent < 100 { &message[..] } else { "tick" };
        sent += 1;
        let reached = admin
            .call(&[&b"PUBLISH"[..], b"news", message.as_bytes()])
            .unwrap();
        reached.as_int() == Some(0)
    });
    assert!(
        began.elapsed() > Duration::from_secs(1),
        "the limit is not hard"
    );
    assert_eq!(
        info(&mut admin, "client_output_buffer_limit_disconnections"),
        "1"
    );
}

#[test]
fn who_leaves_is_no_subscriber_any_more() {
    let server = Local::start(&[]);
    let mut admin = server.connect();
    let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        raw(client, "SUBSCRIBE a");
        raw(client, "PSUBSCRIBE b*");
        raw(client, "SSUBSCRIBE c");
    }
    let list = text(&mut admin, "CLIENT LIST TYPE pubsub");
    assert_eq!(list.matches(" flags=P ").count(), 10, "{list}");
    assert_eq!(list.matches(" sub=1 psub=1 ssub=1 ").count(), 10, "{list}");
    assert_eq!(raw(&mut admin, "PUBLISH a x"), ":10\r\n");
    drop(clients);
    eventually("all are gone", || {
        raw(&mut admin, "PUBLISH a x") == ":0\r\n"
            && raw(&mut admin, "PUBSUB NUMPAT") == ":0\r\n"
            && raw(&mut admin, "PUBSUB SHARDCHANNELS") == "*0\r\n"
    });
}
