//! Searches for the members within an area, returned or stored.

use tollgate_containers::geo::{Area, Position, Shape};
use tollgate_containers::number;
use tollgate_containers::sorted_set::{ScoreBound, Scores, SortedSet};
use tollgate_keyspace::Key;
use tollgate_wire::resp::ReplyBuf;

use super::{geo, zset};
use crate::{Args, CmdError, Cx, Event, Reply};

/// What the command's name fixes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// GEOSEARCH.
    Search,
    /// GEOSEARCHSTORE.
    SearchStore,
    /// GEORADIUS: a position and a radius; with STORE and STOREDIST where it may store.
    Radius { stores: bool },
    /// GEORADIUSBYMEMBER: the same around a member.
    RadiusByMember { stores: bool },
}

impl Dialect {
    /// The area is stated by options.
    fn is_search(self) -> bool {
        matches!(self, Dialect::Search | Dialect::SearchStore)
    }

    /// The options STORE and STOREDIST are taken, with a key.
    fn takes_store(self) -> bool {
        matches!(
            self,
            Dialect::Radius { stores: true } | Dialect::RadiusByMember { stores: true }
        )
    }
}

#[derive(Clone, Copy)]
enum Order {
    Nearest,
    Farthest,
}

/// What a call asks for.
struct Query<'a> {
    /// `None` where it is a member of a set that is not there.
    centre: Option<Position>,
    from_member: bool,
    from_position: bool,
    shape: Option<Shape>,
    /// Metres of the unit that distances are shown in.
    unit: f64,
    order: Option<Order>,
    /// Most members, if there is a limit.
    count: Option<usize>,
    /// The first members found will do.
    any: bool,
    with_position: bool,
    with_distance: bool,
    with_hash: bool,
    store: Option<Key<'a>>,
    /// Distances are stored, not hashes.
    store_distance: bool,
}

/// The position of a member of the set that is searched; `None` where there is no such set.
fn member_position(set: Option<&SortedSet>, member: &[u8]) -> Result<Option<Position>, CmdError> {
    let Some(set) = set else {
        return Ok(None);
    };
    let score = set.score(member).ok_or(CmdError::NoSuchPosition)?;
    Ok(Some(Position::of_score(score)))
}

/// The next two words as a radius and its unit: both in metres.
fn radius(args: &mut Args<'_>) -> Result<(Shape, f64), CmdError> {
    let radius = number::parse_f64(args.next()?).ok_or(CmdError::RadiusNotAFloat)?;
    if radius < 0.0 {
        return Err(CmdError::NegativeRadius);
    }
    let unit = geo::unit_m(args)?;
    let radius = radius * unit;
    Ok((Shape::Circle { radius }, unit))
}

/// The next three words as width, height and their unit.
fn rectangle(args: &mut Args<'_>) -> Result<(Shape, f64), CmdError> {
    let width = number::parse_f64(args.next()?).ok_or(CmdError::WidthNotAFloat)?;
    let height = number::parse_f64(args.next()?).ok_or(CmdError::HeightNotAFloat)?;
    if width < 0.0 || height < 0.0 {
        return Err(CmdError::NegativeBox);
    }
    let unit = geo::unit_m(args)?;
    let (width, height) = (width * unit, height * unit);
    Ok((Shape::Box { width, height }, unit))
}

/// The next words as the corners of a polygon: how many there are, then each.
fn polygon(args: &mut Args<'_>) -> Result<Vec<Position>, CmdError> {
    let corners = number::parse_i64(args.next()?).and_then(|corners| i32::try_from(corners).ok());
    let corners = corners.ok_or(CmdError::VerticesNotAnInteger)?;
    match usize::try_from(corners) {
        Ok(corners @ 3..) if corners <= args.len() / 2 => {
            (0..corners).map(|_| geo::position(args)).collect()
        }
        _ => Err(CmdError::TooFewVertices),
    }
}

impl<'a> Query<'a> {
    /// Reads the words behind the key. `set` is what lies there.
    fn parse(
        mut args: Args<'a>,
        dialect: Dialect,
        store: Option<Key<'a>>,
        set: Option<&SortedSet>,
    ) -> Result<Query<'a>, CmdError> {
        let mut query = Query {
            centre: None,
            from_member: false,
            from_position: false,
            shape: None,
            unit: 1.0,
            order: None,
            count: None,
            any: false,
            with_position: false,
            with_distance: false,
            with_hash: false,
            store,
            store_distance: false,
        };
        match dialect {
            Dialect::Search | Dialect::SearchStore => {}
            Dialect::Radius { .. } => {
                query.centre = Some(geo::position(&mut args)?);
                query.set_shape(radius(&mut args)?);
            }
            Dialect::RadiusByMember { .. } => {
                query.centre = member_position(set, args.next()?)?;
                if set.is_some() {
                    query.set_shape(radius(&mut args)?);
                } else {
                    // Without a set nobody looks at the radius.
                    args.next()?;
                    args.next()?;
                }
            }
        }
        while !args.is_empty() {
            let known = query.common_option(&mut args)?
                || (dialect.takes_store() && query.store_option(&mut args)?)
                || (dialect.is_search() && query.area_option(&mut args, set)?)
                || (dialect == Dialect::SearchStore && query.distance_option(&mut args));
            if !known {
                return Err(CmdError::Syntax);
            }
        }
        query.check(dialect, args.all()[0])?;
        Ok(query)
    }

    fn set_shape(&mut self, (shape, unit): (Shape, f64)) {
        self.shape = Some(shape);
        self.unit = unit;
    }

    /// Options that all searches take; says whether it was one.
    fn common_option(&mut self, args: &mut Args<'_>) -> Result<bool, CmdError> {
        if args.keyword("WITHDIST") {
            self.with_distance = true;
        } else if args.keyword("WITHHASH") {
            self.with_hash = true;
        } else if args.keyword("WITHCOORD") {
            self.with_position = true;
        } else if args.keyword("ANY") {
            self.any = true;
        } else if args.keyword("ASC") {
            self.order = Some(Order::Nearest);
        } else if args.keyword("DESC") {
            self.order = Some(Order::Farthest);
        } else if args.len() > 1 && args.keyword("COUNT") {
            self.count = match usize::try_from(args.int()?) {
                Ok(count @ 1..) => Some(count),
                _ => return Err(CmdError::GeoCountNotPositive),
            };
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// STORE and STOREDIST of GEORADIUS; says whether it was one.
    fn store_option(&mut self, args: &mut Args<'a>) -> Result<bool, CmdError> {
        let distance = match args.len() {
            2.. if args.keyword("STORE") => false,
            2.. if args.keyword("STOREDIST") => true,
            _ => return Ok(false),
        };
        self.store_distance = distance;
        self.store = Some(args.key()?);
        Ok(true)
    }

    /// STOREDIST of GEOSEARCHSTORE; says whether it was that.
    fn distance_option(&mut self, args: &mut Args<'_>) -> bool {
        let found = args.keyword("STOREDIST");
        self.store_distance |= found;
        found
    }

    /// What states the area of GEOSEARCH; says whether it was that.
    fn area_option(
        &mut self,
        args: &mut Args<'_>,
        set: Option<&SortedSet>,
    ) -> Result<bool, CmdError> {
        let is_box = matches!(self.shape, Some(Shape::Box { .. }));
        let is_circle = matches!(self.shape, Some(Shape::Circle { .. }));
        let is_polygon = matches!(self.shape, Some(Shape::Polygon { .. }));
        let stands_alone = !is_box && !is_circle && !self.from_member && !self.from_position;
        if args.len() > 1 && !self.from_position && !is_polygon && args.keyword("FROMMEMBER") {
            self.centre = member_position(set, args.next()?)?;
            self.from_member = true;
        } else if args.len() > 2 && !self.from_member && !is_polygon && args.keyword("FROMLONLAT") {
            self.centre = Some(geo::position(args)?);
            self.from_position = true;
        } else if args.len() > 2 && !is_box && !is_polygon && args.keyword("BYRADIUS") {
            self.set_shape(radius(args)?);
        } else if args.len() > 3 && !is_circle && !is_polygon && args.keyword("BYBOX") {
            self.set_shape(rectangle(args)?);
        } else if args.len() > 2 && stands_alone && args.keyword("BYPOLYGON") {
            let corners = polygon(args)?;
            self.centre = Some(Shape::middle(&corners));
            self.set_shape((Shape::Polygon { corners }, 1.0));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether the options fit together.
    fn check(&self, dialect: Dialect, name: &[u8]) -> Result<(), CmdError> {
        let details = self.with_distance || self.with_hash || self.with_position;
        if self.store.is_some() && details {
            return Err(CmdError::stores_no_details(match dialect {
                Dialect::SearchStore => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            }));
        }
        let has_centre = matches!(self.shape, Some(Shape::Polygon { .. }));
        if dialect.is_search() && !(self.from_member || self.from_position || has_centre) {
            return Err(CmdError::exactly_one_of("FROMMEMBER or FROMLONLAT", name));
        }
        if dialect.is_search() && self.shape.is_none() {
            return Err(CmdError::exactly_one_of("BYRADIUS and BYBOX", name));
        }
        if self.any && self.count.is_none() {
            return Err(CmdError::AnyWithoutCount);
        }
        Ok(())
    }

    /// The members in the area, in the order and number asked for.
    fn run<'s>(&self, set: &'s SortedSet) -> Vec<Found<'s>> {
        let (Some(centre), Some(shape)) = (self.centre, self.shape.clone()) else {
            return Vec::new();
        };
        let enough = self.count.filter(|_| self.any).unwrap_or(usize::MAX);
        let mut found = collect(set, &Area { centre, shape }, enough);
        // The nearest of all are wanted, unless any will do.
        let nearest = self.count.filter(|_| !self.any).map(|_| Order::Nearest);
        match self.order.or(nearest) {
            Some(Order::Nearest) => found.sort_by(|a, b| a.distance_m.total_cmp(&b.distance_m)),
            Some(Order::Farthest) => found.sort_by(|a, b| b.distance_m.total_cmp(&a.distance_m)),
            None => {}
        }
        found.truncate(self.count.unwrap_or(usize::MAX));
        found
    }

    fn write(&self, out: &mut ReplyBuf, found: &[Found<'_>]) {
        let details = [self.with_distance, self.with_hash, self.with_position];
        let details = details.into_iter().filter(|&shown| shown).count();
        out.array(found.len());
        for found in found {
            if details > 0 {
                out.array(details + 1);
            }
            out.bulk(found.member);
            if self.with_distance {
                geo::write_distance(out, found.distance_m / self.unit);
            }
            if self.with_hash {
                out.int(found.score as i64);
            }
            if self.with_position {
                geo::write_position(out, found.position);
            }
        }
    }

    /// What is stored of them.
    fn scores(&self, found: &[Found<'_>], secret: u64) -> Scores {
        let mut scores = Scores::new(secret);
        for found in found {
            let score = match self.store_distance {
                true => found.distance_m / self.unit,
                false => found.score,
            };
            // Around the edges of the Earth one cell may be searched twice.
            if scores.find(found.member).is_none() {
                scores.push(found.member, score);
            }
        }
        scores
    }
}

struct Found<'s> {
    member: &'s [u8],
    score: f64,
    position: Position,
    distance_m: f64,
}

/// The members in the area; the search ends with `enough` of them.
fn collect<'s>(set: &'s SortedSet, area: &Area, enough: usize) -> Vec<Found<'s>> {
    let mut found = Vec::new();
    for cell in area.cells() {
        let (first, end) = cell.hashes();
        let bound = |hash: u64, exclusive| ScoreBound {
            score: hash as f64,
            exclusive,
        };
        for (member, score) in set.range(set.range_by_score(bound(first, false), bound(end, true)))
        {
            if found.len() >= enough {
                return found;
            }
            let position = Position::of_score(score);
            if let Some(distance_m) = area.distance_m(position) {
                found.push(Found {
                    member,
                    score,
                    position,
                    distance_m,
                });
            }
        }
    }
    found
}

pub(super) fn geosearch(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    search(cx, args, Dialect::Search)
}

pub(super) fn geosearchstore(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    search(cx, args, Dialect::SearchStore)
}

pub(super) fn georadius(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    search(cx, args, Dialect::Radius { stores: true })
}

pub(super) fn georadius_ro(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    search(cx, args, Dialect::Radius { stores: false })
}

pub(super) fn georadiusbymember(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    search(cx, args, Dialect::RadiusByMember { stores: true })
}

pub(super) fn georadiusbymember_ro(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    search(cx, args, Dialect::RadiusByMember { stores: false })
}

fn search(cx: &mut Cx<'_>, mut args: Args<'_>, dialect: Dialect) -> Result<Reply, CmdError> {
    let mut store = None;
    if dialect == Dialect::SearchStore {
        store = Some(args.key()?);
    }
    let source = args.key()?;
    let limits = zset::limits(cx.limits, cx.seed);
    let (query, scores) = match cx.read_as::<SortedSet>(source)? {
        None => {
            let query = Query::parse(args, dialect, store, None)?;
            if query.store.is_none() {
                cx.out.array(0);
                return Ok(Reply::Written);
            }
            (query, Scores::new(limits.secret))
        }
        Some(seen) => {
            let query = Query::parse(args, dialect, store, Some(seen.value))?;
            let found = query.run(seen.value);
            if query.store.is_none() {
                query.write(seen.out, &found);
                return Ok(Reply::Written);
            }
            let scores = query.scores(&found, limits.secret);
            (query, scores)
        }
    };
    let count = scores.len();
    if let Some(destination) = query.store {
        let event = match dialect.is_search() {
            true => Event::GeoSearchStore,
            false => Event::GeoRadiusStore,
        };
        cx.put(destination, SortedSet::from_scores(scores, limits), event);
        cx.effects.count(count.saturating_sub(1) as u64);
    }
    Ok(Reply::count(count))
}
