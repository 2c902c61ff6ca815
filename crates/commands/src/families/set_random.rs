//! Random members of a set: SPOP and SRANDMEMBER.

use tollgate_containers::Container as _;
use tollgate_containers::set::{Member, Set};
use tollgate_wire::resp::ReplyBuf;

use super::sample::{MAX_PICKS, sample};
use super::set::write_member;
use crate::{Args, CmdError, Create, Cx, Event, Reply, Rng};

/// Removes one random member, or several.
pub(super) fn spop(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let count = match args.len() {
        0 => None,
        1 => Some(args.positive()?),
        _ => return Err(CmdError::Syntax),
    };
    let popped = cx.change(key, Create::No, |change| {
        let set: &mut Set = change.value;
        let Some(count) = count else {
            let at = change.rng.below(set.len());
            if let Some(member) = set.remove_nth(at) {
                change.out.bulk(member.as_slice());
                change.touched(Event::SPop);
            }
            return Ok(());
        };
        let count = count.min(set.len());
        change.out.set(count);
        if count == 0 {
            return Ok(());
        }
        if count == set.len() {
            write_all(set, change.out);
            *set = Set::default();
        } else {
            let positions = sample(change.rng, set.len(), count);
            set.pick(&positions, &mut |member| write_member(member, change.out));
            set.remove_positions(&positions);
        }
        change.touched_times(Event::SPop, count);
        Ok(())
    })?;
    match (popped, count) {
        (Some(()), _) => {}
        (None, None) => return Ok(Reply::Null),
        (None, Some(_)) => cx.out.set(0),
    }
    Ok(Reply::Written)
}

/// Returns one random member, several different ones, or with a negative count as many as asked for.
pub(super) fn srandmember(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let count = match args.len() {
        0 => None,
        1 => Some(args.signed_count()?),
        _ => return Err(CmdError::Syntax),
    };
    let Some(seen) = cx.read_as::<Set>(key)? else {
        return Ok(match count {
            None => Reply::Null,
            Some(_) => {
                cx.out.array(0);
                Reply::Written
            }
        });
    };
    let (set, out) = (seen.value, seen.out);
    match count {
        None => write_member(random(set, seen.rng), out),
        Some(count @ ..0) => {
            let count = count.unsigned_abs();
            if count > MAX_PICKS {
                return Err(CmdError::OutOfRange);
            }
            out.array(count as usize);
            for _ in 0..count {
                write_member(random(set, seen.rng), out);
            }
        }
        Some(count) => {
            let count = usize::try_from(count).map_or(set.len(), |count| count.min(set.len()));
            out.array(count);
            if count == set.len() {
                write_all(set, out);
            } else {
                let positions = sample(seen.rng, set.len(), count);
                set.pick(&positions, &mut |member| write_member(member, out));
            }
        }
    }
    Ok(Reply::Written)
}

/// Any member of a set, which is not empty.
fn random<'s>(set: &'s Set, rng: &mut Rng) -> Member<'s> {
    let member = set.nth(rng.below(set.len()));
    member.unwrap_or(Member::Bytes(b""))
}

fn write_all(set: &Set, out: &mut ReplyBuf) {
    set.iter().for_each(|member| write_member(member, out));
}
