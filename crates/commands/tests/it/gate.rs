use tollgate_commands::gate::{GateView, check};
use tollgate_commands::{CmdError, Origin, resolve};

fn refusal(line: &str, view: GateView) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let result = resolve(&words).and_then(|row| check(row, &words, &view));
    result
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn the_order_of_checks_shows() {
    let view = GateView {
        authenticated: false,
        out_of_memory: true,
        ..GateView::open()
    };
    let unknown = "ERR unknown command 'foo', with args beginning with: 'bar' ";
    assert_eq!(refusal("foo bar", view), unknown);
    assert_eq!(
        refusal("get", view),
        "ERR wrong number of arguments for 'get' command"
    );
    assert_eq!(refusal("get k", view), "NOAUTH Authentication required.");
    assert_eq!(
        refusal("client id x", view),
        "ERR wrong number of arguments for 'client|id' command"
    );
    assert_eq!(
        refusal("client id", view),
        "NOAUTH Authentication required."
    );
    assert_eq!(refusal("auth x", view), "");
    assert_eq!(refusal("hello", view), "");
    let view = GateView {
        authenticated: true,
        ..view
    };
    assert_eq!(
        refusal("set k v", view),
        "OOM command not allowed when used memory > 'maxmemory'."
    );
    assert_eq!(refusal("del k", view), "");
    assert_eq!(refusal("get k", view), "");
}

#[test]
fn scripts_are_held_to_more() {
    let view = GateView {
        origin: Origin::Script,
        ..GateView::open()
    };
    assert_eq!(
        refusal("get", view),
        "ERR Wrong number of args calling Redis command from script"
    );
    assert_eq!(
        refusal("eval x 0", view),
        "ERR This Redis command is not allowed from script"
    );
    assert_eq!(refusal("set k v", view), "");
    let view = GateView {
        read_only_script: true,
        ..view
    };
    assert_eq!(
        refusal("set k v", view),
        "ERR Write commands are not allowed from read-only scripts."
    );
    assert_eq!(refusal("get k", view), "");
}

#[test]
fn what_the_client_sent_is_quoted_with_bounds() {
    let long = "x".repeat(300);
    let error = resolve(&[long.as_bytes(), long.as_bytes(), b"more"]).expect_err("unknown");
    let cut = "x".repeat(128);
    let expected = format!("ERR unknown command '{cut}', with args beginning with: '{cut}' ");
    assert_eq!(error.to_string(), expected);
    let error = resolve(&[b"a\0b", b"c\0d", b"\xff"]).expect_err("unknown");
    let expected: &[u8] = b"ERR unknown command 'a', with args beginning with: 'c' '\xff' ";
    assert_eq!(&*error.to_line(), expected);
    let error = resolve(&[b"client", b"nosuch"]).expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "ERR unknown subcommand 'nosuch'. Try CLIENT HELP."
    );
    assert_eq!(error.code(), "ERR");
    assert_eq!(CmdError::WrongType.code(), "WRONGTYPE");
}
