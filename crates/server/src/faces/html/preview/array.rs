//! Arrays: a curve of one axis, colours of two, the middle of more.

use std::fmt::Write as _;
use std::io;

use fishplate_contract::Array;
use fishplate_contract::lexical::escaped;
use fishplate_formats::array_file::sample::{
    ArrayLayout, CURVE_POINTS, Grid, SampleView, Statistics, sample,
};
use fishplate_formats::json;

use super::picture::{heat_map, scale};
use super::{ShownFile, head};

/// Numbers of an array that are written out.
const WRITTEN: u64 = 64;

/// Pixels of the shorter way in which a small grid is enlarged, about.
const LARGE: usize = 320;

/// An array, drawn from at most about `budget` of its bytes.
pub(super) fn figure(
    body: &mut String,
    file: &ShownFile<'_>,
    layout: &ArrayLayout,
    budget: u64,
) -> io::Result<()> {
    let seen = sample(file.payload, layout, budget)?;
    body.push_str("<figure class=\"array\">\n");
    let about = described(layout, &seen.statistics);
    let range = seen.statistics.range();
    match (&seen.view, range) {
        (SampleView::Curve(points), Some(range)) if points.len() > 1 => {
            curve(body, points, range, &about, layout.count().unwrap_or(0));
        }
        (SampleView::Grid(grid), Some(range)) => map(body, grid, range, &about),
        _ => {}
    }
    let mut caption = about;
    if let SampleView::Grid(grid) = &seen.view {
        caption.push_str(&part(grid, layout));
    }
    if seen.statistics.seen < layout.count().unwrap_or(0) && !grid_is_slice(&seen.view) {
        let _ = write!(caption, " {} numbers were looked at.", seen.statistics.seen);
    }
    let _ = writeln!(body, "<figcaption>{}</figcaption>\n</figure>", escaped(&caption));
    if let Some(array) = file.array {
        written(body, array)?;
    }
    Ok(())
}

fn grid_is_slice(view: &SampleView) -> bool {
    matches!(view, SampleView::Grid(grid) if !grid.slice.is_empty())
}

/// Type, shape, least and greatest.
fn described(layout: &ArrayLayout, statistics: &Statistics) -> String {
    let name = layout.dtype.name();
    let mut about = match layout.shape.is_empty() {
        true => format!("One {name}"),
        false => format!("{name}, {}", Array::shape_text(&layout.shape)),
    };
    match statistics.range() {
        Some((least, greatest)) if least < greatest => {
            let _ = write!(about, ", from {} to {}", shown(least), shown(greatest));
        }
        Some((least, _)) => {
            let _ = write!(about, ", {}", shown(least));
        }
        None => {}
    }
    if statistics.nonfinite > 0 {
        let _ = write!(about, ", {} not finite", statistics.nonfinite);
    }
    about.push('.');
    about
}

/// Which part of the array is drawn, if not all of it.
fn part(grid: &Grid, layout: &ArrayLayout) -> String {
    let mut part = String::new();
    if !grid.slice.is_empty() {
        let index: Vec<String> = grid.slice.iter().map(ToString::to_string).collect();
        let _ = write!(part, " Drawn is [{}, :, :].", index.join(", "));
    }
    if let [.., rows, columns] = layout.shape[..]
        && (rows > grid.rows as u64 || columns > grid.columns as u64)
    {
        let _ =
            write!(part, " Of its rows and columns {} by {} are drawn.", grid.rows, grid.columns);
    }
    part
}

fn map(body: &mut String, grid: &Grid, range: (f64, f64), about: &str) {
    let Some(picture) = heat_map(grid.columns, &grid.values, range) else { return };
    let larger = (LARGE / picture.width.max(picture.height).max(1)).max(1);
    let (width, height) = (picture.width * larger, picture.height * larger);
    let _ = writeln!(
        body,
        "<img class=\"pixels\" src=\"{}\" width=\"{width}\" height=\"{height}\" alt=\"{}\">",
        picture.url,
        escaped(about),
    );
    if let (Some(scale), true) = (scale(), range.0 < range.1) {
        let _ = writeln!(
            body,
            "<p class=\"scale\"><span>{}</span><img src=\"{}\" width=\"254\" height=\"12\" alt=\"to\"><span>{}</span></p>",
            shown(range.0),
            scale.url,
            shown(range.1)
        );
    }
}

/// Height of a curve's drawing, in its own units; its width is the number of points.
const HEIGHT: f64 = 160.0;

fn curve(
    body: &mut String,
    points: &[Option<(f64, f64)>],
    (least, greatest): (f64, f64),
    about: &str,
    count: u64,
) {
    let step = CURVE_POINTS as f64 / (points.len() - 1).max(1) as f64;
    let x = |at: usize| at as f64 * step;
    // Halved before they are subtracted: their distance may be more than a number can be.
    let span = greatest / 2.0 - least / 2.0;
    let y = |value: f64| match span > 0.0 {
        true => HEIGHT * (1.0 - (value / 2.0 - least / 2.0) / span),
        false => HEIGHT / 2.0,
    };
    let mut path = String::new();
    let mut from = 0;
    // Where nothing is finite the curve is interrupted.
    for run in points.split(Option::is_none) {
        let at = |(place, point): (usize, &Option<(f64, f64)>)| {
            point.map(|(low, high)| (x(from + place), y(low), y(high)))
        };
        let run_points: Vec<_> = run.iter().enumerate().filter_map(at).collect();
        let there = run_points.iter().map(|(x, _, high)| (x, high));
        let back = run_points.iter().rev().map(|(x, low, _)| (x, low));
        for (place, (x, y)) in there.chain(back).enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if place == 0 { 'M' } else { 'L' });
        }
        if !run_points.is_empty() {
            path.push('Z');
        }
        from += run.len() + 1;
    }
    let _ = writeln!(
        body,
        "<div class=\"curve\"><span>{}</span><span>{}</span>\n\
         <svg viewBox=\"-2 -2 {} {}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\
         <path d=\"{path}\" fill=\"currentColor\" fill-opacity=\"0.3\" stroke=\"currentColor\" stroke-width=\"1.5\" \
         stroke-linejoin=\"round\" vector-effect=\"non-scaling-stroke\"/></svg>\n\
         <span>0</span><span>{}</span></div>",
        shown(greatest),
        shown(least),
        CURVE_POINTS + 4,
        HEIGHT + 4.0,
        escaped(about),
        count.saturating_sub(1),
    );
}

/// The numbers themselves, if they are few.
fn written(body: &mut String, array: &Array) -> io::Result<()> {
    if Array::size(array.element, &array.shape).is_none_or(|size| size > WRITTEN * 8)
        || array.shape.iter().product::<u64>() > WRITTEN
    {
        return Ok(());
    }
    let bytes = head(&array.data)?;
    let text = json::array_as_text(array.element, &array.shape, &bytes);
    let _ = writeln!(
        body,
        "<pre class=\"text\" tabindex=\"0\" role=\"region\" aria-label=\"Its numbers\">{}</pre>",
        escaped(&text)
    );
    Ok(())
}

/// A number for people: six digits.
fn shown(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || (1e-3..1e6).contains(&size) {
        let digits = if number == 0.0 { 0.0 } else { size.log10().floor() };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 8")]
        let decimals = (5.0 - digits).clamp(0.0, 8.0) as usize;
        let text = format!("{number:.decimals$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    let text = format!("{number:.5e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use fishplate_contract::{DataType, ElementType, Parameter, Payload};

    use super::*;

    fn drawn(numbers: &[f64], shape: &[u64], budget: u64) -> String {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let data = Payload::Inline(bytes.into());
        let array = Array { element: ElementType::Double, shape: shape.to_vec(), data };
        let parameter = Parameter::new("a", DataType::Raw);
        let file = ShownFile {
            parameter: &parameter,
            payload: &array.data,
            array: Some(&array),
            name: "a.npy".to_owned(),
            href: String::new(),
        };
        let mut body = String::new();
        figure(&mut body, &file, &ArrayLayout::plain(array.element, shape), budget).unwrap();
        body
    }

    #[test]
    fn numbers_are_shown_with_six_digits() {
        for (number, text) in [
            (0.0, "0"),
            (3.0, "3"),
            (-0.1, "-0.1"),
            (100_000.0, "100000"),
            (1.0 / 3.0, "0.333333"),
            (123_456.789, "123457"),
            (1e6, "1e6"),
            (-1.25e-7, "-1.25e-7"),
            (f64::MAX, "1.79769e308"),
        ] {
            assert_eq!(shown(number), text);
        }
    }

    #[test]
    fn one_axis_is_a_curve_with_gaps_and_two_are_colours() {
        let curve = drawn(&[1.0, 2.0, f64::NAN, 4.0], &[4], 1000);
        assert!(curve.contains("<svg") && curve.matches('Z').count() == 2, "{curve}");
        assert!(curve.contains("float64, 4, from 1 to 4, 1 not finite."), "{curve}");
        assert!(curve.contains("[1.0, 2.0, NaN, 4.0]"), "{curve}");
        let map = drawn(&[1.0, 2.0, 3.0, 4.0], &[2, 2], 1000);
        assert!(map.contains("data:image/png") && map.contains("width=\"320\""), "{map}");
    }

    #[test]
    fn of_what_was_not_seen_whole_it_is_said() {
        let numbers: Vec<f64> = (0..1000 * 300).map(f64::from).collect();
        let map = drawn(&numbers, &[1000, 300], 80_000);
        assert!(map.contains("100 by 100 are drawn."), "{map}");
        assert!(map.contains("numbers were looked at."), "{map}");
        let slice = drawn(&numbers, &[10, 100, 300], 1 << 30);
        assert!(slice.contains("Drawn is [5, :, :]."), "{slice}");
        let nothing = drawn(&[f64::NAN; 2], &[2], 1000);
        assert!(!nothing.contains("<svg") && nothing.contains("2 not finite"), "{nothing}");
    }
}
