//! What is read of a job's log, page by page.

use fishplate_contract::{Fault, FaultCode, JobId, LogPage, Principal};

use super::Engine;
use crate::store::JobRecord;
use crate::workspace::{self, OutputStream};

/// Bytes that one page has at most.
const LOG_PAGE: usize = 256 << 10;

impl Engine {
    /// What a job's program wrote to standard output or standard error, from an offset.
    ///
    /// # Errors
    /// `NoSuchJob`.
    pub async fn log(
        &self,
        owner: &Principal,
        service: &str,
        job: JobId,
        stream: OutputStream,
        offset: u64,
    ) -> Result<LogPage, Fault> {
        // The state is read before the log: what is written up to the end is then in the page.
        let record = self.record(owner, service, job).await?;
        let (ended, directory) = (record.state.is_final(), record.directory.clone());
        let exists = directory.clone();
        // A long plan goes with the files, and without files there is no log.
        if ended && !beside_runtime(move || exists.exists()).await? {
            return Ok(LogPage { text: String::new(), next: offset, end: true });
        }
        let (_, Some(plan)) = self.with_plan(record).await? else {
            return Ok(LogPage { text: String::new(), next: offset, end: true });
        };
        let read = move || workspace::read_log(&plan, &directory, stream, offset, LOG_PAGE);
        let (bytes, next) = beside_runtime(read).await?.map_err(|error| {
            Fault::new(FaultCode::Internal, format!("the log cannot be read: {error}")).job(job)
        })?;
        let end = ended && bytes.len() < LOG_PAGE;
        Ok(page(&bytes, next, end))
    }

    /// Bytes of a job's log by now: where its end is looked for.
    ///
    /// # Errors
    /// `NoSuchJob`.
    pub async fn log_length(
        &self,
        owner: &Principal,
        service: &str,
        job: JobId,
        stream: OutputStream,
    ) -> Result<u64, Fault> {
        let JobRecord { directory, .. } = self.record(owner, service, job).await?;
        // Without files there is no log, nor a plan that is long.
        let Ok(plan) = self.plan(job).await else { return Ok(0) };
        let length = move || workspace::log_length(&plan, &directory, stream);
        Ok(beside_runtime(length).await?.unwrap_or_default())
    }
}

/// Looks at files, which may take its time.
pub(super) async fn beside_runtime<T: Send + 'static>(
    look: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    let looked = tokio::task::spawn_blocking(look).await;
    looked.map_err(|_| Fault::new(FaultCode::Internal, "the job's files could not be read"))
}

/// A page of a log as text. Bytes that are no UTF-8 are replaced; a character cut by the end of the page
/// is left for the next one.
fn page(bytes: &[u8], next: u64, end: bool) -> LogPage {
    let cut = if end { 0 } else { cut_character(bytes) };
    let text = String::from_utf8_lossy(&bytes[..bytes.len() - cut]).into_owned();
    LogPage { text, next: next - cut as u64, end }
}

/// How many bytes at the end begin a character whose rest is missing.
fn cut_character(bytes: &[u8]) -> usize {
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(4)..]) {
        Ok(_) => 0,
        Err(error) if error.error_len().is_none() => bytes.len().min(4) - error.valid_up_to(),
        Err(_) => {
            // Something else is wrong there; only a beginning at the very end counts.
            let tail = bytes.iter().rev().take(3).position(|byte| byte & 0xC0 == 0xC0);
            tail.map_or(0, |back| {
                let start = bytes.len() - back - 1;
                let cut =
                    std::str::from_utf8(&bytes[start..]).is_err_and(|e| e.error_len().is_none());
                if cut { back + 1 } else { 0 }
            })
        }
    }
}

#[cfg(test)]
mod tests {
    fn page(bytes: &[u8], end: bool) -> (String, u64) {
        let next = 100 + bytes.len() as u64;
        let page = super::page(bytes, next, end);
        (page.text, page.next)
    }

    #[test]
    fn a_character_cut_by_the_page_is_left_for_the_next() {
        assert_eq!(page("ab\u{e9}".as_bytes(), false), ("ab\u{e9}".to_owned(), 104));
        assert_eq!(page(b"ab\xc3", false), ("ab".to_owned(), 102));
        assert_eq!(page(b"ab\xe2\x82", false), ("ab".to_owned(), 102));
        assert_eq!(page(b"\xff\xfe\xf0\x9f\x98", false).1, 102);
        assert_eq!(page(b"", false), (String::new(), 100));
    }

    #[test]
    fn what_is_no_utf_8_is_replaced_and_counted_in_bytes() {
        assert_eq!(page(b"a\xffb", false), ("a\u{fffd}b".to_owned(), 103));
        assert_eq!(page(b"ab\xc3", true), ("ab\u{fffd}".to_owned(), 103));
    }
}
