//! LPOS: where an element is.

use smallvec::SmallVec;
use tollgate_containers::Container;
use tollgate_containers::list::List;
use tollgate_containers::number;

use crate::{Args, CmdError, Cx, Reply};

struct Options {
    /// The first match that counts, from 1 on; negative ones from the end of the list.
    rank: i64,
    /// How many matches; 0 = all. `None`: one, and not as an array.
    count: Option<usize>,
    /// How many elements are compared; 0 = all.
    max_len: usize,
}

impl Options {
    fn parse(mut args: Args<'_>) -> Result<Options, CmdError> {
        let mut options = Options {
            rank: 1,
            count: None,
            max_len: 0,
        };
        while !args.is_empty() {
            if args.keyword("RANK") {
                options.rank = args.signed_count()?;
                if options.rank == 0 {
                    return Err(CmdError::RankZero);
                }
            } else if args.keyword("COUNT") {
                options.count = Some(not_negative(&mut args, CmdError::CountNegative)?);
            } else if args.keyword("MAXLEN") {
                options.max_len = not_negative(&mut args, CmdError::MaxLenNegative)?;
            } else {
                return Err(CmdError::Syntax);
            }
        }
        Ok(options)
    }

    /// Positions of the matches among `elements`, which come in the order of the search.
    fn find<'e>(
        &self,
        elements: impl Iterator<Item = &'e [u8]>,
        wanted: &[u8],
    ) -> SmallVec<[usize; 8]> {
        let all = |n: usize| if n == 0 { usize::MAX } else { n };
        let skipped = usize::try_from(self.rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
        elements
            .take(all(self.max_len))
            .enumerate()
            .filter(|(_, element)| *element == wanted)
            .map(|(position, _)| position)
            .skip(skipped)
            .take(self.count.map_or(1, all))
            .collect()
    }
}

fn not_negative(args: &mut Args<'_>, error: CmdError) -> Result<usize, CmdError> {
    let number = number::parse_i64(args.next()?);
    number.and_then(|n| usize::try_from(n).ok()).ok_or(error)
}

pub(super) fn lpos(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let wanted = args.next()?;
    let options = Options::parse(args)?;
    let found = match cx.read_as::<List>(key)? {
        None => SmallVec::new(),
        Some(seen) if options.rank > 0 => options.find(seen.value.iter(), wanted),
        Some(seen) => {
            let last = seen.value.len() - 1;
            let mut found = options.find(seen.value.iter_back(), wanted);
            found
                .iter_mut()
                .for_each(|position| *position = last - *position);
            found
        }
    };
    if options.count.is_none() {
        return Ok(found.first().map_or(Reply::Null, |&at| Reply::count(at)));
    }
    cx.out.array(found.len());
    found.iter().for_each(|&at| cx.out.int(at as i64));
    Ok(Reply::Written)
}
