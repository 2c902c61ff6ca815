//! The frame every chart shares: scales, ticks, axes, marks. Coordinates are those of the view box; the
//! page scales the drawing, and colours come from its style sheet.

use std::collections::BTreeMap;

use super::scale::Scale;
use super::shape::{element, escape, mark, path, px};

/// View box of a chart.
pub(super) const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 32.0;
const MARK_RADIUS: f64 = 4.5;
const DOT_RADIUS: f64 = 2.4;
/// The mark that stands for a missing value, see [`mark`].
const CROSS: usize = 4;
/// Shades that can be told apart in a map of tiles.
const SHADES: f64 = 25.0;
/// Lines on which texts of near dividers stand.
const DIVIDE_LINES: u32 = 3;
/// Right margin of a chart whose bands are named beside it.
const RIGHT_OF_BANDS: f64 = 76.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 54.0;

/// A tile in pixels. All tiles of a map are equally high.
struct Tile {
    /// Of its middle.
    y: f64,
    left: f64,
    right: f64,
}

/// A chart being drawn.
pub(super) struct Plot {
    x: Scale,
    y: Scale,
    right: f64,
    body: String,
    /// Where the texts of [`Plot::divide`] so far end, and the line that the next one takes if it begins before.
    divided: (f64, u32),
    /// The tiles of each shade, and the places over them that carry texts.
    shades: BTreeMap<u8, Vec<Tile>>,
    over: String,
    /// Class of the marks drawn last and where they end.
    marks: Option<(String, usize)>,
}

impl Plot {
    pub(super) fn new(x: Scale, y: Scale) -> Self {
        Self {
            x,
            y,
            right: WIDTH - RIGHT,
            body: String::new(),
            divided: (0.0, 0),
            shades: BTreeMap::new(),
            over: String::new(),
            marks: None,
        }
    }

    /// A chart with room for the names of bands at its right side.
    pub(super) fn with_bands(x: Scale, y: Scale) -> Self {
        Self {
            right: WIDTH - RIGHT_OF_BANDS,
            ..Self::new(x, y)
        }
    }

    pub(super) fn px(&self, value: f64) -> f64 {
        LEFT + self.x.share(value) * (self.right - LEFT)
    }

    pub(super) fn py(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.share(value) * (HEIGHT - TOP - BOTTOM)
    }

    /// Pixels of a span of x values.
    pub(super) fn width_of(&self, span: f64) -> f64 {
        self.px(self.x.low + span) - LEFT
    }

    /// Grid lines and labels of both axes; `x_text` and `y_text` print a tick. Drawn first, under the data.
    pub(super) fn axes(
        &mut self,
        titles: [&str; 2],
        x_ticks: Option<Vec<f64>>,
        x_text: impl Fn(f64) -> String,
        y_text: impl Fn(f64) -> String,
    ) {
        let (right, bottom) = (self.right, HEIGHT - BOTTOM);
        let mut grid = String::new();
        self.raw("<g class=\"tick end\">");
        for tick in self.y.ticks() {
            let y = self.py(tick);
            grid.push_str(&format!("M{LEFT} {}H{right}", px(y)));
            self.label("", LEFT - 7.0, y + 4.5, &y_text(tick));
        }
        self.raw("</g>");
        let x_ticks = x_ticks.unwrap_or_else(|| self.x.ticks());
        self.x_ticks(&x_ticks, grid, x_text);
        self.raw(&format!(
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>"
        ));
        self.label("title", 4.0, 17.0, titles[1]);
        self.label(
            "title mid",
            f64::midpoint(LEFT, right),
            HEIGHT - 8.0,
            titles[0],
        );
    }

    /// Labels of the x axis, and the grid: `grid` holds the lines of the y axis.
    fn x_ticks(&mut self, ticks: &[f64], mut grid: String, text: impl Fn(f64) -> String) {
        let bottom = HEIGHT - BOTTOM;
        self.raw("<g class=\"tick mid\">");
        for tick in ticks {
            let x = self.px(*tick);
            grid.push_str(&format!("M{} {TOP}V{bottom}", px(x)));
            self.label("", x, bottom + 19.0, &text(*tick));
        }
        self.raw(&format!("</g><path class=\"grid\" d=\"{grid}\"/>"));
    }

    /// Grid and labels of the x axis alone, where y only stacks rows.
    pub(super) fn axes_of_x(&mut self, name: &str, x_text: impl Fn(f64) -> String) {
        let (right, bottom) = (self.right, HEIGHT - BOTTOM);
        self.x_ticks(&self.x.ticks(), String::new(), x_text);
        self.raw(&format!(
            "<path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/>"
        ));
        self.label("title mid", f64::midpoint(LEFT, right), HEIGHT - 8.0, name);
    }

    /// A horizontal band between two y values, clipped to the frame.
    pub(super) fn band(&mut self, class: &str, from: f64, to: f64, name: &str) {
        let (top, bottom) = (self.py(to), self.py(from));
        if bottom - top < 1.0 {
            return;
        }
        self.raw(&format!(
            "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
            px(top),
            px(self.right - LEFT),
            px(bottom - top)
        ));
        if bottom - top > 17.0 && !name.is_empty() {
            self.label(
                "band",
                self.right + 5.0,
                f64::midpoint(top, bottom) + 4.5,
                name,
            );
        }
    }

    /// A vertical band between two x values, clipped to the frame, with its name where there is room.
    pub(super) fn zone(&mut self, class: &str, from: f64, to: f64, name: &str) {
        let (left, right) = (self.px(from), self.px(to));
        if right - left < 0.5 {
            return;
        }
        self.raw(&format!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>",
            px(left),
            px(right - left),
            px(HEIGHT - BOTTOM - TOP)
        ));
        if right - left > name.chars().count() as f64 * 7.0 + 8.0 {
            self.label("step", left + 4.0, TOP - 5.0, name);
        }
    }

    /// Intervals on the y axis, each at its x.
    pub(super) fn whiskers(
        &mut self,
        class: &str,
        intervals: impl Iterator<Item = (f64, f64, f64)>,
    ) {
        let one = |(x, low, high): (f64, f64, f64)| {
            let (x, top, bottom) = (px(self.px(x)), self.py(high), self.py(low));
            let (top, height) = (px(top), px(bottom - top));
            format!("M{x} {top}v{height}m-4 0h8m-8-{height}h8")
        };
        let outlines: String = intervals.map(one).collect();
        if !outlines.is_empty() {
            self.raw(&format!(
                "<path class=\"whisker {class}\" d=\"{outlines}\"/>"
            ));
        }
    }

    /// An interval on the x axis.
    pub(super) fn interval(&mut self, class: &str, y: f64, low: f64, high: f64) {
        let (y, left, right) = (self.py(y), self.px(low), self.px(high));
        self.raw(&format!(
            "<path class=\"whisker {class}\" d=\"M{left} {y}H{right}M{left} {top}V{bottom}M{right} {top}V{bottom}\"/>",
            y = px(y),
            left = px(left),
            right = px(right),
            top = px(y - 4.0),
            bottom = px(y + 4.0)
        ));
    }

    /// A column of tiles between two x values: each between two y values, as dark as its share (0 to 1). The text shows
    /// on hovering over any of them. [`Plot::lay_tiles`] draws the columns.
    pub(super) fn tiles(
        &mut self,
        (x0, x1): (f64, f64),
        tiles: impl Iterator<Item = ((f64, f64), f64)>,
        tip: &str,
    ) {
        let (left, right) = (self.px(x0), self.px(x1).max(self.px(x0) + 0.5));
        for ((y0, y1), share) in tiles {
            let shade = (share.clamp(0.0, 1.0) * SHADES).round().max(1.0) as u8;
            let y = f64::midpoint(self.py(y0), self.py(y1));
            let alike = self.shades.entry(shade).or_default();
            // Neighbours in a row that look alike are one.
            let touches =
                |tile: &&mut Tile| (tile.y - y).abs() < 1e-6 && (tile.right - left).abs() < 1e-6;
            match alike.iter_mut().rev().find(touches) {
                Some(before) => before.right = right,
                None => alike.push(Tile { y, left, right }),
            }
        }
        let (top, height) = (px(TOP), px(HEIGHT - BOTTOM - TOP));
        let (left, width) = (px(left), px(right - left));
        let place = format!("x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"");
        self.over.push_str(&element("rect", &place, tip));
    }

    /// Draws the columns of tiles so far, each as high as the stretch between two y values. A tile is a line as broad as
    /// it is high, and those of one shade are one path: a map has hundreds of them.
    pub(super) fn lay_tiles(&mut self, (y0, y1): (f64, f64)) {
        let height = px((self.py(y0) - self.py(y1)).max(0.5));
        self.raw(&format!("<g class=\"tile\" stroke-width=\"{height}\">"));
        for (shade, tiles) in std::mem::take(&mut self.shades) {
            let line =
                |tile: &Tile| format!("M{} {}H{}", px(tile.left), px(tile.y), px(tile.right));
            let lines: String = tiles.iter().map(line).collect();
            let opacity = format!("{:.2}", f64::from(shade) / SHADES);
            let opacity = opacity.trim_start_matches('0');
            self.raw(&format!("<path d=\"{lines}\" opacity=\"{opacity}\"/>"));
        }
        let over = std::mem::take(&mut self.over);
        self.raw(&format!("</g><g class=\"over\">{over}</g>"));
    }

    /// A thin vertical line with a text at its top.
    pub(super) fn divide(&mut self, x: f64, text: &str) {
        let at = self.px(x);
        let bottom = HEIGHT - BOTTOM;
        self.raw(&format!(
            "<path class=\"divide\" d=\"M{} {TOP}V{bottom}\"/>",
            px(at)
        ));
        if !text.is_empty() {
            // Texts of near lines stand below each other.
            if at + 3.0 >= self.divided.0 {
                self.divided = (0.0, 0);
            }
            let (free, line) = self.divided;
            self.label("step", at + 3.0, TOP + 11.0 + 12.0 * f64::from(line), text);
            let end = at + 6.0 + text.chars().count() as f64 * 6.2;
            self.divided = (free.max(end), (line + 1) % DIVIDE_LINES);
        }
    }

    /// Text at a place in the data, right of it or, where that leaves no room, left.
    pub(super) fn name(&mut self, x: f64, y: f64, text: &str) {
        let (at, y) = (self.px(x), self.py(y));
        let room = text.chars().count() as f64 * 7.0 + 8.0;
        if at + room < self.right {
            self.label("name", at + 8.0, y - 6.0, text);
        } else {
            self.label("name end", at - 8.0, y - 6.0, text);
        }
    }

    /// A bar from one y value to another, centred on x.
    pub(super) fn bar(&mut self, class: &str, x: f64, width: f64, from: f64, to: f64, tip: &str) {
        let (top, bottom) = (self.py(to), self.py(from));
        if bottom - top < 0.05 {
            return;
        }
        let left = (self.px(x) - width / 2.0).max(LEFT);
        let right = (self.px(x) + width / 2.0).min(self.right);
        let attributes = format!(
            "class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            px(left),
            px(top),
            px(right - left),
            px(bottom - top)
        );
        self.raw(&element("rect", &attributes, tip));
    }

    /// A line through the points.
    pub(super) fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let places: Vec<(f64, f64)> = points
            .iter()
            .map(|(x, y)| (self.px(*x), self.py(*y)))
            .collect();
        let data = path(&places);
        if !data.is_empty() {
            self.raw(&format!("<path class=\"line {class}\" d=\"{data}\"/>"));
        }
    }

    /// A mark at a point, with a text that shows on hovering.
    pub(super) fn mark(&mut self, class: &str, shape: usize, x: f64, y: f64, tip: &str) {
        let at = (self.px(x), self.py(y));
        self.marked(class, &mark(shape, at, MARK_RADIUS, tip));
    }

    /// A small mark, for series of many points.
    pub(super) fn dot(&mut self, class: &str, shape: usize, x: f64, y: f64, tip: &str) {
        let at = (self.px(x), self.py(y));
        self.marked(class, &mark(shape, at, DOT_RADIUS, tip));
    }

    /// A disc of radius `r` at a point.
    pub(super) fn disc(&mut self, class: &str, (x, y): (f64, f64), r: f64, tip: &str) {
        let at = (self.px(x), self.py(y));
        self.marked(class, &mark(0, at, r, tip));
    }

    /// Names beside points that come from the top downwards, left of them or right: one below the other, with a thin line
    /// to those that had to move.
    pub(super) fn names(&mut self, points: &[(f64, f64, &str)], left: bool) {
        const LINE: f64 = 15.0;
        const AWAY: f64 = 14.0;
        let lowest = HEIGHT - BOTTOM - 3.0;
        // What would run out at the bottom moves all up.
        let mut places: Vec<f64> = Vec::new();
        for (_, y, _) in points {
            let after = places.last().map_or(f64::MIN, |place| place + LINE);
            places.push((self.py(*y) + 4.0).max(after));
        }
        let mut bound = lowest;
        for place in places.iter_mut().rev() {
            *place = place.min(bound);
            bound = *place - LINE;
        }
        for ((x, y, text), place) in points.iter().zip(places) {
            let (at, py) = (self.px(*x), self.py(*y));
            let room = text.chars().count() as f64 * 6.6 + AWAY;
            let left = if left {
                at - room > LEFT
            } else {
                at + room > self.right
            };
            let (class, text_x) = if left {
                ("name end", at - AWAY)
            } else {
                ("name", at + AWAY)
            };
            if (place - 4.0 - py).abs() > 4.0 {
                let end = if left { text_x + 2.0 } else { text_x - 2.0 };
                self.raw(&format!(
                    "<path class=\"line thin\" d=\"M{} {}L{} {}\"/>",
                    px(at),
                    px(py),
                    px(end),
                    px(place - 4.0)
                ));
            }
            self.label(class, text_x, place, text);
        }
    }

    /// A cross at the upper edge: there is no value to draw.
    pub(super) fn missing(&mut self, class: &str, x: f64, tip: &str) {
        let at = (self.px(x), TOP + 7.0);
        self.marked(class, &mark(CROSS, at, MARK_RADIUS, tip));
    }

    /// Text in the data area, e.g. where a chart has no data.
    pub(super) fn notice(&mut self, text: &str) {
        self.label(
            "notice mid",
            f64::midpoint(LEFT, self.right),
            HEIGHT / 2.0,
            text,
        );
    }

    /// The finished drawing. `what` is read out in place of the picture.
    pub(super) fn finish(self, what: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            escape(what),
            self.body
        )
    }

    fn label(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let text = escape(text);
        let class = if class.is_empty() {
            String::new()
        } else {
            format!(" class=\"{class}\"")
        };
        self.raw(&format!(
            "<text{class} x=\"{}\" y=\"{}\">{text}</text>",
            px(x),
            px(y)
        ));
    }

    /// Draws a mark. Marks of one class that follow each other share one group, which has their looks.
    fn marked(&mut self, class: &str, mark: &str) {
        const END: &str = "</g>";
        let open = |(last, end): &(String, usize)| last == class && *end == self.body.len();
        if self.marks.as_ref().is_some_and(open) {
            self.body.truncate(self.body.len() - END.len());
        } else {
            self.raw(&format!("<g class=\"mark {class}\">"));
        }
        self.raw(mark);
        self.raw(END);
        self.marks = Some((class.to_owned(), self.body.len()));
    }

    fn raw(&mut self, markup: &str) {
        self.body.push_str(markup);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_stay_in_the_frame() {
        let plot = Plot::new(
            Scale::between(f64::NAN, 1.0),
            Scale::log([0.0, f64::NAN].into_iter()),
        );
        for value in [f64::NAN, f64::INFINITY, -1e300, 0.0, 1e300] {
            assert!((LEFT..=WIDTH - RIGHT).contains(&plot.px(value)), "{value}");
            assert!((TOP..=HEIGHT - BOTTOM).contains(&plot.py(value)), "{value}");
        }
    }
}
