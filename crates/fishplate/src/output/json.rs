//! JSON for programs; `docs/reference/json-output.md` promises these forms.

use std::collections::BTreeMap;

use fishplate_client::Service;
use fishplate_client::deliver::{DeliveredValue, ValueFate};
use fishplate_contract::{
    DataRef, DataType, JobReport, Parameter, PlacementMethod, Signature, Transfer,
};
use fishplate_formats::json::{array_as_json, scalar};
use fishplate_launch::Report;
use fishplate_launch::launch::RankExit;
use fishplate_ranks::Rank;
use fishplate_ranks::status::KnownRank;
use serde_json::{Map, Value, json};

use crate::output::ranks;
use crate::output::text::moment;

/// What a service takes and gives.
pub(crate) fn usage(service: &Service) -> Value {
    let description = service.description();
    let operations: Vec<Value> = description
        .operations
        .iter()
        .map(|described| {
            let definition = &described.definition;
            let Signature { inputs, outputs } = &definition.signature;
            json!({
                "name": definition.name,
                "documentation": definition.documentation,
                "inputs": inputs.iter().map(parameter).collect::<Vec<_>>(),
                "outputs": outputs.iter().map(parameter).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "name": description.name,
        "title": description.title,
        "namespace": description.namespace,
        "documentation": description.documentation,
        "address": service.address(),
        "operations": operations,
    })
}

/// How the ranks of a domain ended.
pub(crate) fn launch(report: &Report) -> Value {
    let ranks = report.ranks.iter().zip(0..).map(|(rank, number)| {
        let (code, signal) = match rank.exit {
            RankExit::Code(code) => (Some(code), None),
            RankExit::Signal(signal) => (None, Some(signal.as_str())),
        };
        json!({
            "rank": number,
            "program": rank.program.to_string_lossy(),
            "pid": rank.pid,
            "exitCode": code,
            "signal": signal,
            "joined": rank.joined,
            "left": rank.left,
        })
    });
    json!({
        "domain": report.domain.to_string(),
        "exitCode": report.exit_code(),
        "cause": report.cause.map(|cause| cause.to_string()),
        "failedRank": report.cause.and_then(fishplate_launch::Cause::rank),
        "leftRunning": report.swept,
        "deadlock": ranks::deadlock_as_json(report.deadlock.as_ref()),
        "snapshot": report.snapshot.as_ref().map(snapshot),
        "ranks": ranks.collect::<Vec<_>>(),
    })
}

/// What ranks did when they were ended.
fn snapshot(known: &BTreeMap<Rank, KnownRank>) -> Value {
    let waits = known.iter().map(|(rank, known)| {
        json!({ "rank": rank, "ended": known.ended, "wait": ranks::wait_as_json(known) })
    });
    json!({ "ranks": waits.collect::<Vec<_>>(), "traffic": ranks::traffic_as_json(known) })
}

fn parameter(parameter: &Parameter) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(parameter.name));
    fields.insert("type".to_owned(), json!(parameter.data_type.name()));
    fields.insert("optional".to_owned(), json!(parameter.optional));
    fields.insert("repeated".to_owned(), json!(parameter.repeated));
    if parameter.repeated {
        fields.insert("minCount".to_owned(), json!(parameter.min_count));
        fields.insert("maxCount".to_owned(), json!(parameter.max_count));
    }
    for (name, text) in
        [("help", &parameter.help), ("unit", &parameter.unit), ("mediaType", &parameter.media_type)]
    {
        if !text.is_empty() {
            fields.insert(name.to_owned(), json!(text));
        }
    }
    for (name, text) in
        [("default", &parameter.default), ("min", &parameter.min), ("max", &parameter.max)]
    {
        if let Some(text) = text {
            fields.insert(name.to_owned(), json!(text));
        }
    }
    if !parameter.choices.is_empty() {
        fields.insert("choices".to_owned(), json!(parameter.choices));
    }
    if let DataType::Record(of) = &parameter.data_type {
        let of: Vec<Value> = of.iter().map(self::parameter).collect();
        fields.insert("fields".to_owned(), json!(of));
    }
    Value::Object(fields)
}

/// The outputs of a call by their names; repeated ones as lists.
pub(crate) fn outputs(delivered: &[DeliveredValue]) -> Value {
    let mut all = Map::new();
    for output in delivered {
        let value = output_value(output);
        if output.repeated {
            let list = all.entry(output.name.clone()).or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.push(value);
            }
        } else {
            all.insert(output.name.clone(), value);
        }
    }
    Value::Object(all)
}

fn output_value(output: &DeliveredValue) -> Value {
    let mut value = Map::new();
    if let Some(label) = &output.label {
        value.insert("name".to_owned(), json!(label));
    }
    match &output.fate {
        ValueFate::Shown(text) => {
            value.insert("value".to_owned(), scalar(text, output.data_type.as_ref()));
        }
        ValueFate::Numbers { element, shape, bytes, size } => {
            value.insert("type".to_owned(), json!(element.name()));
            value.insert("shape".to_owned(), json!(shape));
            value.insert("size".to_owned(), json!(size));
            if let Some(bytes) = bytes {
                value.insert("values".to_owned(), array_as_json(*element, shape, bytes));
            }
        }
        ValueFate::Saved { path, size } => {
            value.insert("file".to_owned(), json!(path.to_string_lossy()));
            value.insert("size".to_owned(), json!(size));
        }
        ValueFate::Referred(of) => {
            if let Value::Object(of) = reference(of) {
                value.extend(of);
            }
        }
        ValueFate::NotAsked { size } => {
            value.insert("size".to_owned(), json!(size));
        }
    }
    Value::Object(value)
}

/// All there is to tell of a job; what is not known is null.
pub(crate) fn report(report: &JobReport) -> Value {
    let mut told = listed(report);
    told["transfers"] = report.transfers.iter().map(transfer).collect();
    told
}

/// The same of a job in a list, in which no server tells of transfers.
pub(crate) fn listed(report: &JobReport) -> Value {
    json!({
        "job": report.id.to_string(),
        "service": report.service,
        "operation": report.operation,
        "state": report.state.name(),
        "message": report.message,
        "progress": report.progress,
        "submitted": moment(report.submitted),
        "started": report.started.map(moment),
        "ended": report.ended.map(moment),
        "exitCode": report.exit_code,
        "signal": report.signal,
        "cpuSeconds": report.usage.map(|usage| usage.cpu_seconds),
        "maxMemory": report.usage.map(|usage| usage.max_memory),
        "disk": report.usage.map(|usage| usage.disk),
        "endedBy": report.ended_by,
    })
}

fn transfer(transfer: &Transfer) -> Value {
    json!({
        "parameter": transfer.parameter,
        "peer": transfer.peer,
        "state": transfer.state.name(),
        "bytes": transfer.bytes,
        "size": transfer.total,
        "placed": transfer.placed.map(PlacementMethod::name),
        "cached": transfer.cached,
    })
}

/// A reference, as `put` and `get` tell it.
pub(crate) fn reference(reference: &DataRef) -> Value {
    json!({
        "url": reference.url,
        "size": reference.len,
        "digest": reference.digest.map(|of| of.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use fishplate_contract::Digest;

    use super::*;

    fn delivered(name: &str, data_type: DataType, fate: ValueFate) -> DeliveredValue {
        DeliveredValue {
            name: name.to_owned(),
            data_type: Some(data_type),
            repeated: false,
            label: None,
            fate,
        }
    }

    #[test]
    fn outputs_stand_by_name_and_repeated_ones_in_lists() {
        let mut a = delivered("mesh", DataType::Raw, ValueFate::NotAsked { size: Some(5) });
        a.repeated = true;
        a.label = Some("a.msh".to_owned());
        let saved = ValueFate::Saved { path: "r".into(), size: 2 };
        let referred = ValueFate::Referred(DataRef {
            url: "http://h/data/x/flow.vtk".to_owned(),
            len: Some(9),
            digest: Some(Digest::Sha256([0; 32])),
        });
        let all = [
            delivered("flow", DataType::Raw, referred),
            delivered("result", DataType::Int, ValueFate::Shown("3".to_owned())),
            delivered("file", DataType::Raw, saved),
            a,
        ];
        assert_eq!(
            outputs(&all),
            json!({
                "flow": {
                    "url": "http://h/data/x/flow.vtk",
                    "size": 9,
                    "digest": "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:",
                },
                "result": { "value": 3 },
                "file": { "file": "r", "size": 2 },
                "mesh": [{ "name": "a.msh", "size": 5 }],
            })
        );
    }
}
