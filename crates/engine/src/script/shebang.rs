//! The first line of a script: `#!lua flags=no-writes,allow-stale`.

use tollgate_commands::{CmdError, Flags};
use tollgate_wire::resp::split_line;

/// What a script or function says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ScriptFlags(u8);

impl ScriptFlags {
    /// Nothing.
    pub(crate) const NONE: ScriptFlags = ScriptFlags(0);
    /// It may not write.
    pub(crate) const NO_WRITES: ScriptFlags = ScriptFlags(1);
    /// It may write when memory is above the limit.
    pub(crate) const ALLOW_OOM: ScriptFlags = ScriptFlags(1 << 1);
    /// It may run on a replica whose data is stale.
    pub(crate) const ALLOW_STALE: ScriptFlags = ScriptFlags(1 << 2);
    /// It may not run on a cluster.
    pub(crate) const NO_CLUSTER: ScriptFlags = ScriptFlags(1 << 3);
    /// It may use keys of several slots of a cluster.
    pub(crate) const ALLOW_CROSS_SLOT_KEYS: ScriptFlags = ScriptFlags(1 << 4);
    /// It has no first line that says anything: a script as before flags were known.
    pub(crate) const COMPATIBLE: ScriptFlags = ScriptFlags(1 << 7);

    const NAMES: [(ScriptFlags, &'static str); 5] = [
        (ScriptFlags::NO_WRITES, "no-writes"),
        (ScriptFlags::ALLOW_OOM, "allow-oom"),
        (ScriptFlags::ALLOW_STALE, "allow-stale"),
        (ScriptFlags::NO_CLUSTER, "no-cluster"),
        (ScriptFlags::ALLOW_CROSS_SLOT_KEYS, "allow-cross-slot-keys"),
    ];

    /// Whether its keys may be of several slots of a cluster.
    pub(in crate::script) const fn crosses_slots(self) -> bool {
        self.0 & (ScriptFlags::COMPATIBLE.0 | ScriptFlags::ALLOW_CROSS_SLOT_KEYS.0) != 0
    }

    /// The flags of a call that has those of `row` where the script says nothing.
    pub(in crate::script) fn in_place_of(self, row: Flags) -> Flags {
        if self.contains(ScriptFlags::COMPATIBLE) {
            return row;
        }
        let judged = Flags::STALE
            .or(Flags::DENYOOM)
            .or(Flags::WRITE)
            .or(Flags::MAY_REPLICATE);
        let when = |holds: bool, flag: Flags| if holds { flag } else { Flags::NONE };
        let writes = !self.contains(ScriptFlags::NO_WRITES);
        let takes_memory = writes && !self.contains(ScriptFlags::ALLOW_OOM);
        row.without(judged)
            .or(when(writes, Flags::WRITE))
            .or(when(takes_memory, Flags::DENYOOM))
            .or(when(self.contains(ScriptFlags::ALLOW_STALE), Flags::STALE))
    }

    /// The flag of that name, as scripts write it.
    pub(in crate::script) fn named(name: &[u8]) -> Option<ScriptFlags> {
        let is = |(_, known): &&(ScriptFlags, &str)| known.as_bytes() == name;
        ScriptFlags::NAMES.iter().find(is).map(|(flag, _)| *flag)
    }

    /// As [`ScriptFlags::named`], as functions write it: in any case.
    pub(in crate::script) fn named_in_any_case(name: &[u8]) -> Option<ScriptFlags> {
        let is = |(_, known): &&(ScriptFlags, &str)| known.as_bytes().eq_ignore_ascii_case(name);
        ScriptFlags::NAMES.iter().find(is).map(|(flag, _)| *flag)
    }

    /// The names of those that are set.
    pub(in crate::script) fn names(self) -> impl Iterator<Item = &'static str> {
        ScriptFlags::NAMES
            .iter()
            .filter(move |(flag, _)| self.contains(*flag))
            .map(|(_, name)| *name)
    }

    pub(crate) fn contains(self, flag: ScriptFlags) -> bool {
        self.0 & flag.0 == flag.0
    }

    pub(in crate::script) fn add(&mut self, flag: ScriptFlags) {
        self.0 |= flag.0;
    }
}

/// What the first line says, and where the code begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) flags: ScriptFlags,
    /// Bytes of the first line without its line break, which stays so that lines keep their numbers.
    pub(super) len: usize,
}

/// Reads the first line.
pub(super) fn parse(body: &[u8]) -> Result<Header, CmdError> {
    if !body.starts_with(b"#!") {
        return Ok(Header {
            flags: ScriptFlags::COMPATIBLE,
            len: 0,
        });
    }
    let Some(len) = body.iter().position(|&byte| byte == b'\n') else {
        return Err(CmdError::err("Invalid script shebang"));
    };
    let mut words: Vec<Vec<u8>> = Vec::new();
    split_line(&body[..len], |word| words.push(word.to_vec()))
        .map_err(|_| CmdError::err("Invalid engine in script shebang"))?;
    let mut words = words.iter();
    let engine = words.next().map_or(&b""[..], Vec::as_slice);
    if engine != b"#!lua" {
        return Err(CmdError::err(
            [b"Unexpected engine in script shebang: ", engine].concat(),
        ));
    }
    let mut flags = ScriptFlags::NONE;
    for word in words {
        let Some(names) = word.strip_prefix(b"flags=") else {
            return Err(CmdError::err(
                [b"Unknown lua shebang option: ", &word[..]].concat(),
            ));
        };
        // No names at all are no flags; an empty name between others is an unknown one.
        for name in names.split(|&b| b == b',').filter(|_| !names.is_empty()) {
            match ScriptFlags::named(name) {
                Some(flag) => flags.add(flag),
                None => {
                    return Err(CmdError::err(
                        [b"Unexpected flag in script shebang: ", name].concat(),
                    ));
                }
            }
        }
    }
    Ok(Header { flags, len })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> String {
        parse(body.as_bytes()).expect_err("refused").to_string()
    }

    fn header(body: &str) -> (Vec<&'static str>, bool, usize) {
        let header = parse(body.as_bytes()).expect("accepted");
        let old = header.flags.contains(ScriptFlags::COMPATIBLE);
        (header.flags.names().collect(), old, header.len)
    }

    #[test]
    fn flags_are_read() {
        assert_eq!(header("return 1"), (vec![], true, 0));
        assert_eq!(header("#!lua\nreturn 1"), (vec![], false, 5));
        let two = "#!lua flags=no-writes,allow-stale \"flags=allow-oom\"\nreturn 1";
        let names = vec!["no-writes", "allow-oom", "allow-stale"];
        assert_eq!(header(two), (names, false, 51));
        assert_eq!(header("#!lua flags=\n"), (vec![], false, 12));
    }

    /// Texts of redis-server 7.0.15.
    #[test]
    fn what_is_not_known_is_refused() {
        assert_eq!(error("#!lua"), "ERR Invalid script shebang");
        assert_eq!(
            error("#!js\n"),
            "ERR Unexpected engine in script shebang: #!js"
        );
        assert_eq!(error("#!lua 'a\n"), "ERR Invalid engine in script shebang");
        assert_eq!(
            error("#!lua bad=1\n"),
            "ERR Unknown lua shebang option: bad=1"
        );
        assert_eq!(
            error("#!lua flags=nope\n"),
            "ERR Unexpected flag in script shebang: nope"
        );
        assert_eq!(
            error("#!lua flags=no-writes,\n"),
            "ERR Unexpected flag in script shebang: "
        );
    }
}
