//! Names are stable on every face, and each leads back to what it names.

use std::collections::HashSet;
use std::fmt::Debug;

use fishplate_contract::{
    DataType, ElementType, Fault, FaultCode, JobState, OutputForm, Parameter, PlacementMethod,
    TransferState,
};

/// Name -> value -> name for all; and no two have the same name.
fn there_and_back<T: Copy + PartialEq + Debug>(
    all: &[T],
    name: impl Fn(T) -> &'static str,
    from_name: impl Fn(&str) -> Option<T>,
) {
    let mut names = HashSet::new();
    for value in all {
        let name = name(*value);
        assert!(names.insert(name), "{name} stands twice");
        assert_eq!(from_name(name), Some(*value), "{name}");
        for other in [format!("{name} "), name.to_uppercase() + "x", name[1..].to_owned()] {
            assert_ne!(from_name(&other), Some(*value), "{other}");
        }
    }
    assert_eq!(from_name(""), None);
}

/// That `ALL` has all: a variant that is added does not compile until it is named here too.
macro_rules! complete {
    ($type:ident: $($variant:ident)+) => {{
        let place = |value: $type| -> usize {
            match value { $($type::$variant => $type::$variant as usize,)+ }
        };
        let places: HashSet<usize> = $type::ALL.into_iter().map(place).collect();
        assert_eq!(places.len(), [$(stringify!($variant)),+].len());
    }};
}

#[test]
fn every_name_leads_back_to_what_it_names() {
    there_and_back(FaultCode::ALL, FaultCode::name, FaultCode::from_name);
    there_and_back(&JobState::ALL, JobState::name, JobState::from_name);
    there_and_back(&TransferState::ALL, TransferState::name, TransferState::from_name);
    there_and_back(&PlacementMethod::ALL, PlacementMethod::name, PlacementMethod::from_name);
    there_and_back(&OutputForm::ALL, OutputForm::name, OutputForm::from_name);
    there_and_back(&ElementType::ALL, ElementType::name, ElementType::from_name);
    complete!(JobState: Fetching Queued Running Done Failed Killed Unknown);
    complete!(TransferState: Waiting Running Done Failed);
    complete!(PlacementMethod: Reflink Link Move Copy);
    complete!(OutputForm: Value Reference Auto);
    complete!(ElementType: Int Long Float Double);
}

#[test]
fn every_type_that_can_be_named_leads_back_to_its_name() {
    let arrays = ElementType::ALL.map(|element| format!("{}[][]", element.name()));
    let names = DataType::NAMES.into_iter().chain(arrays.iter().map(String::as_str));
    let mut types: Vec<DataType> = Vec::new();
    for name in names {
        let data_type = DataType::from_name(name).unwrap();
        assert_eq!(data_type.name(), name);
        assert!(!types.contains(&data_type), "{name}");
        let binary = ["raw", "xml", "dir"].contains(&name);
        assert_eq!(
            (data_type.is_binary(), data_type.as_array().is_some()),
            (binary, name.contains('['))
        );
        types.push(data_type);
    }
    // These are in reports only: no slot is of such a type.
    for data_type in
        [DataType::DateTime, DataType::Record(vec![Parameter::new("a", DataType::Int)])]
    {
        assert_eq!(DataType::from_name(&data_type.name()), None);
    }
}

#[test]
fn a_job_ends_in_four_states() {
    let ends = JobState::ALL.into_iter().filter(|state| state.is_final());
    let names: Vec<&str> = ends.map(JobState::name).collect();
    assert_eq!(names, ["done", "failed", "killed", "unknown"]);
}

#[test]
fn every_fault_says_its_code_and_has_a_meaning() {
    for code in FaultCode::ALL {
        assert_eq!(Fault::new(*code, "why").to_string(), format!("{}: why", code.name()));
        let meaning = code.meaning().trim();
        assert!(meaning.len() > 10 && meaning.ends_with('.'), "{code:?}: {meaning:?}");
    }
}
