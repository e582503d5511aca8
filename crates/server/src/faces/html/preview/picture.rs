//! Numbers as colours, and these as a picture in PNG.

use base64_simd::STANDARD;

/// A picture that stands in the page itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Its address (RFC 2397).
    pub(super) url: String,
}

/// Colours of the scale; those behind it are for what is not finite.
const COLOURS: u8 = 254;

/// What is not a number, or infinite: grey.
const NONFINITE: u8 = 255;

/// Numbers of a grid, row after row, from the least (dark) to the greatest.
pub(super) fn heat_map(
    width: usize,
    values: &[f64],
    (least, greatest): (f64, f64),
) -> Option<Picture> {
    let span = greatest - least;
    let index = |value: &f64| match value.is_finite() {
        // A span beyond what a number can be, as between -1e308 and 1e308.
        true if !span.is_finite() => {
            shade((value / 2.0 - least / 2.0) / (greatest / 2.0 - least / 2.0))
        }
        true if span > 0.0 => shade((value - least) / span),
        true => COLOURS / 2,
        false => NONFINITE,
    };
    let pixels: Vec<u8> = values.iter().map(index).collect();
    picture(width, &pixels)
}

/// The scale itself, from left to right.
pub(super) fn scale() -> Option<Picture> {
    let pixels: Vec<u8> = (0..COLOURS).collect();
    picture(usize::from(COLOURS), &pixels)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to COLOURS - 1")]
fn shade(share: f64) -> u8 {
    (share.clamp(0.0, 1.0) * f64::from(COLOURS - 1)).round() as u8
}

/// A picture of as many rows as there are pixels for.
fn picture(width: usize, pixels: &[u8]) -> Option<Picture> {
    let height = pixels.len().checked_div(width)?;
    let mut file = Vec::new();
    let (columns, rows) = (u32::try_from(width).ok()?, u32::try_from(height).ok()?);
    let mut encoder = png::Encoder::new(&mut file, columns, rows);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette());
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(pixels).ok()?;
    writer.finish().ok()?;
    let url = format!("data:image/png;base64,{}", STANDARD.encode_to_string(&file));
    Some(Picture { width, height, url })
}

fn palette() -> Vec<u8> {
    let of = |index: u8| match index {
        0..COLOURS => viridis(f64::from(index) / f64::from(COLOURS - 1)),
        _ => [128; 3],
    };
    (0..=NONFINITE).flat_map(of).collect()
}

/// The colour map viridis of Smith and van der Walt, even to the eye and also without colours: a polynomial that was
/// fitted to it (M. Zucker, in the public domain), within 3 of 255.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
fn viridis(share: f64) -> [u8; 3] {
    const POWERS: [[f64; 3]; 7] = [
        [0.277_727_327_2, 0.005_407_344_5, 0.334_099_805_3],
        [0.105_093_043_1, 1.404_613_529_9, 1.384_590_162_6],
        [-0.330_861_828_7, 0.214_847_559_5, 0.095_095_163_0],
        [-4.634_230_499_0, -5.799_100_973_4, -19.332_440_956_3],
        [6.228_269_936_3, 14.179_933_366_8, 56.690_552_600_7],
        [4.776_384_997_7, -13.745_145_377_7, -65.353_032_633_4],
        [-5.435_455_855_9, 4.645_852_612_2, 26.312_435_249_6],
    ];
    [0, 1, 2].map(|colour| {
        let value = POWERS.iter().rev().fold(0.0, |sum, power| sum * share + power[colour]);
        (value.clamp(0.0, 1.0) * 255.0).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(picture: &Picture) -> Vec<u8> {
        let text = picture.url.strip_prefix("data:image/png;base64,").unwrap();
        let file = STANDARD.decode_to_vec(text).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((frame.width as usize, frame.height as usize), (picture.width, picture.height));
        pixels.truncate(frame.buffer_size());
        pixels
    }

    #[test]
    fn the_scale_is_dark_below_and_light_above() {
        for (share, colour) in [(0.0, [68, 1, 84]), (0.5, [33, 145, 140]), (1.0, [253, 231, 37])] {
            let near = |(a, b): (u8, u8)| a.abs_diff(b) <= 6;
            assert!(viridis(share).into_iter().zip(colour).all(near), "{:?}", viridis(share));
        }
        let light =
            |[r, g, b]: [u8; 3]| 0.21 * f64::from(r) + 0.72 * f64::from(g) + 0.07 * f64::from(b);
        let lights: Vec<f64> = (0..=20).map(|at| light(viridis(f64::from(at) / 20.0))).collect();
        assert!(lights.is_sorted(), "{lights:?}");
    }

    #[test]
    fn each_number_has_its_colour_and_what_is_none_is_grey() {
        let values = [0.0, 1.0, 2.0, f64::NAN, f64::INFINITY, 1.0];
        let picture = heat_map(3, &values, (0.0, 2.0)).unwrap();
        assert_eq!((picture.width, picture.height), (3, 2));
        let pixels = decoded(&picture);
        let mut indices = pixels.clone();
        if pixels.len() > values.len() {
            // Expanded by the decoder: the first of three says enough.
            indices = pixels.chunks(3).map(|colour| colour[0]).collect();
            assert_eq!(indices[0], viridis(0.0)[0]);
        }
        assert!(indices[3] == indices[4] && indices[1] == indices[5] && indices[0] != indices[2]);
        // The same number everywhere, and numbers whose distance is no number.
        assert!(heat_map(1, &[7.0, 7.0], (7.0, 7.0)).is_some());
        assert!(heat_map(1, &[-1e308, 1e308], (-1e308, 1e308)).is_some());
        assert_eq!(heat_map(0, &[], (0.0, 1.0)), None);
        assert_eq!(scale().unwrap().height, 1);
    }
}
