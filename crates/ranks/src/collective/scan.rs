//! Inclusive and exclusive scans.

use crate::buffer::Span;
use crate::collective::algorithm::Scan;
use crate::collective::schedule::Schedule;
use crate::header::Rank;

/// The reduction of `value` over ranks up to this one, into `result`; without this one's own if `exclusive`, and then rank 0's
/// `result` stays as it is. `value` is lost.
pub(super) fn scan(
    s: &mut Schedule,
    algorithm: Scan,
    exclusive: bool,
    me: Rank,
    value: &Span,
    result: &Span,
    size: u32,
) {
    let other = s.scratch(value.length());
    match algorithm {
        Scan::Serial => {
            if me > 0 {
                s.receive(me - 1, &other);
                s.wait();
                s.reduce(&other, value);
            }
            if me + 1 < size {
                s.send(me + 1, value);
                s.wait();
            }
            if !exclusive {
                s.copy(value, result);
            } else if me > 0 {
                s.copy(&other, result);
            }
        }
        Scan::RecursiveDoubling => {
            let mut begun = !exclusive;
            if begun {
                s.copy(value, result);
            }
            let mut distance = 1;
            while distance < size {
                let partner = me ^ distance;
                if partner < size {
                    s.exchange(partner, value, partner, &other);
                    let again = if partner < me && s.changes_left() {
                        // It is folded twice, and the first time may change it.
                        let kept = s.scratch(value.length());
                        s.copy(&other, &kept);
                        kept
                    } else {
                        other.clone()
                    };
                    if partner > me {
                        s.fold(value, &other, true);
                    } else {
                        if begun {
                            s.reduce(&other, result);
                        } else {
                            s.copy(&other, result);
                            begun = true;
                        }
                        s.reduce(&again, value);
                    }
                }
                distance *= 2;
            }
        }
    }
}
