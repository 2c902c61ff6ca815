use super::*;
use crate::load::workload::Rule;

const RULE: Rule = Rule {
    limit: 5,
    window_s: 60,
};

fn request(name: &str) -> String {
    let Ok(Op::Decide(row)) = name.parse::<Op>() else {
        panic!("{name} is a decision")
    };
    let mut out = Vec::new();
    row.ask(RULE, Some("5ha")).write(&mut out, b"k");
    let text = String::from_utf8(out).unwrap();
    text.split("\r\n")
        .filter(|line| !line.starts_with(['*', '$']))
        .collect::<Vec<_>>()
        .join(" ")
        .trim()
        .to_owned()
}

#[test]
fn every_name_is_read_back_and_every_row_has_its_algorithm() {
    for name in Op::names() {
        assert_eq!(name.parse::<Op>().unwrap().name(), name);
    }
    assert!("nothing".parse::<Op>().unwrap_err().contains("cl.throttle"));
    for row in DECISIONS {
        assert!(!request(row.name).is_empty());
        assert!(
            DECISIONS
                .iter()
                .filter(|other| other.name == row.name)
                .count()
                == 1
        );
        if let Some(words) = row.preparation() {
            assert!(words.last().is_some_and(|script| script.len() > 40));
        }
    }
}

#[test]
fn limits_and_windows_stand_where_each_command_wants_them() {
    for (name, wanted) in [
        ("rl.take", "RL.TAKE k FIXED 5 60000"),
        ("rl.take:sliding-log", "RL.TAKE k LOG 5 60000"),
        ("cl.throttle", "CL.THROTTLE k 4 5 60"),
        ("throttle", "THROTTLE k 5 5 60"),
        ("gcra", "GCRA k 4 5 60"),
        ("increx", "INCREX k UBOUND 5 EX 60 ENX"),
        ("evalsha", "EVALSHA 5ha 1 k 5 60"),
        ("fcall", "FCALL fcall 1 k 5 60"),
        ("evalsha:fixed-window", "EVALSHA 5ha 1 k  5 60000 0 1 0"),
        (
            "fcall:gcra",
            "FCALL fcall_gcra 1 k  5 12000000 60000000 1 0",
        ),
    ] {
        assert_eq!(request(name), wanted, "{name}");
    }
}
