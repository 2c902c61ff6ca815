//! This server as a cluster of one node, beside redis-server as one.

use crate::harness::{eventually, text};
use tollgate_testkit::process::free_port;
use tollgate_testkit::{Client, Server, peers};
use tollgate_wire::resp::{Value, write_command};

/// Between the port of a node and that of its bus.
const BUS_OFFSET: u32 = 10_000;

/// Replies with what differs from node to node replaced: names of nodes, ports, times.
fn shown(frame: &[u8], port: u16) -> String {
    let mut text = String::from_utf8_lossy(frame).into_owned();
    let is_name = |part: &str| part.len() == 40 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<String> = text
        .split_inclusive(|c: char| !c.is_ascii_alphanumeric())
        .map(|part| {
            let (word, end) = part.split_at(
                part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric())
                    .len(),
            );
            match is_name(word) {
                true => format!("NAME{end}"),
                false => part.to_owned(),
            }
        })
        .collect();
    text = parts.concat();
    let bus = u32::from(port) + BUS_OFFSET;
    // The port of the bus is given to redis-server, as the usual one may be taken; lengths of texts depend on them.
    let text = text.replace(&bus.to_string(), "BUS");
    text.replace(&port.to_string(), "PORT")
}

/// Without the lengths of texts that name ports, and what redis-server learns seconds after its start.
fn comparable(reply: &str) -> String {
    let is_length = |line: &str| {
        line.starts_with(['$', '='])
            && line.len() > 1
            && line[1..].bytes().all(|b| b.is_ascii_digit())
    };
    let lines = reply.split("\r\n");
    let lines: Vec<&str> = lines
        .filter(|line| !is_length(line) && !line.starts_with("cluster_size:"))
        .collect();
    lines.join("\n")
}

struct Node {
    client: Client,
    port: u16,
}

impl Node {
    fn new(server: &Server) -> Node {
        Node {
            client: server.connect().unwrap(),
            port: server.addr().port(),
        }
    }

    fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.reply()
    }

    fn send(&mut self, line: &str) {
        let words: Vec<String> = line
            .split(' ')
            .map(|word| word.replace('~', " ").replace('^', "\n"))
            .collect();
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let mut bytes = Vec::new();
        write_command(&mut bytes, &words);
        self.client.send(&bytes).unwrap();
    }

    fn reply(&mut self) -> String {
        comparable(&shown(&self.client.frame().unwrap(), self.port))
    }

    fn is_well(&mut self) -> bool {
        text(&mut self.client, "CLUSTER INFO").contains("cluster_state:ok")
    }
}

fn sorted(reply: &str) -> Vec<String> {
    let mut lines: Vec<String> = reply.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn compare(protocol: &str) {
    let bus = free_port().unwrap();
    let Some(theirs) = Server::redis(&[
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &bus.to_string(),
    ])
    .unwrap() else {
        return peers::skip("a_node_answers_as_redis_server_does", "redis-server");
    };
    let own = Server::tollgate(&["--cluster-enabled", "yes"]).unwrap();
    let (mut theirs, mut ours) = (Node::new(&theirs), Node::new(&own));
    for node in [&mut theirs, &mut ours] {
        node.ask(&format!("HELLO {protocol}"));
    }
    let mut as_sets = false;
    let cases = include_str!("cluster_cases.txt").lines();
    for line in cases.filter(|line| !line.starts_with('#')) {
        match line {
            "@well" => eventually("the cluster is well", || theirs.is_well() && ours.is_well()),
            "@sorted" => as_sets = true,
            _ => {
                let bus_of = |text: String| text.replace(&bus.to_string(), "BUS");
                let (theirs, ours) = (bus_of(theirs.ask(line)), ours.ask(line));
                match std::mem::take(&mut as_sets) {
                    true => assert_eq!(sorted(&ours), sorted(&theirs), "{line}"),
                    false => assert_eq!(ours, theirs, "{line}"),
                }
            }
        }
    }
}

/// Facts 110, 111 and 113.
#[test]
fn a_node_answers_as_redis_server_does() {
    compare("2");
}

#[test]
fn a_node_answers_as_redis_server_does_in_resp3() {
    compare("3");
}

#[test]
fn a_client_that_may_read_from_replicas_is_listed_as_such() {
    let mut servers = vec![Server::tollgate(&["--cluster-enabled", "yes"]).unwrap()];
    match Server::redis(&["--cluster-enabled", "yes"]).unwrap() {
        Some(theirs) => servers.push(theirs),
        None => peers::skip(
            "a_client_that_may_read_from_replicas_is_listed_as_such",
            "redis-server",
        ),
    }
    for server in &servers {
        let mut client = server.connect().unwrap();
        for (command, flags) in [
            ("PING", "flags=N"),
            ("READONLY", "flags=r"),
            ("READWRITE", "flags=N"),
            ("READONLY", "flags=r"),
            ("RESET", "flags=N"),
        ] {
            text(&mut client, command);
            let info = text(&mut client, "CLIENT INFO");
            assert!(info.contains(&format!(" {flags} ")), "{command}: {info}");
        }
    }
}

/// The answers of clients that wait for keys whose slot is given up, and the one that waits for another key.
fn turned_away(server: &Server) -> (Vec<String>, Node, Node) {
    let mut control = Node::new(server);
    control.ask("CONFIG SET cluster-require-full-coverage no");
    control.ask("CLUSTER ADDSLOTSRANGE 0 16383");
    eventually("the cluster is well", || control.is_well());
    // The slots of the keys: 15495 and 3300.
    let [mut list, mut set, mut stream, mut other] = [(); 4].map(|()| Node::new(server));
    list.send("BLPOP {a}1 {a}2 0");
    set.send("BZPOPMIN {a}3 0");
    stream.send("XREAD BLOCK 0 STREAMS {a}4 $");
    other.send("BLPOP b 0");
    eventually("all wait", || {
        control.ask("INFO clients").contains("blocked_clients:4")
    });
    control.ask("CLUSTER DELSLOTS 15495");
    let replies = vec![list.reply(), set.reply(), stream.reply()];
    eventually("the other one waits on", || {
        control.ask("INFO clients").contains("blocked_clients:1")
    });
    (replies, control, other)
}

#[test]
fn clients_that_wait_for_keys_of_a_slot_given_up_are_told() {
    let own = Server::tollgate(&["--cluster-enabled", "yes"]).unwrap();
    let (ours, mut control, mut other) = turned_away(&own);
    assert_eq!(ours[0], "-CLUSTERDOWN Hash slot not served\n");
    // Without all slots none is served; redis-server notices only with the next change of its cluster.
    control.ask("CONFIG SET cluster-require-full-coverage yes");
    assert_eq!(other.reply(), "-CLUSTERDOWN The cluster is down\n");
    let bus = free_port().unwrap().to_string();
    match Server::redis(&["--cluster-enabled", "yes", "--cluster-port", &bus]).unwrap() {
        Some(theirs) => assert_eq!(ours, turned_away(&theirs).0),
        None => peers::skip(
            "clients_that_wait_for_keys_of_a_slot_given_up_are_told",
            "redis-server",
        ),
    }
}

#[test]
fn the_file_of_a_node_is_read_again_by_both() {
    let dir = tollgate_testkit::process::temp_dir().unwrap();
    let place = dir.to_str().unwrap();
    let flags = ["--cluster-enabled", "yes", "--dir", place];
    let node = |client: &mut Client| {
        let line = text(client, "CLUSTER NODES");
        let (name, _) = line.split_once(' ').unwrap();
        let (_, slots) = line.trim_end().split_once("connected").unwrap();
        (name.to_owned(), slots.to_owned())
    };
    let first = {
        let server = Server::tollgate(&flags).unwrap();
        let mut client = server.connect().unwrap();
        let ok = Value::Simple(b"OK".to_vec());
        assert_eq!(
            client.line("CLUSTER ADDSLOTSRANGE 0 99 200 300").unwrap(),
            ok
        );
        assert_eq!(client.line("CLUSTER DELSLOTS 50").unwrap(), ok);
        node(&mut client)
    };
    assert_eq!(first.1, " 0-49 51-99 200-300");
    {
        let server = Server::tollgate(&flags).unwrap();
        assert_eq!(node(&mut server.connect().unwrap()), first);
    }
    let bus = free_port().unwrap().to_string();
    let with_bus = [&flags[..], &["--cluster-port", &bus]].concat();
    if let Some(server) = Server::redis(&with_bus).unwrap() {
        assert_eq!(node(&mut server.connect().unwrap()), first);
    } else {
        peers::skip("the_file_of_a_node_is_read_again_by_both", "redis-server");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_emulated_cluster_serves_all_slots_from_the_start() {
    let server = Server::tollgate(&["--cluster-enabled", "emulated"]).unwrap();
    let mut client = server.connect().unwrap();
    let nodes = text(&mut client, "CLUSTER NODES");
    assert!(nodes.ends_with(" connected 0-16383\n"), "{nodes}");
    assert!(nodes.contains(&format!(" {}@", server.addr())), "{nodes}");
    assert!(text(&mut client, "CLUSTER INFO").starts_with("cluster_state:ok\r\n"));
    let ok = Value::Simple(b"OK".to_vec());
    assert_eq!(client.line("MSET {a}1 x {a}2 y").unwrap(), ok);
    let refused = client.line("MSET a x b y").unwrap();
    assert_eq!(
        refused
            .as_error()
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .as_deref(),
        Some("CROSSSLOT Keys in request don't hash to the same slot")
    );
    // The keys of one decision are of one slot too.
    let refused = client
        .line("RL.MTAKE 2 a b FIXED 1 1000 FIXED 1 1000")
        .unwrap();
    assert!(
        refused
            .as_error()
            .is_some_and(|line| line.starts_with(b"CROSSSLOT"))
    );
    let refused = client.line("CLUSTER MEET 127.0.0.1 7000").unwrap();
    assert!(refused.as_error().is_some(), "{refused:?}");
}

#[test]
fn slot_stats_count_keys() {
    let server = Server::tollgate(&["--cluster-enabled", "emulated"]).unwrap();
    let mut client = server.connect().unwrap();
    for key in ["{a}1", "{a}2", "b"] {
        client.line(&format!("SET {key} v")).unwrap();
    }
    let stats = |client: &mut Client, rest: &str| {
        format!(
            "{:?}",
            client.line(&format!("CLUSTER SLOT-STATS {rest}")).unwrap()
        )
    };
    let most = stats(&mut client, "ORDERBY KEY-COUNT LIMIT 1");
    let slot = client.line("CLUSTER KEYSLOT a").unwrap().as_int().unwrap();
    assert!(
        most.contains(&slot.to_string()) && most.contains('2'),
        "{most}"
    );
    for wrong in [
        "SLOTSRANGE 5 4",
        "SLOTSRANGE 0 16384",
        "ORDERBY X",
        "ORDERBY KEY-COUNT LIMIT 0",
        "X Y",
    ] {
        assert!(stats(&mut client, wrong).contains("Error"), "{wrong}");
    }
}

fn word(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().expect("a text")).into_owned()
}

/// Cursors that a whole scan goes through, the first of which is `from`, and the keys that it returns.
fn cluster_scan(client: &mut Client, from: &str, options: &str) -> (Vec<String>, Vec<String>) {
    let (mut cursors, mut keys) = (vec![from.to_owned()], Vec::new());
    loop {
        let cursor = cursors.last().expect("there is one").clone();
        let reply = client.line(format!("CLUSTERSCAN {cursor} {options}").trim_end());
        let Ok(Value::Array(parts)) = reply else {
            panic!("{cursor} {options}: {reply:?}");
        };
        let [next, Value::Array(page)] = &parts[..] else {
            panic!("{parts:?}");
        };
        keys.extend(page.iter().map(word));
        cursors.push(word(next));
        if word(next) == "0" {
            keys.sort_unstable();
            return (cursors, keys);
        }
    }
}

#[test]
fn a_scan_of_the_cluster_returns_every_key_of_the_slots_asked_for() {
    let server = Server::tollgate(&["--cluster-enabled", "emulated"]).unwrap();
    let mut client = server.connect().unwrap();
    let mut expected: Vec<String> = (0..300).map(|number| format!("key:{number}")).collect();
    expected.extend((0..50).map(|number| format!("{{5L5}}:{number}")));
    for key in &expected {
        client.line(&format!("SET {key} x")).unwrap();
    }
    expected.sort_unstable();
    let (cursors, keys) = cluster_scan(&mut client, "0", "");
    assert_eq!((cursors[1].as_str(), &keys), ("0-{06S}-0", &expected));
    let tagged: Vec<String> = keys
        .into_iter()
        .filter(|key| key.starts_with('{'))
        .collect();
    // Slot 2 has the tag 5L5.
    for options in [
        "SLOT 2",
        "MATCH {5L5}*",
        "SLOT 2 MATCH {5L5}* TYPE string COUNT 7",
    ] {
        let (cursors, keys) = cluster_scan(&mut client, "0", options);
        assert_eq!(
            (cursors[1].as_str(), &keys),
            ("0-{5L5}-0", &tagged),
            "{options}"
        );
        let at_home = |cursor: &String| cursor == "0" || cursor.contains("-{5L5}-");
        assert!(cursors.iter().all(at_home), "{cursors:?}");
    }
    assert_eq!(cluster_scan(&mut client, "0", "TYPE list").1, [""; 0]);
    // Whose cursor it is not begins the slot again.
    let foreign = cluster_scan(&mut client, "0B3a21-{5L5}-77", "SLOT 2").1;
    assert_eq!(foreign, tagged);
    let replies = [
        ("0-{06S}-0 MATCH {Qi}*", "0-{Qi}-0"),
        ("0-{Qi}-0 MATCH {06S}*", "0"),
        ("0 SLOT 0 MATCH {Qi}*", "0"),
        ("0-{06S}-0 SLOT 0 MATCH {Qi}*", "0"),
    ];
    for (asked, next) in replies {
        let (cursors, keys) = match client.line(&format!("CLUSTERSCAN {asked}")).unwrap() {
            Value::Array(parts) => (word(&parts[0]), parts[1].clone()),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (cursors.as_str(), keys),
            (next, Value::Array(Vec::new())),
            "{asked}"
        );
    }
    let errors = [
        ("invalid", "ERR Invalid cursor"),
        ("abc-def-ghi", "ERR Invalid cursor"),
        ("0-", "ERR Invalid cursor"),
        ("0-{0}", "ERR Invalid cursor"),
        ("0-{}-0", "ERR Invalid cursor"),
        ("0-{06S}-x", "ERR Invalid cursor"),
        ("0 COUNT 0", "ERR syntax error"),
        ("0 COUNT x", "ERR value is not an integer or out of range"),
        ("0 TYPE notatype", "ERR unknown type name 'notatype'"),
        ("0 BAD", "ERR syntax error"),
        ("0-{06S}-0 SLOT 1", "ERR Cursor slot mismatch"),
        ("0-{06S}-0 SLOT 20000", "ERR Invalid or out of range slot"),
        (
            "0 SLOT 0 SLOT 0",
            "ERR SLOT option can only be specified once",
        ),
    ];
    for (asked, says) in errors {
        let reply = client.line(&format!("CLUSTERSCAN {asked}")).unwrap();
        assert_eq!(reply, Value::Error(says.into()), "{asked}");
    }
}

/// Slots that are not served are passed over to whoever serves them, and those that go while a scan is under way are too.
#[test]
fn a_scan_of_the_cluster_ends_where_the_slots_of_its_node_end() {
    let settings = [
        "--cluster-enabled",
        "yes",
        "--cluster-require-full-coverage",
        "no",
    ];
    let server = Server::tollgate(&settings).unwrap();
    let mut client = server.connect().unwrap();
    client
        .line("CLUSTER ADDSLOTSRANGE 0 100 102 16383")
        .unwrap();
    for tag in ["06S", "Qi", "4ZG", "0or", "6ZJ"] {
        for number in 0..5 {
            client.line(&format!("SET {{{tag}}}:{number} x")).unwrap();
        }
    }
    let mut page = |asked: &str| match client.line(&format!("CLUSTERSCAN {asked}")).unwrap() {
        Value::Array(parts) => word(&parts[0]),
        other => panic!("{other:?}"),
    };
    let after = page("0-{06S}-0 COUNT 1000");
    let mut other = server.connect().unwrap();
    let slot = other.line(&format!("CLUSTER KEYSLOT {after}")).unwrap();
    assert_eq!(slot, Value::Int(101), "{after}");
    let refused = other.line(&format!("CLUSTERSCAN {after}")).unwrap();
    let not_served = "CLUSTERDOWN Hash slot not served";
    assert_eq!(refused, Value::Error(not_served.into()));
    assert_eq!(page("0-{6ZJ}-0 COUNT 1000"), "0");
    let half = page("0-{06S}-0 COUNT 1");
    other.line("CLUSTER DELSLOTS 51").unwrap();
    let after = page(&format!("{half} COUNT 1000"));
    let slot = other.line(&format!("CLUSTER KEYSLOT {after}")).unwrap();
    assert_eq!(slot, Value::Int(51), "{after}");
}
