//! `lru_crawler`, beside a real memcached.

use std::time::Duration;

use tollgate_testkit::peers;

use crate::memcached_peer::{Memcached, Real, start};

/// Requests that are answered with one line, in this order.
const LINES: &[&str] = &[
    "lru_crawler",
    "lru_crawler nosuch",
    "lru_crawler metadump",
    "lru_crawler mgdump",
    "lru_crawler metadump x",
    "lru_crawler metadump 0",
    "lru_crawler metadump 64",
    "lru_crawler metadump ALL",
    "lru_crawler metadump all noreply",
    "lru_crawler enable",
    "lru_crawler enable x",
    "lru_crawler disable",
    "lru_crawler disable",
    "lru_crawler metadump all",
    "lru_crawler metadump x",
    "lru_crawler crawl all",
    "lru_crawler enable",
    "lru_crawler crawl",
    "lru_crawler crawl ,",
    "lru_crawler crawl 0",
    "lru_crawler crawl 64",
    "lru_crawler crawl x",
    "lru_crawler crawl hash",
    "lru_crawler sleep",
    "lru_crawler sleep -1",
    "lru_crawler sleep x",
    "lru_crawler sleep 1000001",
    "lru_crawler sleep 100",
    "lru_crawler tocrawl",
    "lru_crawler tocrawl -1",
    "lru_crawler tocrawl x",
    "lru_crawler tocrawl 0",
    "lru_crawler tocrawl 5 noreply",
    "lru_crawler crawl 1,2,3",
];

fn line(client: &mut Memcached, request: &str) -> String {
    client.send(format!("{request}\r\n").as_bytes());
    String::from_utf8(client.read_until(b"\r\n")).unwrap()
}

#[test]
fn lines_are_answered_as_by_memcached() {
    let Some(real) = Real::start(&["-o", "lru_crawler"]) else {
        return peers::skip("lines_are_answered_as_by_memcached", "memcached");
    };
    let (_local, addr) = start("2", &[]);
    let (mut ours, mut its) = (Memcached::connect(addr), Memcached::connect(real.addr));
    for request in LINES {
        let answer = line(&mut ours, request);
        let mut expected = line(&mut its, request);
        // Its thread takes a moment to begin and to end.
        for _ in 0..50 {
            if expected == answer || request.contains("able") {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            expected = line(&mut its, request);
        }
        assert_eq!(answer, expected, "{request}");
    }
    // A later memcached has it: 1.6.18 does not.
    for request in ["lru_crawler mgdump x", "lru_crawler mgdump 0"] {
        assert_eq!(line(&mut ours, request), "BADCLASS invalid class id\r\n");
    }
}

/// The lines of a dump, with what differs from server to server checked and left out.
fn dump(client: &mut Memcached, classes: &str, now: u64) -> Vec<String> {
    client.send(format!("lru_crawler metadump {classes}\r\n").as_bytes());
    let answer = String::from_utf8(client.read_until(b"END\r\n")).unwrap();
    let mut lines: Vec<String> = answer
        .trim_end_matches("END\r\n")
        .split_terminator('\n')
        .map(|line| {
            let kept = line.split(' ').filter(|word| {
                if let Some(used) = word.strip_prefix("la=") {
                    let used: u64 = used.parse().unwrap();
                    assert!(used.abs_diff(now) < 60, "{line}");
                    return false;
                }
                !word.starts_with("cas=")
            });
            kept.collect::<Vec<_>>().join(" ")
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn items_are_dumped_as_by_memcached() {
    let Some(real) = Real::start(&["-o", "lru_crawler"]) else {
        return peers::skip("items_are_dumped_as_by_memcached", "memcached");
    };
    let (_local, addr) = start("2", &[]);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let (mut ours, mut its) = (Memcached::connect(addr), Memcached::connect(real.addr));
    for client in [&mut ours, &mut its] {
        assert_eq!(dump(client, "all", now), [""; 0]);
        client.ask("set flags 5 0 3\r\nabc\r\nset late 0 2000000000 1\r\n7\r\n");
        client.ask("set k%20x 0 0 1\r\nx\r\nset a&=c-._~Z9/ 0 0 0\r\n\r\nms AAAA 1 b\r\nx\r\n");
        client.ask("ms read 1\r\nx\r\nmg read v h\r\nset gone 0 -1 1\r\nx\r\n");
    }
    for classes in ["all", "hash", "1", "2,1"] {
        let (ours, its) = (dump(&mut ours, classes, now), dump(&mut its, classes, now));
        assert_eq!((ours.len(), &ours), (6, &its), "{classes}");
    }
    assert_eq!(dump(&mut ours, "2", now), [""; 0]);
    ours.send(b"lru_crawler mgdump all\r\n");
    let answer = String::from_utf8(ours.read_until(b"EN\r\n")).unwrap();
    let mut lines: Vec<&str> = answer.split("\r\n").collect();
    lines.sort_unstable();
    let keys = [
        "mg AAAA b",
        "mg a&=c-._~Z9/",
        "mg flags",
        "mg k%20x",
        "mg late",
        "mg read",
    ];
    assert_eq!(lines, [&["", "EN", "OK"][..], &keys].concat());
}

#[test]
fn a_large_dump_is_one_at_a_time_and_stops_nobody() {
    let (local, addr) = start("1", &[]);
    let mut resp = local.connect();
    let keys = 60_000;
    for from in (0..keys).step_by(1_000) {
        let pairs: Vec<String> = (from..from + 1_000)
            .map(|number| format!("{number}{} v", "k".repeat(180)))
            .collect();
        resp.line(&format!("MSET {}", pairs.join(" "))).unwrap();
    }
    resp.line("RPUSH list not an item").unwrap();
    let mut slow = Memcached::connect(addr);
    slow.send(b"lru_crawler metadump all\r\n");
    let mut other = Memcached::connect(addr);
    // Its answer does not fit what the system keeps for a client that does not read.
    let busy = "BUSY currently processing crawler request\r\n";
    assert_eq!(line(&mut other, "lru_crawler metadump all"), busy);
    assert_eq!(line(&mut other, "lru_crawler mgdump all"), busy);
    assert_eq!(line(&mut other, "get none"), "END\r\n");
    resp.line("SET one more").unwrap();
    let answer = slow.read_until(b"END\r\n");
    let lines = answer
        .split(|&byte| byte == b'\n')
        .filter(|line| line.starts_with(b"key="));
    let names: std::collections::HashSet<&[u8]> = lines
        .map(|line| line.split(|&byte| byte == b' ').next().unwrap())
        .collect();
    assert!((keys..=keys + 1).contains(&names.len()), "{}", names.len());
    slow.send(b"lru_crawler metadump all\r\n");
    slow.read_until(b"\n");
    drop(slow);
    // Who has gone does not keep others from it.
    crate::harness::eventually("the turn is given back", || {
        line(&mut other, "lru_crawler crawl all");
        other.send(b"lru_crawler mgdump all\r\n");
        let first = other.read_until(b"\r\n");
        let began = first.starts_with(b"OK");
        if began && !first.ends_with(b"EN\r\n") {
            other.read_until(b"EN\r\n");
        }
        began
    });
}
