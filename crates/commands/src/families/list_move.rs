//! Moving an element from one list to another, also waiting for one.

use tollgate_containers::list::List;
use tollgate_keyspace::Key;

use super::list::{End, node_limit};
use super::list_pop::take;
use crate::cx_object::Create;
use crate::{Args, CmdError, Cx, Reply};

/// From where to where.
struct Route<'a> {
    source: Key<'a>,
    target: Key<'a>,
    from: End,
    to: End,
}

impl<'a> Route<'a> {
    /// Reads two keys and their ends.
    fn parse(args: &mut Args<'a>) -> Result<Route<'a>, CmdError> {
        Ok(Route {
            source: args.key()?,
            target: args.key()?,
            from: End::parse(args)?,
            to: End::parse(args)?,
        })
    }

    /// Reads two keys: from the end of one to the front of the other.
    fn right_to_left(args: &mut Args<'a>) -> Result<Route<'a>, CmdError> {
        Ok(Route {
            source: args.key()?,
            target: args.key()?,
            from: End::Right,
            to: End::Left,
        })
    }

    /// Moves an element and replies with it; false when there is none.
    fn go(&self, cx: &mut Cx<'_>) -> Result<bool, CmdError> {
        let Some(list) = cx.find_as::<List>(self.source)? else {
            return Ok(false);
        };
        let element = match self.from {
            End::Left => list.first(),
            End::Right => list.last(),
        };
        let element = element.unwrap_or_default().to_vec();
        // A target of another type is found before anything changes.
        cx.find_as::<List>(self.target)?;
        if self.source.bytes() == self.target.bytes() {
            self.rotate(cx, &element)?;
        } else {
            cx.change::<List, _>(self.target, Create::Yes, |change| {
                let limit = node_limit(change.limits);
                self.to.push(change.value, &element, limit);
                change.touched_along(self.to.push_event());
                Ok(())
            })?;
            cx.change::<List, _>(self.source, Create::No, |change| {
                take(change, self.from, 1);
                Ok(())
            })?;
        }
        cx.out.bulk(&element);
        Ok(true)
    }

    /// Within one list, which is not empty in between.
    fn rotate(&self, cx: &mut Cx<'_>, element: &[u8]) -> Result<(), CmdError> {
        cx.change::<List, _>(self.source, Create::No, |change| {
            match self.from {
                End::Left => change.value.drop_first(),
                End::Right => change.value.drop_last(),
            }
            let limit = node_limit(change.limits);
            self.to.push(change.value, element, limit);
            change.touched(self.to.push_event());
            change.note(self.from.pop_event());
            Ok(())
        })?;
        Ok(())
    }
}

pub(super) fn lmove(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let moved = Route::parse(&mut args)?.go(cx)?;
    Ok(if moved { Reply::Written } else { Reply::Null })
}

pub(super) fn rpoplpush(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let moved = Route::right_to_left(&mut args)?.go(cx)?;
    Ok(if moved { Reply::Written } else { Reply::Null })
}

pub(super) fn blmove(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let route = Route::parse(&mut args)?;
    wait_and_go(cx, args, &route)
}

pub(super) fn brpoplpush(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let route = Route::right_to_left(&mut args)?;
    wait_and_go(cx, args, &route)
}

fn wait_and_go(cx: &mut Cx<'_>, mut args: Args<'_>, route: &Route<'_>) -> Result<Reply, CmdError> {
    let deadline = args.timeout(cx.now_ms())?;
    if route.go(cx)? {
        return Ok(Reply::Written);
    }
    Ok(cx.wait_or(deadline, Reply::Null))
}
