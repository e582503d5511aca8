//! Figures as people read them.

/// Requests that are named where they are told of.
pub(crate) const NAMED: usize = 5;

/// A count with its thousands apart: `665,078`.
pub(crate) fn count(of: u64) -> String {
    let digits = of.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The first of some requests, by their numbers, behind how many there are: ` (requests 5, 9, ...)`; nothing of none.
pub(crate) fn requests(numbers: &[u64]) -> String {
    let mut told: Vec<String> = numbers.iter().take(NAMED).map(u64::to_string).collect();
    if numbers.len() > NAMED {
        told.push("...".to_owned());
    }
    if told.is_empty() { String::new() } else { format!(" (requests {})", told.join(", ")) }
}

/// A number with about three digits: `1,234`, `12.3`, `0.0123`.
pub(crate) fn number(of: f64) -> String {
    let size = of.abs();
    match size {
        _ if of == 0.0 => "0".to_owned(),
        999.5.. => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "of a u64's size"
            )]
            let whole = count(size.round() as u64);
            if of < 0.0 { format!("-{whole}") } else { whole }
        }
        99.95.. => format!("{of:.0}"),
        9.995.. => trimmed(format!("{of:.1}")),
        0.9995.. => trimmed(format!("{of:.2}")),
        0.001.. => trimmed(format!("{of:.4}")),
        _ => format!("{of:.1e}"),
    }
}

fn trimmed(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Bytes, also parts of one and less than none: `10.2 KiB`, `0.08 bytes`.
pub(crate) fn bytes(of: f64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| of.abs() >= f64::from(1_u32 << shift));
    match unit {
        Some((shift, unit)) => format!("{} {unit}", number(of / f64::from(1_u32 << shift))),
        None => format!("{} bytes", number(of)),
    }
}

/// Microseconds: `850 µs`, `2.1 ms`, `12 s`.
pub(crate) fn micros(of: u64) -> String {
    micros_of(of as f64)
}

/// The same, also parts of one.
pub(crate) fn micros_of(of: f64) -> String {
    match of {
        ..1e3 => format!("{} µs", number(of)),
        ..1e6 => format!("{} ms", number(of / 1e3)),
        _ => seconds(of / 1e6),
    }
}

/// Seconds: `12 s`, `1.5 min`, `2.3 h`, `90 d`.
pub(crate) fn seconds(of: f64) -> String {
    match of {
        ..120.0 => format!("{} s", number(of)),
        ..7200.0 => format!("{} min", number(of / 60.0)),
        ..172_800.0 => format!("{} h", number(of / 3600.0)),
        _ => format!("{} d", number(of / 86_400.0)),
    }
}

/// A part of one that can be more than all: of a processor.
pub(crate) fn share(of: f64) -> String {
    format!("{} %", number(100.0 * of))
}

/// A part of a whole: `99.98 %`; never 100 % if it is not whole, nor 0 % if it is not nothing.
pub(crate) fn percent(part: f64) -> String {
    let digits = match part.min(1.0 - part) {
        0.0 => 0,
        0.01.. => 1,
        0.0001.. => 2,
        _ => return if part < 0.5 { "< 0.01 %" } else { "> 99.99 %" }.to_owned(),
    };
    format!("{} %", trimmed(format!("{:.digits$}", 100.0 * part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_and_have_units() {
        assert_eq!([0, 999, 1000, 665_078].map(count), ["0", "999", "1,000", "665,078"]);
        let numbers = [0.0, 0.000_12, 0.0123, 1.0, 9.5, 12.34, 432.1, 2326.4, -5221.0].map(number);
        let told = ["0", "1.2e-4", "0.0123", "1", "9.5", "12.3", "432", "2,326", "-5,221"];
        assert_eq!(numbers, told);
        let sizes = [0.08, 12.0, 10_445.0, -3e9].map(bytes);
        assert_eq!(sizes, ["0.08 bytes", "12 bytes", "10.2 KiB", "-2.79 GiB"]);
        assert_eq!([850, 2100, 12_000_000].map(micros), ["850 µs", "2.1 ms", "12 s"]);
        assert_eq!([0.5, 90.0, 5400.0, 8e6].map(seconds), ["0.5 s", "90 s", "90 min", "92.6 d"]);
    }

    #[test]
    fn the_first_requests_are_named() {
        let told = [&[][..], &[7], &[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5, 6]].map(requests);
        let all =
            ["", " (requests 7)", " (requests 1, 2, 3, 4, 5)", " (requests 1, 2, 3, 4, 5, ...)"];
        assert_eq!(told, all);
    }

    #[test]
    fn nearly_all_is_not_all() {
        let parts = [0.0, 1.0, 0.5, 0.973, 0.9998, 0.999_999_9, 1e-9].map(percent);
        let told = ["0 %", "100 %", "50 %", "97.3 %", "99.98 %", "> 99.99 %", "< 0.01 %"];
        assert_eq!(parts, told);
    }
}
