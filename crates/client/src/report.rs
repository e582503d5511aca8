//! What the verbs on jobs answer.

use fishplate_contract::{
    Argument, JobId, JobPage, JobReport, JobState, PlacementMethod, Timestamp, Transfer,
    TransferState, Usage, Value, lexical,
};

/// The fields of an answer or a record. Errors are sentences for [`crate::Error::BadAnswer`].
pub(crate) struct Fields<'a>(pub(crate) &'a [Argument]);

impl<'a> Fields<'a> {
    pub(crate) fn find(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|field| field.name == name).and_then(|field| match &field.value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub(crate) fn text(&self, name: &str) -> Result<&'a str, String> {
        self.find(name).ok_or_else(|| format!("{name} is missing"))
    }

    fn optional<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.find(name).map(lexical::trimmed).filter(|text| !text.is_empty())
        else {
            return Ok(None);
        };
        let unexpected = || format!("{name} is {:?}", lexical::shortened(text));
        parse(text).map(Some).ok_or_else(unexpected)
    }

    fn required<T>(&self, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, String> {
        self.optional(name, parse)?.ok_or_else(|| format!("{name} is missing"))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, String> {
        self.required(name, |text| match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        })
    }

    pub(crate) fn job(&self, name: &str) -> Result<JobId, String> {
        self.required(name, |text| text.parse().ok())
    }

    pub(crate) fn number(&self, name: &str) -> Result<u64, String> {
        self.required(name, |text| text.parse().ok())
    }

    pub(crate) fn moment(&self, name: &str) -> Result<Timestamp, String> {
        self.required(name, moment)
    }

    pub(crate) fn state(&self) -> Result<JobState, String> {
        self.required("state", JobState::from_name)
    }

    pub(crate) fn report(&self, service: &str) -> Result<JobReport, String> {
        let text = |name| self.find(name).unwrap_or("").to_owned();
        let usage = Usage {
            cpu_seconds: self.optional("cpuSeconds", lexical::number)?.unwrap_or(0.0),
            max_memory: self.optional("maxMemory", |text| text.parse().ok())?.unwrap_or(0),
            disk: self.optional("disk", |text| text.parse().ok())?.unwrap_or(0),
        };
        let used = ["cpuSeconds", "maxMemory", "disk"].iter().any(|name| self.find(name).is_some());
        Ok(JobReport {
            id: self.job("id")?,
            service: service.to_owned(),
            operation: text("operation"),
            state: self.state()?,
            progress: self.optional("progress", lexical::number)?,
            message: text("message"),
            submitted: self.required("submitted", moment)?,
            started: self.optional("started", moment)?,
            ended: self.optional("ended", moment)?,
            exit_code: self.optional("exitCode", |text| text.parse().ok())?,
            signal: self.find("signal").filter(|signal| !signal.is_empty()).map(str::to_owned),
            usage: used.then_some(usage),
            ended_by: text("endedBy"),
            transfers: self
                .records("transfer")
                .map(|it| transfer(&it))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The records of that name.
    fn records(&self, name: &str) -> impl Iterator<Item = Fields<'a>> {
        self.0.iter().filter_map(move |field| match &field.value {
            Value::Record(fields) if field.name == name => Some(Fields(fields)),
            _ => None,
        })
    }

    pub(crate) fn page(&self, service: &str) -> Result<JobPage, String> {
        let jobs = self.records("job").map(|fields| fields.report(service));
        let jobs = jobs.collect::<Result<_, _>>()?;
        Ok(JobPage { jobs, more: self.flag("more")? })
    }
}

/// Data of a job on its way.
fn transfer(fields: &Fields<'_>) -> Result<Transfer, String> {
    Ok(Transfer {
        parameter: fields.text("parameter")?.to_owned(),
        peer: fields.find("peer").unwrap_or_default().to_owned(),
        state: fields.required("state", TransferState::from_name)?,
        bytes: fields.number("bytes")?,
        total: fields.optional("total", |text| text.parse().ok())?,
        placed: fields.optional("placed", PlacementMethod::from_name)?,
        cached: fields.optional("cached", |text| text.parse().ok())?.unwrap_or_default(),
    })
}

/// The moment of an `xs:dateTime` with a time zone.
fn moment(text: &str) -> Option<Timestamp> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(moment.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(extra: &[(&str, &str)]) -> Vec<Argument> {
        let base = [
            ("id", "000102030405060708090a0b0c0d0e0f"),
            ("operation", "call"),
            ("state", "running"),
            ("message", ""),
            ("submitted", "1970-01-01T00:00:01.500Z"),
        ];
        base.iter().chain(extra).map(|(name, text)| Argument::text(*name, *text)).collect()
    }

    #[test]
    fn a_report_is_read_with_and_without_its_optional_fields() {
        let report = Fields(&fields(&[])).report("s").unwrap();
        assert_eq!(report.state, JobState::Running);
        assert_eq!(report.submitted, Timestamp(1500));
        assert_eq!((report.started, report.usage, report.exit_code), (None, None, None));
        let extra = [
            ("started", "1970-01-01T01:00:02+01:00"),
            ("exitCode", "-3"),
            ("maxMemory", "4096"),
            ("progress", "0.25"),
            ("signal", "SIGKILL"),
        ];
        let report = Fields(&fields(&extra)).report("s").unwrap();
        assert_eq!(report.started, Some(Timestamp(2000)));
        assert_eq!(report.exit_code, Some(-3));
        assert_eq!(report.usage.unwrap().max_memory, 4096);
        assert_eq!(report.progress, Some(0.25));
        assert_eq!(report.signal.as_deref(), Some("SIGKILL"));
    }

    #[test]
    fn a_report_tells_transfers() {
        let texts = |fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(name, text)| Argument::text(*name, *text));
            Argument::new("transfer", Value::Record(fields.collect()))
        };
        let first = [("parameter", "mesh"), ("state", "running"), ("bytes", "7"), ("peer", "")];
        let second = [
            ("parameter", "deck"),
            ("peer", "https://a.example"),
            ("state", "done"),
            ("bytes", "9"),
            ("total", "9"),
            ("placed", "reflink"),
        ];
        let mut told = fields(&[]);
        told.extend([texts(&first), texts(&second)]);
        let report = Fields(&told).report("s").unwrap();
        let (mesh, deck) = (&report.transfers[0], &report.transfers[1]);
        assert_eq!((mesh.state, mesh.total, mesh.placed), (TransferState::Running, None, None));
        assert_eq!((deck.bytes, deck.total), (9, Some(9)));
        assert_eq!(deck.placed, Some(PlacementMethod::Reflink));
        assert_eq!(deck.peer, "https://a.example");
        told.push(texts(&[("parameter", "x"), ("state", "lost"), ("bytes", "0")]));
        assert_eq!(Fields(&told).report("s").unwrap_err(), "state is \"lost\"");
    }

    #[test]
    fn a_report_that_is_not_one_says_which_field() {
        let error = Fields(&fields(&[])[1..]).report("s").unwrap_err();
        assert_eq!(error, "id is missing");
        let error = Fields(&fields(&[("ended", "yesterday")])).report("s").unwrap_err();
        assert_eq!(error, "ended is \"yesterday\"");
    }
}
