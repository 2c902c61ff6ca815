//! What Memcached's clients keep beside a string. Their own requests are no commands of this table: see `crate::memcached`.

use tollgate_keyspace::TypeName;

use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, row};
use crate::{Acl, Args, CmdError, Cx, Event, Family, Flags, Group, Reply, Row, Run};

pub(super) static FAMILY: Family = Family {
    name: "Memcached",
    about: "What Memcached's clients keep beside a string.",
    rows: ROWS,
};

const ROWS: &[Row] = &[row(
    "MC.FLAGS",
    at_least(2),
    Flags::WRITE.or(Flags::FAST),
    Run::Keys(flags),
)
.keys(&[KeySpec::at(
    1,
    KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
)])
.acl(Group::String, Acl::STRING)
.takes("key [flags]")
.docs(
    "Returns the flags that a Memcached client has given a string, or gives it others.",
    "0.1.0",
    "O(1)",
)];

fn flags(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let wanted = match args.is_empty() {
        true => None,
        false => Some(u32::try_from(args.int()?).map_err(|_| CmdError::NotAnInteger)?),
    };
    args.end()?;
    let Some(found) = cx.inspect(key, |entry| (entry.type_name(), entry.mark())) else {
        return Ok(Reply::Null);
    };
    let (TypeName::String, mark) = found else {
        return Err(CmdError::WrongType);
    };
    let Some(flags) = wanted else {
        return Ok(Reply::Int(i64::from(mark.flags)));
    };
    if let Some(mut entry) = cx.write(key) {
        entry.change(Event::Set).set_mark(tollgate_keyspace::Mark {
            flags,
            cas: 0,
            ..mark
        });
    }
    Ok(Reply::Ok)
}
