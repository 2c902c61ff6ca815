//! LCS: the longest common subsequence of two strings.

use tollgate_containers::lcs::{Lcs, Match};
use tollgate_containers::number;
use tollgate_wire::resp::ReplyBuf;

use super::string_edit::{longest_string, read_strings};
use crate::{Args, CmdError, Cx, Reply};

#[derive(Default)]
struct Options {
    len: bool,
    idx: bool,
    min_match_len: usize,
    with_match_len: bool,
}

impl Options {
    fn parse(mut args: Args<'_>) -> Result<Options, CmdError> {
        let mut options = Options::default();
        while !args.is_empty() {
            if args.keyword("IDX") {
                options.idx = true;
            } else if args.keyword("LEN") {
                options.len = true;
            } else if args.keyword("WITHMATCHLEN") {
                options.with_match_len = true;
            } else if args.keyword("MINMATCHLEN") {
                let least = number::parse_i64(args.next()?).ok_or(CmdError::NotAnInteger)?;
                options.min_match_len = usize::try_from(least).unwrap_or(0);
            } else {
                return Err(CmdError::Syntax);
            }
        }
        if options.len && options.idx {
            return Err(CmdError::LcsLenAndIdx);
        }
        Ok(options)
    }
}

pub(super) fn lcs(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let keys = [args.key()?, args.key()?];
    let most = longest_string(cx) as u128;
    let (options, len, mut matches, common) = {
        let strings = read_strings(cx, &keys, |_| true).map_err(|_| CmdError::LcsNotStrings)?;
        let options = Options::parse(args)?;
        let [a, b] = [0, 1].map(|at| strings[at].as_deref().unwrap_or_default());
        if Lcs::table_bytes(a.len(), b.len()) > most {
            return Err(CmdError::LcsTooLarge);
        }
        let lcs = Lcs::new(a, b);
        let matches = if options.idx {
            lcs.matches()
        } else {
            Vec::new()
        };
        let wants_bytes = !options.idx && !options.len;
        let common = wants_bytes.then(|| lcs.to_bytes());
        (options, lcs.len(), matches, common)
    };
    if let Some(common) = common {
        cx.out.bulk(&common);
        return Ok(Reply::Written);
    }
    if options.len {
        return Ok(Reply::count(len));
    }
    matches.retain(|run| run.a.len() >= options.min_match_len);
    write_matches(cx.out, &matches, len, options.with_match_len);
    Ok(Reply::Written)
}

fn write_matches(out: &mut ReplyBuf, matches: &[Match], len: usize, with_lengths: bool) {
    out.map(2);
    out.bulk(b"matches");
    out.array(matches.len());
    for run in matches {
        out.array(2 + usize::from(with_lengths));
        for range in [&run.a, &run.b] {
            out.array(2);
            out.int(range.start as i64);
            out.int(range.end as i64 - 1);
        }
        if with_lengths {
            out.int(run.a.len() as i64);
        }
    }
    out.bulk(b"len");
    out.int(len as i64);
}
