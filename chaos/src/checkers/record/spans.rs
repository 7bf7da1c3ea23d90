//! Half-open spans of time: unions, differences and intersections.

/// From a nanosecond, included, to a nanosecond, excluded.
pub(crate) type Span = (u64, u64);

/// The same place as `partition_point` finds, looked for around a place that is probably near it.
pub(crate) fn partition_near<T>(sorted: &[T], near: usize, is_before: impl Fn(&T) -> bool) -> usize {
    let (mut low, mut high, mut step) = (near.min(sorted.len()), near.min(sorted.len()), 1);
    while low > 0 && !is_before(&sorted[low - 1]) {
        high = low - 1;
        low = low.saturating_sub(step);
        step *= 2;
    }
    while high < sorted.len() && is_before(&sorted[high]) {
        low = high + 1;
        high = sorted.len().min(high + step);
        step *= 2;
    }
    low + sorted[low..high].partition_point(is_before)
}

/// Sorted spans that neither touch nor are empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Spans(Vec<Span>);

impl FromIterator<Span> for Spans {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> Self {
        let mut spans: Vec<Span> = spans.into_iter().filter(|(from, to)| from < to).collect();
        spans.sort_unstable();
        spans.dedup_by(|(from, to), last| {
            let touches = *from <= last.1;
            if touches {
                last.1 = last.1.max(*to);
            }
            touches
        });
        Self(spans)
    }
}

impl Spans {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, ns: u64) -> bool {
        self.within((ns, ns.saturating_add(1))).next().is_some()
    }

    pub(crate) fn length(&self) -> u64 {
        self.iter().map(|(from, to)| to - from).sum()
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        match other.is_empty() {
            true => self.clone(),
            false => self.iter().chain(other.iter()).collect(),
        }
    }

    /// The parts of one span that are in these spans. Finds its place by bisection.
    pub(crate) fn within(&self, span: Span) -> impl Iterator<Item = Span> + '_ {
        self.within_since(self.0.partition_point(|other| other.1 <= span.0), span)
    }

    /// The same, with its place looked for around a place that is probably near it, and kept there.
    pub(crate) fn within_near(&self, place: &mut usize, span: Span) -> impl Iterator<Item = Span> + '_ {
        *place = partition_near(&self.0, *place, |other| other.1 <= span.0);
        self.within_since(*place, span)
    }

    fn within_since(&self, first: usize, (from, to): Span) -> impl Iterator<Item = Span> + '_ {
        self.0[first..]
            .iter()
            .take_while(move |span| span.0 < to)
            .map(move |span| (span.0.max(from), span.1.min(to)))
    }

    pub(crate) fn outside(&self, (from, to): Span) -> impl Iterator<Item = Span> + '_ {
        let mut at = from;
        // A span of no length behind the last closes what is left.
        self.within((from, to))
            .chain([(to, to)])
            .map(move |(start, end)| (std::mem::replace(&mut at, end), start))
            .filter(|(from, to)| from < to)
    }
}
