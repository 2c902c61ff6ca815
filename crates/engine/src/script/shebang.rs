//! The first line of a script: `#!lua flags=no-writes,allow-stale`.

use tollgate_commands::CmdError;

/// What the first line says, and where the code begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The script may not write.
    pub(super) no_writes: bool,
    /// Bytes of the first line without its line break, which stays so that lines keep their numbers.
    pub(super) len: usize,
}

/// Reads the first line. Flags that concern memory limits, stale replicas and clusters are accepted and change nothing.
pub(super) fn parse(body: &[u8]) -> Result<Header, CmdError> {
    if !body.starts_with(b"#!") {
        return Ok(Header {
            no_writes: false,
            len: 0,
        });
    }
    let Some(len) = body.iter().position(|&byte| byte == b'\n') else {
        return Err(CmdError::err("Invalid script shebang"));
    };
    let mut words = body[..len]
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err(CmdError::err(
            [b"Unexpected engine in script shebang: ", engine].concat(),
        ));
    }
    let mut no_writes = false;
    for word in words {
        let Some(flags) = word.strip_prefix(b"flags=") else {
            return Err(CmdError::err(
                [b"Unknown lua shebang option: ", word].concat(),
            ));
        };
        for flag in flags
            .split(|&byte| byte == b',')
            .filter(|flag| !flag.is_empty())
        {
            match flag {
                b"no-writes" => no_writes = true,
                b"allow-oom" | b"allow-stale" | b"no-cluster" | b"allow-cross-slot-keys" => {}
                _ => {
                    return Err(CmdError::err(
                        [b"Unexpected flag in script shebang: ", flag].concat(),
                    ));
                }
            }
        }
    }
    Ok(Header { no_writes, len })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> String {
        parse(body.as_bytes()).expect_err("refused").to_string()
    }

    #[test]
    fn flags_are_read() {
        assert_eq!(
            parse(b"return 1"),
            Ok(Header {
                no_writes: false,
                len: 0
            })
        );
        assert_eq!(
            parse(b"#!lua\nreturn 1"),
            Ok(Header {
                no_writes: false,
                len: 5
            })
        );
        let two = b"#!lua flags=no-writes,allow-stale flags=allow-oom\nreturn 1";
        assert_eq!(
            parse(two),
            Ok(Header {
                no_writes: true,
                len: 49
            })
        );
    }

    /// Texts of redis-server 7.0.15.
    #[test]
    fn what_is_not_known_is_refused() {
        assert_eq!(error("#!lua"), "ERR Invalid script shebang");
        assert_eq!(
            error("#!js\n"),
            "ERR Unexpected engine in script shebang: #!js"
        );
        assert_eq!(
            error("#!lua bad=1\n"),
            "ERR Unknown lua shebang option: bad=1"
        );
        assert_eq!(
            error("#!lua flags=nope\n"),
            "ERR Unexpected flag in script shebang: nope"
        );
    }
}
