//! Usage Records of the Open Grid Forum, version 1.0 (GFD.98).

use std::fmt::Write as _;

use fishplate_contract::{JobState, lexical};
use fishplate_jobs::store::UsageRecord;

use super::text::moment;

/// The namespace (GFD.98, section 4).
const NAMESPACE: &str = "http://schema.ogf.org/urf/2003/09/urf";

/// A document of all these.
pub(crate) fn xml(records: &[UsageRecord]) -> String {
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urf:UsageRecords xmlns:urf=\"{NAMESPACE}\">\n"
    );
    for (number, record) in records.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write(&mut text, number, record);
    }
    text.push_str("</urf:UsageRecords>\n");
    text
}

/// The elements in the order of the schema.
fn write(text: &mut String, number: usize, record: &UsageRecord) -> std::fmt::Result {
    let kind = if record.job.is_some() { "JobUsageRecord" } else { "UsageRecord" };
    let (owner, service) = (escaped(record.owner.as_str()), escaped(&record.service));
    let id = match record.job {
        Some(job) => format!("urn:fishplate:job:{job}"),
        None => format!("urn:fishplate:usage:{}:{number}", record.ended.0),
    };
    let created = moment(record.ended);
    writeln!(
        text,
        "<urf:{kind}>\n <urf:RecordIdentity urf:recordId=\"{id}\" urf:createTime=\"{created}\"/>"
    )?;
    if let Some(job) = record.job {
        writeln!(
            text,
            " <urf:JobIdentity><urf:LocalJobId>{job}</urf:LocalJobId></urf:JobIdentity>"
        )?;
    }
    if !record.owner.is_anonymous() {
        writeln!(
            text,
            " <urf:UserIdentity><urf:LocalUserId>{owner}</urf:LocalUserId></urf:UserIdentity>"
        )?;
    }
    writeln!(text, " <urf:JobName>{service}.{}</urf:JobName>", escaped(&record.operation))?;
    writeln!(
        text,
        " <urf:Status urf:description=\"{}\">{}</urf:Status>",
        escaped(&record.state),
        status(&record.state)
    )?;
    // Its volumes are positive.
    if record.max_memory > 0 {
        writeln!(
            text,
            " <urf:Memory urf:storageUnit=\"B\" urf:metric=\"max\" urf:type=\"physical\">{}</urf:Memory>",
            record.max_memory
        )?;
    }
    for (way, bytes) in [("in", record.bytes_in), ("out", record.bytes_out)] {
        if bytes > 0 {
            writeln!(
                text,
                " <urf:Network urf:description=\"{way}\" urf:storageUnit=\"B\">{bytes}</urf:Network>"
            )?;
        }
    }
    let submitted = moment(record.submitted);
    writeln!(text, " <urf:TimeInstant urf:type=\"submit\">{submitted}</urf:TimeInstant>")?;
    let wall = format!("PT{}.{:03}S", record.wall / 1000, record.wall % 1000);
    writeln!(text, " <urf:WallDuration>{wall}</urf:WallDuration>")?;
    let cpu = record.cpu_seconds;
    writeln!(text, " <urf:CpuDuration>PT{cpu:.6}S</urf:CpuDuration>")?;
    writeln!(text, " <urf:EndTime>{}</urf:EndTime>", moment(record.ended))?;
    if let Some(started) = record.started {
        writeln!(text, " <urf:StartTime>{}</urf:StartTime>", moment(started))?;
    }
    writeln!(text, " <urf:Queue>{service}</urf:Queue>")?;
    if record.count > 1 {
        writeln!(
            text,
            " <urf:ConsumableResource urf:units=\"jobs\">{}</urf:ConsumableResource>",
            record.count
        )?;
    }
    writeln!(text, "</urf:{kind}>")
}

/// The word of GFD.98, section 6.10, for the final state of a job.
fn status(state: &str) -> &'static str {
    match JobState::from_name(state) {
        Some(JobState::Done) => "completed",
        Some(JobState::Killed) => "aborted",
        _ => "failed",
    }
}

/// Text of an element or an attribute; what XML has no characters for is left out.
fn escaped(text: &str) -> String {
    let fits = |c: &char| !(c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'));
    lexical::escaped(&text.chars().filter(fits).collect::<String>())
}
