//! Charts as SVG text, the same bytes for the same figures, without a font, script or file from elsewhere.
//!
//! Colours are CSS variables with a light and a dark value, chosen so that colour-blind readers distinguish
//! them, and no meaning is carried by colour alone. A page gives its charts the style ([`STYLE`]).
//!
//! | file | what it is for |
//! |---|---|
//! | `canvas.rs`, `axis.rs`, `chart.css` | shapes, axes, colours |
//! | `rows.rs` | bars and dots, a name at the left of each |
//! | `percentiles.rs` | latencies over the share of faster calls |
//! | `sweep.rs`, `price.rs` | curves over a level; what safety costs |
//! | `timeline.rs`, `sequence.rs` | a run over time; a conviction, step by step |
//! | `badge.rs` | the badge of an audit |

mod axis;
mod badge;
mod canvas;
mod percentiles;
mod price;
mod rows;
mod sequence;
mod sweep;
mod timeline;

pub use badge::badge;
pub(crate) use canvas::escape;
pub use percentiles::{PercentileCurve, percentiles};
pub use price::{PricePoint, price};
pub use rows::{Row, bars, dots};
pub use sequence::sequence;
pub use sweep::{SweepCurve, sweep};
pub use timeline::{TimeAxis, time_axis, timeline};

use itertools::Itertools;

/// The style of charts, for a page that holds some inline.
pub const STYLE: &str = include_str!("chart.css");

/// A chart: a picture with a title and a description for those who cannot see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    width: f64,
    height: f64,
    title: String,
    description: String,
    body: String,
    /// What a page's script says under the pointer, as attributes.
    values: String,
}

impl Chart {
    fn new(title: &str, description: String, height: f64, body: canvas::Canvas) -> Self {
        Self {
            width: WIDTH,
            height,
            title: title.to_owned(),
            description,
            body: body.finish(),
            values: String::new(),
        }
    }

    /// With attributes of figures only, which a page's script reads.
    fn with_values(mut self, values: String) -> Self {
        self.values = values;
        self
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// An `<svg>` element for a page that has [`STYLE`]. `id`, of letters and digits, must be unique in it.
    pub fn inline(&self, id: &str) -> String {
        self.element(id, &self.values, "")
    }

    /// A file of its own.
    pub fn document(&self) -> String {
        let style = format!("<style>{STYLE}</style>");
        self.element("chart", " xmlns=\"http://www.w3.org/2000/svg\"", &style) + "\n"
    }

    /// Charts below each other, as one.
    pub fn stack(title: &str, charts: &[Self]) -> Self {
        let mut body = String::new();
        let mut height = 0.0;
        let mut width: f64 = 1.0;
        for chart in charts {
            body.push_str(&format!(
                "<g transform=\"translate(0 {})\"><text class=\"c-title\" x=\"0\" y=\"20\">{}</text><g transform=\"translate(0 32)\">{}</g></g>",
                canvas::number(height),
                canvas::escape(&chart.title),
                chart.body
            ));
            height += chart.height + 64.0;
            width = width.max(chart.width);
        }
        Self {
            width,
            height: height.max(1.0),
            title: title.to_owned(),
            description: charts.iter().map(|chart| &chart.description).join(" "),
            body,
            values: String::new(),
        }
    }

    fn element(&self, id: &str, attributes: &str, style: &str) -> String {
        format!(
            "<svg{attributes} class=\"chart\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{description}</desc>{style}{body}</svg>",
            width = canvas::number(self.width),
            height = canvas::number(self.height),
            title = canvas::escape(&self.title),
            description = canvas::escape(&self.description),
            body = self.body,
        )
    }
}

pub(crate) const WIDTH: f64 = 880.0;
