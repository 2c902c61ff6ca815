//! Lines of tables: the first names the columns, as programs export logs. The fields are those of RFC 4180, but for line breaks.

use std::borrow::Cow;

use super::line::{Line, TIMES};

/// What stands between fields.
const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// The first line of a table.
#[derive(Debug)]
pub(super) struct Columns {
    separator: char,
    names: Vec<String>,
}

impl Columns {
    /// Those that a recording's first line names, one of which must be that of the time: `named`, or called as is usual.
    pub(super) fn of(first: &str, named: Option<&str>) -> Option<Self> {
        let first = first.trim_start_matches('\u{feff}');
        let is_time = |name: &str| named.map_or_else(|| TIMES.contains(&name), |time| name == time);
        SEPARATORS.into_iter().find_map(|separator| {
            let names = cells(first, separator)?;
            let names: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
            let has_time = names.iter().any(|name| is_time(name));
            has_time.then_some(Self { separator, names })
        })
    }

    /// A line below. What is empty or a hyphen says nothing.
    pub(super) fn line<'a>(&'a self, text: &'a str) -> Result<Line<'a>, String> {
        let cells = cells(text, self.separator).ok_or("a quote is not where a field has one")?;
        if cells.len() != self.names.len() {
            let (told, named) = (cells.len(), self.names.len());
            return Err(format!("it has {told} fields, and the first line {named}"));
        }
        let names = self.names.iter().map(|name| &**name);
        Ok(Line::table(names.zip(cells)))
    }
}

/// The fields of a line. `None` where a quote is not closed, or stands inside a field that does not begin with one.
fn cells(text: &str, separator: char) -> Option<Vec<Cow<'_, str>>> {
    let mut cells = Vec::new();
    let mut rest = text.trim_end_matches(['\r', '\n']);
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(inside) => quoted(inside)?,
            None => {
                let end = rest.find(separator).unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..end]), &rest[end..])
            }
        };
        cells.push(cell);
        match after.strip_prefix(separator) {
            Some(next) => rest = next,
            None if after.is_empty() => return Some(cells),
            None => return None,
        }
    }
}

/// What is in quotes, a doubled one inside being one, and what comes behind.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut from = 0;
    loop {
        let end = from + text[from..].find('"')?;
        match text[end + 1..].starts_with('"') {
            true => from = end + 2,
            false => {
                let cell = match from {
                    0 => Cow::Borrowed(&text[..end]),
                    _ => Cow::Owned(text[..end].replace("\"\"", "\"")),
                };
                return Some((cell, &text[end + 1..]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(first: &str, line: &str, names: &[&str]) -> Result<Vec<String>, String> {
        let columns = Columns::of(first, None).expect("columns");
        let line = columns.line(line)?;
        let field = |name: &&str| line.field(name).unwrap_or_default().into_owned();
        Ok(names.iter().map(field).collect())
    }

    #[test]
    fn fields_may_be_quoted() {
        let names = ["time", "user", "path"];
        for (first, line) in [
            ("time,user,path\r\n", "1,\"a,\"\"n\"\"\",/x y\r\n"),
            ("\u{feff}\"time\"; user ;path", "1;\"a,\"\"n\"\"\";/x y"),
            ("path\tuser\ttime", "/x y\t\"a,\"\"n\"\"\"\t1"),
        ] {
            assert_eq!(
                said(first, line, &names).expect(line),
                ["1", "a,\"n\"", "/x y"]
            );
        }
        assert_eq!(
            said("time,user,path", "1,-,", &names),
            Ok(["1", "", ""].map(str::to_owned).to_vec())
        );
        let reason = "it has 2 fields, and the first line 3";
        assert_eq!(said("time,user,path", "1,a", &names), Err(reason.into()));
        for odd in ["1,\"a,b", "1,\"a\"b,c", "\""] {
            let reason = "a quote is not where a field has one";
            assert_eq!(said("time,user,path", odd, &names), Err(reason.into()));
        }
    }

    #[test]
    fn a_first_line_without_a_time_is_none() {
        for text in [
            "",
            "user,path",
            "times,user",
            r#"{"time": 1, "user": "a"}"#,
            r#"10.0.0.7 - ann [22/Nov/2026:10:00:01 +0100] "GET /a,time HTTP/1.1" 200 12"#,
        ] {
            assert!(Columns::of(text, None).is_none(), "{text}");
        }
        assert!(Columns::of("user,when", Some("when")).is_some());
        assert!(Columns::of("user,time", Some("when")).is_none());
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_odd(text in r#"[",;a ü-]{0,20}"#) {
            for separator in SEPARATORS {
                let Some(read) = cells(&text, separator) else {
                    continue;
                };
                let quote = |cell: &Cow<'_, str>| format!("\"{}\"", cell.replace('"', "\"\""));
                let written: Vec<String> = read.iter().map(quote).collect();
                let written = written.join(&separator.to_string());
                proptest::prop_assert_eq!(cells(&written, separator), Some(read));
            }
        }
    }
}
