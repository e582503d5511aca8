//! A request's body, with its limits: it may neither stall nor trickle.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode, JobState};
use hyper::body::{Body, Frame};
use hyper::header;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::reply::{HttpResponse, put};
use crate::data::Transfer;
use crate::settings::Settings;

/// A body that is being read.
#[derive(Debug)]
pub struct Incoming<B> {
    body: B,
    limits: BodyLimits,
    /// How long its sender was waited for.
    waited: Duration,
    /// Since when he is waited for now.
    since: Option<Instant>,
    read: u64,
    ended: bool,
    /// Rings when nothing has come for too long, or earlier: it is moved only when it rings.
    alarm: Option<Pin<Box<Sleep>>>,
    /// The body was not there at the first look.
    asked: bool,
    /// The transfer that it is, if it is noted as one.
    transfer: Option<Transfer>,
}

/// How slow a body may be.
#[derive(Clone, Copy, Debug)]
struct BodyLimits {
    stall: Duration,
    rate: u64,
    drain_size: u64,
    drain_time: Duration,
}

/// Why a body cannot be read on.
#[derive(Debug)]
pub enum ReadError {
    /// Nothing came for `body_stall`.
    Stalled(Duration),
    /// Less than `body_rate` came.
    Trickles(u64),
    /// The connection broke, or the framing is wrong.
    Broken(String),
}

impl ReadError {
    /// The fault that says so.
    pub fn into_fault(self) -> Fault {
        match self {
            Self::Stalled(limit) => Fault::new(
                FaultCode::TimedOut,
                format!("nothing of the message came for {} s", limit.as_secs()),
            )
            .limit("body_stall", format!("{} s", limit.as_secs())),
            Self::Trickles(rate) => Fault::new(
                FaultCode::TimedOut,
                format!("the message comes too slowly: less than {rate} bytes a second"),
            )
            .limit("body_rate", format!("{rate} bytes/s")),
            Self::Broken(what) => Fault::new(
                FaultCode::MalformedMessage,
                format!("the message ended before its time: {what}"),
            ),
        }
    }
}

impl<B> Incoming<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    /// A body under the limits of these settings.
    pub fn new(body: B, settings: &Settings) -> Self {
        let limits = BodyLimits {
            stall: settings.body_stall,
            rate: settings.body_rate,
            drain_size: settings.drain_size,
            drain_time: settings.drain_time,
        };
        let (waited, since, alarm, transfer) = (Duration::ZERO, None, None, None);
        let (read, ended, asked) = (0, false, false);
        Self { body, limits, waited, since, read, ended, alarm, asked, transfer }
    }

    /// Has what is read of it counted as a transfer.
    pub(crate) fn count_as(&mut self, transfer: Transfer) {
        self.transfer = Some(transfer);
    }

    /// The transfer is over, and ended so: what is read from now on is thrown away.
    pub(crate) fn ended_as(&mut self, state: JobState) {
        self.transfer.take().into_iter().for_each(|mut transfer| transfer.state = state);
    }

    /// Bytes that it says it has; `None` if only its end will tell.
    pub fn told(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Nobody has asked for any of it, and there is some: a sender who expects `100 Continue` has not
    /// been told to go on.
    pub fn is_untouched(&self) -> bool {
        !self.asked && self.read == 0 && !self.ended && !self.body.is_end_stream()
    }

    /// The next chunk; `None` at the end.
    ///
    /// # Errors
    /// [`ReadError`]; the body must not be read on.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        // While nobody asked, it was not the sender who was slow.
        self.since = None;
        while !self.ended {
            // Whoever told a length need not be asked again for the end.
            if self.body.is_end_stream() {
                self.ended = true;
                break;
            }
            let frame = poll_fn(|context| self.poll_frame(context)).await;
            let frame = frame.map_err(|error| self.gone(error))?;
            let Some(frame) = frame else {
                self.ended = true;
                break;
            };
            let Ok(data) = frame.into_data() else { continue };
            self.read += data.len() as u64;
            self.transfer.iter_mut().for_each(|transfer| transfer.came += data.len() as u64);
            let waited = self.waited;
            if waited > self.limits.stall && self.read < self.limits.rate * waited.as_secs() {
                return Err(self.gone(ReadError::Trickles(self.limits.rate)));
            }
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// The next frame. A body that came with its header costs no look at the clock, and one that comes in
    /// many frames costs one timer.
    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Frame<Bytes>>, ReadError>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.waited += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            let broken = |error: B::Error| ReadError::Broken(error.to_string());
            return Poll::Ready(frame.transpose().map_err(broken));
        }
        if !std::mem::replace(&mut self.asked, true) {
            // The connection hands out what it has already read once it was asked, and that was
            // now: look again before there is an alarm.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let stall = self.limits.stall;
        let due = *self.since.get_or_insert_with(Instant::now) + stall;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
        while alarm.as_mut().poll(context).is_ready() {
            if alarm.deadline() >= due {
                return Poll::Ready(Err(ReadError::Stalled(stall)));
            }
            alarm.as_mut().reset(due);
        }
        Poll::Pending
    }

    /// Reads on for a while without looking, so that a sender who is still busy gets to see the
    /// answer. Tells whether the body has ended.
    pub async fn drain(&mut self) -> bool {
        if self.ended {
            return true;
        }
        let until = self.read + self.limits.drain_size;
        let drained = timeout(self.limits.drain_time, async {
            while self.read < until {
                match self.next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
            false
        });
        drained.await.unwrap_or(false)
    }

    /// Drains it before this is answered; if it does not end, the connection does.
    pub(crate) async fn drain_before(&mut self, reply: &mut HttpResponse) {
        if !self.drain().await {
            put(reply, header::CONNECTION, "close");
        }
    }

    /// Nothing more will come of it.
    fn gone(&mut self, error: ReadError) -> ReadError {
        self.ended = true;
        error
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;
    use tokio::time::{Sleep, sleep};

    use super::*;

    /// Gives `size` bytes, then waits `pause`, and so on for ever.
    struct SlowBody {
        size: usize,
        pause: Duration,
        wait: Pin<Box<Sleep>>,
    }

    impl SlowBody {
        fn new(size: usize, pause: Duration) -> Self {
            Self { size, pause, wait: Box::pin(sleep(Duration::ZERO)) }
        }
    }

    impl Body for SlowBody {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            std::task::ready!(self.wait.as_mut().poll(context));
            self.wait = Box::pin(sleep(self.pause));
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![0; self.size])))))
        }
    }

    async fn refusal(body: SlowBody) -> Fault {
        let mut body = Incoming::new(body, &Settings::new("http://localhost"));
        loop {
            match body.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended"),
                Err(error) => return error.into_fault(),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_or_trickles_is_refused_by_name() {
        let stalled = refusal(SlowBody::new(1, Duration::from_secs(100))).await;
        assert_eq!(stalled.code, FaultCode::TimedOut);
        assert_eq!(stalled.limit.unwrap().name, "body_stall");
        let trickles = refusal(SlowBody::new(1, Duration::from_secs(1))).await;
        assert_eq!(trickles.limit.unwrap().name, "body_rate");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_is_not_to_blame_for_the_time_that_we_take() {
        let settings = Settings::new("http://localhost");
        let mut body = Incoming::new(SlowBody::new(1 << 20, Duration::from_millis(1)), &settings);
        for _ in 0..3 {
            assert!(matches!(body.next().await, Ok(Some(_))));
            // The next chunk is not there at the first look.
            body.body.wait = Box::pin(sleep(settings.body_stall * 2));
            sleep(settings.body_stall * 2 - Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_slow_but_fast_enough_is_read_on() {
        let mut body = Incoming::new(
            SlowBody::new(4096, Duration::from_secs(1)),
            &Settings::new("http://localhost"),
        );
        for _ in 0..300 {
            assert!(matches!(body.next().await, Ok(Some(_))));
        }
    }
}
