//! Positions on Earth as 52-bit hashes, distances between them, and the cells of a search.
//!
//! A hash interleaves 26 bits of latitude with 26 of longitude, so positions near each other mostly share the leading bits,
//! and a cell (all positions with the same first `2 * step` bits) is a range of hashes. A search looks at the cell of its
//! centre and the eight around it. All arithmetic is in the order in which Redis does it, so that numbers are equal to the
//! last digit.

/// Bits of each coordinate in a stored hash.
pub const STEP_MAX: u8 = 26;

/// Largest latitude, in degrees, that the Mercator projection of maps knows.
const LATITUDE_MAX: f64 = 85.051_128_78;
const LONGITUDE_MAX: f64 = 180.0;
/// What the last position within the last cell is below those limits, in degrees, at least.
const EDGE: f64 = 1e-6;
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Half of the equator in metres.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// A position in degrees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Position {
    /// East of Greenwich when positive.
    pub longitude: f64,
    /// North of the equator when positive.
    pub latitude: f64,
}

#[derive(Clone, Copy)]
struct Span {
    min: f64,
    max: f64,
}

const LONGITUDES: Span = Span {
    min: -LONGITUDE_MAX,
    max: LONGITUDE_MAX,
};
const LATITUDES: Span = Span {
    min: -LATITUDE_MAX,
    max: LATITUDE_MAX,
};

impl Span {
    /// Where a value lies in the span, from 0 to 2^`step`.
    fn cell(self, value: f64, step: u8) -> u32 {
        let offset = (value - self.min) / (self.max - self.min);
        (offset * (1_u64 << step) as f64) as u32
    }

    /// The part of the span that belongs to a cell.
    fn part(self, cell: u32, step: u8) -> Span {
        let cells = (1_u64 << step) as f64;
        let scale = self.max - self.min;
        Span {
            min: self.min + (f64::from(cell) / cells) * scale,
            max: self.min + (f64::from(cell.wrapping_add(1)) / cells) * scale,
        }
    }

    fn middle(self) -> f64 {
        (self.min + self.max) / 2.0
    }
}

impl Position {
    /// Whether positions such as this one can be stored.
    pub fn is_valid(self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// The 52-bit hash of a valid position.
    pub fn hash(self) -> u64 {
        Cell::of(self, STEP_MAX).bits
    }

    /// The middle of what the hash in a score stands for.
    pub fn of_score(score: f64) -> Position {
        // As C converts on x86-64: a negative number wraps around, one beyond 64 bits is 0. Only scores that are no hashes
        // are such numbers.
        let bits = match score {
            ..0.0 => score as i64 as u64,
            18_446_744_073_709_551_616.0.. => 0,
            _ => score as u64,
        };
        let cell = Cell {
            bits,
            step: STEP_MAX,
        };
        let (longitude, latitude) = cell.spans();
        Position {
            longitude: longitude.middle().clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: latitude.middle().clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// The standard geohash: 11 letters, of which the last, for which 52 bits do not suffice, is always `0`.
    pub fn geohash(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        // The standard takes latitudes up to the poles.
        let latitudes = Span {
            min: -90.0,
            max: 90.0,
        };
        let bits = interleave(
            latitudes.cell(self.latitude, STEP_MAX),
            LONGITUDES.cell(self.longitude, STEP_MAX),
        );
        let mut text = [b'0'; 11];
        for (i, letter) in text.iter_mut().take(10).enumerate() {
            *letter = ALPHABET[(bits >> (52 - (i + 1) * 5)) as usize & 0x1f];
        }
        text
    }

    /// The distance in metres over the surface.
    pub fn distance_m(self, other: Position) -> f64 {
        let (longitude, other_longitude) = (radians(self.longitude), radians(other.longitude));
        let v = ((other_longitude - longitude) / 2.0).sin();
        if v == 0.0 {
            return latitude_distance_m(self.latitude, other.latitude);
        }
        let (latitude, other_latitude) = (radians(self.latitude), radians(other.latitude));
        let u = ((other_latitude - latitude) / 2.0).sin();
        let a = u * u + latitude.cos() * other_latitude.cos() * v * v;
        2.0 * EARTH_RADIUS_M * a.sqrt().asin()
    }
}

fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

fn latitude_distance_m(latitude: f64, other: f64) -> f64 {
    EARTH_RADIUS_M * (radians(other) - radians(latitude)).abs()
}

/// The bits of `even` and `odd` in turn, beginning with the lowest of `even`.
fn interleave(even: u32, odd: u32) -> u64 {
    spread(even) | spread(odd) << 1
}

/// Puts a zero above each bit.
fn spread(bits: u32) -> u64 {
    let mut wide = u64::from(bits);
    wide = (wide | wide << 16) & 0x0000_ffff_0000_ffff;
    wide = (wide | wide << 8) & 0x00ff_00ff_00ff_00ff;
    wide = (wide | wide << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    wide = (wide | wide << 2) & 0x3333_3333_3333_3333;
    (wide | wide << 1) & 0x5555_5555_5555_5555
}

/// Every second bit, beginning with the lowest.
fn gather(bits: u64) -> u32 {
    let mut wide = bits & 0x5555_5555_5555_5555;
    wide = (wide | wide >> 1) & 0x3333_3333_3333_3333;
    wide = (wide | wide >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    wide = (wide | wide >> 4) & 0x00ff_00ff_00ff_00ff;
    wide = (wide | wide >> 8) & 0x0000_ffff_0000_ffff;
    (wide | wide >> 16) as u32
}

/// All positions whose hashes begin with the same `2 * step` bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    bits: u64,
    step: u8,
}

impl Cell {
    fn of(position: Position, step: u8) -> Cell {
        let latitude = LATITUDES.cell(position.latitude, step);
        let longitude = LONGITUDES.cell(position.longitude, step);
        Cell {
            bits: interleave(latitude, longitude),
            step,
        }
    }

    /// Longitudes and latitudes.
    fn spans(self) -> (Span, Span) {
        let latitude = LATITUDES.part(gather(self.bits), self.step);
        let longitude = LONGITUDES.part(gather(self.bits >> 1), self.step);
        (longitude, latitude)
    }

    /// The cell so many to the east and to the north (each -1, 0 or 1), around the edges.
    fn neighbour(self, east: i8, north: i8) -> Cell {
        const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let mask = u64::MAX >> (64 - u32::from(self.step) * 2);
        // Adding to every second bit: the bits between are filled, so that a carry passes them.
        let shift = |bits: u64, own: u64, other: u64, by: i8| match by {
            0 => bits & own,
            1.. => (bits & own).wrapping_add((other & mask) + 1) & own & mask,
            _ => ((bits & own) | (other & mask)).wrapping_sub((other & mask) + 1) & own & mask,
        };
        let (column, row) = (self.bits & ODD, self.bits & EVEN);
        Cell {
            bits: shift(column, ODD, EVEN, east) | shift(row, EVEN, ODD, north),
            step: self.step,
        }
    }

    /// The hashes of the cell: from the first to the second, which is outside.
    pub fn hashes(self) -> (u64, u64) {
        let shift = 52 - u32::from(self.step) * 2;
        (self.bits << shift, (self.bits + 1) << shift)
    }
}

/// What a search covers, in metres or between positions.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// All within the radius.
    Circle {
        /// In metres.
        radius: f64,
    },
    /// All within half the width to either side and half the height up and down.
    Box {
        /// In metres.
        width: f64,
        /// In metres.
        height: f64,
    },
    /// All between these corners, in the plane of longitudes and latitudes: an edge does not pass over the 180th meridian.
    Polygon {
        /// Its corners, one after the other around it; three at least.
        corners: Vec<Position>,
    },
}

impl Shape {
    /// Where the middle of a polygon lies: above the middle of its corners in space, so maybe nearer to a pole than positions go.
    pub fn middle(corners: &[Position]) -> Position {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for corner in corners {
            let (longitude, latitude) = (radians(corner.longitude), radians(corner.latitude));
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        let level: f64 = x * x + y * y;
        Position {
            longitude: degrees(f64::atan2(y, x)),
            latitude: degrees(z.atan2(level.sqrt())),
        }
    }
}

/// Whether a position lies between the corners: whether a ray from it to the east crosses an odd number of edges.
fn is_between(corners: &[Position], position: Position) -> bool {
    let mut inside = false;
    let mut before = corners.last();
    for corner in corners {
        let from = before.replace(corner).unwrap_or(corner);
        let (up, right) = (
            from.latitude - corner.latitude,
            from.longitude - corner.longitude,
        );
        if (corner.latitude > position.latitude) != (from.latitude > position.latitude)
            && position.longitude
                < right * (position.latitude - corner.latitude) / up + corner.longitude
        {
            inside = !inside;
        }
    }
    inside
}

/// The longitudes and latitudes of the corners.
fn bounds_of(corners: &[Position]) -> (Span, Span) {
    let none = Span {
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
    };
    let wider = |span: Span, degrees: f64| Span {
        min: span.min.min(degrees),
        max: span.max.max(degrees),
    };
    corners.iter().fold((none, none), |(across, up), corner| {
        (wider(across, corner.longitude), wider(up, corner.latitude))
    })
}

/// A shape around a centre.
#[derive(Clone, PartialEq, Debug)]
pub struct Area {
    /// Its middle.
    pub centre: Position,
    /// Its form.
    pub shape: Shape,
}

impl Area {
    /// The distance in metres of a position from the centre, if it lies within the area.
    pub fn distance_m(&self, position: Position) -> Option<f64> {
        let distance = self.centre.distance_m(position);
        match &self.shape {
            Shape::Circle { radius } => (distance <= *radius).then_some(distance),
            Shape::Polygon { corners } => is_between(corners, position).then_some(distance),
            Shape::Box { width, height } => {
                if latitude_distance_m(position.latitude, self.centre.latitude) > *height / 2.0 {
                    return None;
                }
                // Along the latitude of the position.
                let level = Position {
                    longitude: self.centre.longitude,
                    latitude: position.latitude,
                };
                (position.distance_m(level) <= *width / 2.0).then_some(distance)
            }
        }
    }

    /// Longitudes and latitudes that the area may touch.
    fn bounds(&self) -> (Span, Span) {
        let Position {
            longitude,
            latitude,
        } = self.centre;
        let (width, height) = match &self.shape {
            Shape::Circle { radius } => (*radius, *radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0),
            Shape::Polygon { corners } => return bounds_of(corners),
        };
        let up = degrees(height / EARTH_RADIUS_M);
        // Degrees of longitude are shorter towards the poles: the edge farther from the equator decides.
        let edge = if latitude < 0.0 {
            latitude - up
        } else {
            latitude + up
        };
        let aside = degrees(width / EARTH_RADIUS_M / radians(edge).cos());
        let longitudes = Span {
            min: longitude - aside,
            max: longitude + aside,
        };
        let latitudes = Span {
            min: latitude - up,
            max: latitude + up,
        };
        (longitudes, latitudes)
    }

    /// The distance in metres to the farthest corner of a span of longitudes and latitudes.
    fn farthest_edge_m(&self, (longitudes, latitudes): (Span, Span)) -> f64 {
        let distances = [longitudes.min, longitudes.max].map(|longitude| {
            [latitudes.min, latitudes.max].map(|latitude| {
                self.centre.distance_m(Position {
                    longitude,
                    latitude,
                })
            })
        });
        distances.into_iter().flatten().fold(0.0, f64::max)
    }

    /// The steps at which nine cells cover the area, as far as its size tells.
    fn steps(&self) -> u8 {
        let mut reach = match &self.shape {
            Shape::Circle { radius } => *radius,
            Shape::Polygon { corners } => self.farthest_edge_m(bounds_of(corners)),
            Shape::Box { width, height } => {
                let (width, height) = (width / 2.0, height / 2.0);
                (width * width + height * height).sqrt()
            }
        };
        if reach == 0.0 {
            return STEP_MAX;
        }
        let mut step = 1_i32;
        while reach < MERCATOR_MAX {
            reach *= 2.0;
            step += 1;
        }
        step -= 2;
        let latitude = self.centre.latitude.abs();
        if latitude > 66.0 {
            step -= 1;
            if latitude > 80.0 {
                step -= 1;
            }
        }
        step.clamp(1, i32::from(STEP_MAX)) as u8
    }

    /// The cells that cover the area: that of its centre, then those around it, in the order in which Redis looks at them.
    pub fn cells(&self) -> Vec<Cell> {
        let (longitudes, latitudes) = self.bounds();
        let mut step = self.steps();
        let (mut from, mut steps_back) = (self.centre, 1);
        let is_polygon = matches!(self.shape, Shape::Polygon { .. });
        if is_polygon {
            // It may lie to one side of its middle, so that more than one step is wanting, and the middle beyond all cells.
            from.longitude = from.longitude.clamp(-LONGITUDE_MAX, LONGITUDE_MAX - EDGE);
            from.latitude = from.latitude.clamp(-LATITUDE_MAX, LATITUDE_MAX - EDGE);
            steps_back = STEP_MAX;
        }
        let mut cell = Cell::of(from, step);
        while step > 1 && steps_back > 0 && !reaches(cell, longitudes, latitudes) {
            step -= 1;
            steps_back -= 1;
            cell = Cell::of(from, step);
        }
        let (own_longitudes, own_latitudes) = cell.spans();
        // With few cells each neighbour may also lie on the other side of the Earth, so none is left out.
        let selects = step >= 2;
        let skips = |east: i8, north: i8| {
            selects
                && ((north < 0 && own_latitudes.min < latitudes.min)
                    || (north > 0 && own_latitudes.max > latitudes.max)
                    || (east < 0 && own_longitudes.min < longitudes.min)
                    || (east > 0 && own_longitudes.max > longitudes.max))
        };
        const AROUND: [(i8, i8); 9] = [
            (0, 0),
            (0, 1),
            (0, -1),
            (1, 0),
            (-1, 0),
            (1, 1),
            (-1, 1),
            (1, -1),
            (-1, -1),
        ];
        let mut cells = Vec::with_capacity(AROUND.len());
        let mut last = None;
        for (index, (east, north)) in AROUND.into_iter().enumerate() {
            if skips(east, north) {
                continue;
            }
            let neighbour = cell.neighbour(east, north);
            // In large areas neighbours coincide. Redis compares with the last one only, and not with the centre's own, so
            // that its replies name members twice; nobody counts on that of polygons.
            if last == Some(neighbour) || (is_polygon && cells.contains(&neighbour)) {
                continue;
            }
            cells.push(neighbour);
            last = (index > 0).then_some(neighbour);
        }
        cells
    }
}

/// Whether the cells around `cell` reach as far as the bounds.
fn reaches(cell: Cell, longitudes: Span, latitudes: Span) -> bool {
    let (_, north) = cell.neighbour(0, 1).spans();
    let (_, south) = cell.neighbour(0, -1).spans();
    let (east, _) = cell.neighbour(1, 0).spans();
    let (west, _) = cell.neighbour(-1, 0).spans();
    // Bounds that are not numbers are never out of reach.
    !(north.max < latitudes.max
        || south.min > latitudes.min
        || east.max < longitudes.max
        || west.min > longitudes.min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(longitude: f64, latitude: f64) -> Position {
        Position {
            longitude,
            latitude,
        }
    }

    /// Hashes, distance and geohashes were read from redis-server 7.0.15.
    #[test]
    fn known_places_have_known_hashes() {
        let palermo = at(13.361389, 38.115556);
        let catania = at(15.087269, 37.502669);
        assert_eq!(palermo.hash(), 3_479_099_956_230_698);
        assert_eq!(catania.hash(), 3_479_447_370_796_909);
        let (a, b) = (
            Position::of_score(3_479_099_956_230_698.0),
            Position::of_score(3_479_447_370_796_909.0),
        );
        assert_eq!(format!("{:.4}", a.distance_m(b)), "166274.1516");
        assert_eq!(&a.geohash(), b"sqc8b49rny0");
        assert_eq!(&b.geohash(), b"sqdtr74hyu0");
    }

    #[test]
    fn neighbours_lie_beside_each_other_and_around_the_edges() {
        for step in 1..=STEP_MAX {
            for position in [at(0.1, 0.1), at(179.9, 85.0), at(-179.9, -85.0)] {
                let cell = Cell::of(position, step);
                let (column, row) = (gather(cell.bits >> 1), gather(cell.bits));
                let cells = (1_i64 << step) as u32;
                for (east, north) in [(1, 0), (-1, 0), (0, 1), (0, -1), (1, -1), (-1, 1)] {
                    let moved = cell.neighbour(east, north);
                    let wrapped = |at: u32, by: i8| at.wrapping_add_signed(by.into()) % cells;
                    assert_eq!(gather(moved.bits >> 1), wrapped(column, east));
                    assert_eq!(gather(moved.bits), wrapped(row, north));
                }
            }
        }
    }

    #[test]
    fn a_polygon_holds_what_lies_between_its_corners() {
        let dented = vec![
            at(0.0, 0.0),
            at(10.0, 0.0),
            at(10.0, 10.0),
            at(5.0, 1.0),
            at(0.0, 10.0),
        ];
        let area = Area {
            centre: Shape::middle(&dented),
            shape: Shape::Polygon { corners: dented },
        };
        let holds = |position| area.distance_m(position).is_some();
        assert!(holds(at(1.0, 5.0)) && holds(at(9.0, 5.0)) && holds(at(5.0, 0.5)));
        assert!(!holds(at(5.0, 5.0)) && !holds(at(-1.0, 5.0)) && !holds(at(11.0, 5.0)));
    }

    #[test]
    fn the_cells_cover_a_polygon_of_any_size() {
        // Multiplicative hashing: the corners are the same in every run.
        let mut seed = 1_u64;
        let mut part = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as f64 / (1_u64 << 31) as f64
        };
        for _ in 0..2_000 {
            let width = [0.001, 1.0, 40.0, 360.0][(part() * 4.0) as usize];
            let (east, north) = (part() * 360.0 - 180.0, part() * 170.0 - 85.0);
            let mut near = || {
                at(
                    (east + (part() - 0.5) * width).clamp(-180.0, 180.0),
                    (north + (part() - 0.5) * width).clamp(-85.0, 85.0),
                )
            };
            let corners = vec![near(), near(), near(), near()];
            let area = Area {
                centre: Shape::middle(&corners),
                shape: Shape::Polygon { corners },
            };
            let cells = area.cells();
            for _ in 0..20 {
                let position = near();
                let hash = position.hash();
                let found = |cell: &Cell| (cell.hashes().0..cell.hashes().1).contains(&hash);
                assert!(
                    area.distance_m(position).is_none()
                        || cells.iter().filter(|cell| found(cell)).count() == 1,
                    "{area:?} {position:?}"
                );
            }
        }
    }

    #[test]
    fn a_position_survives_its_hash() {
        for position in [
            at(0.0, 0.0),
            at(-122.4, 37.7),
            at(180.0, 85.0),
            at(-180.0, -85.0),
        ] {
            let decoded = Position::of_score(position.hash() as f64);
            assert!(
                position.distance_m(decoded) < 1.0,
                "{position:?} {decoded:?}"
            );
        }
    }
}
