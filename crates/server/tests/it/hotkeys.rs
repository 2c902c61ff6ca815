//! HOTKEYS: what scripts cannot show, in a cluster and with several clients.

use tollgate_testkit::{Client, Server};
use tollgate_wire::resp::Value;

/// The fields of HOTKEYS GET by name.
fn get(client: &mut Client) -> Vec<(String, Value)> {
    let Ok(Value::Array(mut reports)) = client.line("HOTKEYS GET") else {
        panic!("there is a session");
    };
    let Some(Value::Array(fields)) = reports.pop() else {
        panic!("a report");
    };
    let pair = |pair: &[Value]| {
        let name = pair[0].as_bytes().expect("a name").to_vec();
        (String::from_utf8(name).expect("text"), pair[1].clone())
    };
    fields.chunks(2).map(pair).collect()
}

fn field(fields: &[(String, Value)], name: &str) -> Value {
    let found = fields.iter().find(|(its, _)| its == name);
    found
        .unwrap_or_else(|| panic!("no {name}: {fields:?}"))
        .1
        .clone()
}

fn number(fields: &[(String, Value)], name: &str) -> i64 {
    field(fields, name).as_int().expect("a number")
}

fn error(client: &mut Client, line: &str) -> String {
    let reply = client.line(line).unwrap();
    let text = reply
        .as_error()
        .unwrap_or_else(|| panic!("{line}: {reply:?}"));
    String::from_utf8_lossy(text).into_owned()
}

#[test]
fn slots_of_a_cluster_can_be_selected() {
    let options = [
        "--cluster-enabled",
        "yes",
        "--cluster-require-full-coverage",
        "no",
    ];
    let server = Server::tollgate(&options).unwrap();
    let mut client = server.connect().unwrap();
    client.line("CLUSTER ADDSLOTSRANGE 0 4 6 16383").unwrap();
    for (slots, wrong) in [
        ("0", "ERR SLOTS count must be between 1 and 16384"),
        ("16385 7", "ERR SLOTS count must be between 1 and 16384"),
        ("x 7", "ERR SLOTS count must be between 1 and 16384"),
        ("2 7", "ERR not enough slot numbers provided"),
        ("1 16384", "ERR Invalid or out of range slot"),
        ("1 x", "ERR Invalid or out of range slot"),
        ("2 7 5", "ERR slot 5 not handled by this node"),
        ("3 7 7 5", "ERR duplicate slot number"),
        ("3 5 7 7", "ERR slot 5 not handled by this node"),
        ("1 7 SLOTS 1 8", "ERR SLOTS parameter already specified"),
        ("1 7 8", "ERR syntax error"),
        ("1 7 COUNT", "ERR syntax error"),
    ] {
        let line = format!("HOTKEYS START METRICS 1 CPU SLOTS {slots}");
        assert_eq!(error(&mut client, &line), wrong, "{slots}");
    }
    client.line("HOTKEYS START METRICS 1 CPU").unwrap();
    let all = field(&get(&mut client), "selected-slots");
    assert_eq!(
        format!("{all:?}"),
        "Array([Array([Int(0), Int(4)]), Array([Int(6), Int(16383)])])"
    );
    client.line("HOTKEYS STOP").unwrap();
    // "a" is of slot 15495, "b" of 3300.
    let slots = "HOTKEYS START METRICS 2 CPU NET SAMPLE 2147483647 SLOTS 6 10 3 4 9 16383 15495";
    client.line(slots).unwrap();
    for key in ["a", "b"] {
        client.line(&format!("SET {key} 1")).unwrap();
    }
    let fields = get(&mut client);
    let names: Vec<&str> = fields.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(
        names,
        [
            "tracking-active",
            "sample-ratio",
            "selected-slots",
            "sampled-commands-selected-slots-us",
            "all-commands-selected-slots-us",
            "all-commands-all-slots-us",
            "net-bytes-sampled-commands-selected-slots",
            "net-bytes-all-commands-selected-slots",
            "net-bytes-all-commands-all-slots",
            "collection-start-time-unix-ms",
            "collection-duration-ms",
            "total-cpu-time-user-ms",
            "total-cpu-time-sys-ms",
            "total-net-bytes",
            "by-cpu-time-us",
            "by-net-bytes",
        ]
    );
    let selected = format!("{:?}", field(&fields, "selected-slots"));
    assert_eq!(
        selected,
        "Array([Array([Int(3), Int(4)]), Array([Int(9), Int(10)]), Array([Int(15495)]), Array([Int(16383)])])"
    );
    assert_eq!(number(&fields, "net-bytes-all-commands-all-slots"), 64);
    assert_eq!(number(&fields, "net-bytes-all-commands-selected-slots"), 32);
    assert_eq!(
        number(&fields, "net-bytes-sampled-commands-selected-slots"),
        0
    );
}

#[test]
fn commands_of_several_clients_are_added_up_and_refused_ones_are_not() {
    let server = Server::tollgate(&[]).unwrap();
    let mut client = server.connect().unwrap();
    client.line("ACL SETUSER reader on nopass ~* +get").unwrap();
    let start = "HOTKEYS START METRICS 2 NET CPU COUNT 3";
    client.line(start).unwrap();
    let run = |number: usize| {
        let mut client = server.connect().unwrap();
        for turn in 0..500 {
            client.line("GET hot").unwrap();
            client.line(&format!("GET cold:{number}:{turn}")).unwrap();
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|number| drop(scope.spawn(move || run(number)))));
    let mut reader = server.connect().unwrap();
    reader.line("AUTH reader x").unwrap();
    error(&mut reader, &format!("SET {} 1", "k".repeat(100_000)));
    let fields = get(&mut client);
    let Value::Array(top) = field(&fields, "by-net-bytes") else {
        panic!("keys");
    };
    // `*2 $3 GET $3 hot` and `$-1`.
    assert_eq!(top[0].as_bytes(), Some(&b"hot"[..]));
    assert_eq!(top[1].as_int(), Some(4 * 500 * (22 + 5)));
    assert_eq!(top.len(), 6);
    assert!(number(&fields, "net-bytes-all-commands-all-slots") < 200_000);
    assert!(number(&fields, "all-commands-all-slots-us") > 0);
    let info = client.line("INFO hotkeys").unwrap();
    let info = String::from_utf8_lossy(info.as_bytes().expect("text")).into_owned();
    assert!(info.contains("hotkeys-tracking-active:1\r\n"), "{info}");
    client.line("HOTKEYS STOP").unwrap();
    client.line("GET hot").unwrap();
    let Value::Array(after) = field(&get(&mut client), "by-net-bytes") else {
        panic!("keys");
    };
    assert_eq!(after[1], top[1]);
}

#[test]
fn queued_commands_count_when_they_run_and_long_keys_are_shown_cut() {
    let server = Server::tollgate(&[]).unwrap();
    let mut client = server.connect().unwrap();
    client.line("HOTKEYS START METRICS 1 NET").unwrap();
    for line in ["MULTI", "SET a 1", "GET a"] {
        client.line(line).unwrap();
    }
    assert_eq!(number(&get_total(&server), "total-net-bytes"), 0);
    client.line("EXEC").unwrap();
    // `*3 $3 SET $1 a $1 1`, `+OK`, `*2 $3 GET $1 a`, `$1 1`.
    assert_eq!(
        number(&get_total(&server), "total-net-bytes"),
        27 + 5 + 20 + 7
    );
    client
        .line(&format!("SET {} 1", "k".repeat(10_000)))
        .unwrap();
    let Value::Array(top) = field(&get(&mut client), "by-net-bytes") else {
        panic!("keys");
    };
    assert_eq!(top[0].as_bytes().map(<[u8]>::len), Some(4_096));
}

/// As another client sees it.
fn get_total(server: &Server) -> Vec<(String, Value)> {
    get(&mut server.connect().unwrap())
}
