//! How a caller wants the outputs of a job: by value or by reference, and where they are delivered.

use fishplate_contract::{
    CallOptions, DataType, Fault, FaultCode, Notices, OutputChoice, OutputForm, SessionId, lexical,
};
use serde::{Deserialize, Serialize};

use crate::plan::{OutputRule, OutputSource, Plan};

/// How a caller wants the outputs of a job; persisted with its plan and its completion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputChoices {
    /// The session that the job runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Outputs of which the caller said how; at most one choice an output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<StoredChoice>,
    /// What the face that took the call wants to find again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What that face is to tell of the job by itself.
    #[serde(default, skip_serializing_if = "StoredNotices::is_none")]
    pub notices: StoredNotices,
}

/// [`Notices`], persisted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredNotices {
    /// That its program was started.
    pub start: bool,
    /// How it ended.
    pub end: bool,
}

impl StoredNotices {
    /// Nothing is to be told.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl From<Notices> for StoredNotices {
    fn from(Notices { start, end }: Notices) -> Self {
        Self { start, end }
    }
}

/// How a caller wants one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredChoice {
    /// Name of the output, or [`OutputChoice::ALL`].
    pub name: String,
    /// [`OutputForm::name`].
    pub form: String,
    /// Where it is delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl Plan {
    /// Takes what the caller said of outputs and session into the plan.
    ///
    /// # Errors
    /// `UnexpectedParameter` for an output that is not there or stands twice; `InvalidValue` for one
    /// that can't go by reference, or a destination that does not fit.
    pub fn choose(&mut self, options: &CallOptions) -> Result<(), Fault> {
        let choices = choices(&self.outputs, &options.outputs)?;
        self.answer = OutputChoices {
            session: options.session.map(|session| session.to_string()),
            choices,
            note: options.note.clone(),
            notices: options.notices.into(),
        };
        Ok(())
    }
}

impl OutputChoices {
    /// Nothing was said: all outputs go by value.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The session that the job runs in.
    pub fn session(&self) -> Option<SessionId> {
        self.session.as_ref().and_then(|session| session.parse().ok())
    }

    /// The choice that an output has.
    fn choice(&self, name: &str) -> Option<&StoredChoice> {
        let named = |wanted: &str| self.choices.iter().find(|choice| choice.name == wanted);
        named(name).or_else(|| named(OutputChoice::ALL))
    }

    /// It does not just go by value.
    pub fn is_chosen(&self, name: &str) -> bool {
        self.form(name) != OutputForm::Value || self.destination(name).is_some()
    }

    /// By value, by reference, or as the server likes.
    pub fn form(&self, name: &str) -> OutputForm {
        let form = self.choice(name).and_then(|choice| OutputForm::from_name(&choice.form));
        let unchosen =
            if self.session.is_some() { OutputForm::Reference } else { OutputForm::Value };
        form.unwrap_or(unchosen)
    }

    /// The same with choices that were made later: what they do not name stays as it was chosen.
    pub fn chosen_again(&self, mut again: Vec<StoredChoice>) -> Self {
        if !again.iter().any(|choice| choice.name == OutputChoice::ALL) {
            let stays = |earlier: &&StoredChoice| again.iter().all(|it| it.name != earlier.name);
            let earlier: Vec<_> = self.choices.iter().filter(stays).cloned().collect();
            again.extend(earlier);
        }
        Self { choices: again, ..self.clone() }
    }

    /// Whether a file or array output of so many bytes goes by reference.
    pub fn by_reference(&self, name: &str, len: u64, reference_size: u64) -> bool {
        match self.form(name) {
            OutputForm::Value => false,
            OutputForm::Reference => true,
            OutputForm::Auto => len >= reference_size,
        }
    }

    /// Where outputs are delivered: each choice's name and destination.
    pub fn destinations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.choices.iter().filter_map(|choice| Some((choice.name.as_str(), choice.to.as_deref()?)))
    }

    /// Where an output is delivered.
    pub fn destination(&self, name: &str) -> Option<&str> {
        self.choice(name)?.to.as_deref()
    }
}

/// What an outputs' choices are, once nothing is wrong with them.
///
/// # Errors
/// As [`Plan::choose`].
pub fn choices(rules: &[OutputRule], wanted: &[OutputChoice]) -> Result<Vec<StoredChoice>, Fault> {
    for (at, choice) in wanted.iter().enumerate() {
        if wanted[..at].iter().any(|earlier| earlier.name == choice.name) {
            let name = lexical::shortened(&choice.name);
            let what = format!("output {name} is chosen twice; choose it once");
            return Err(Fault::new(FaultCode::UnexpectedParameter, what).parameter(&choice.name));
        }
        check(rules, choice)?;
    }
    let choice = |wanted: &OutputChoice| StoredChoice {
        name: wanted.name.clone(),
        form: wanted.form.name().to_owned(),
        to: wanted.to.clone(),
    };
    Ok(wanted.iter().map(choice).collect())
}

fn check(rules: &[OutputRule], choice: &OutputChoice) -> Result<(), Fault> {
    let name = &choice.name;
    let wrong = |what: String| Err(Fault::new(FaultCode::InvalidValue, what).parameter(name));
    let all = name == OutputChoice::ALL;
    let Some(rule) = rules.iter().find(|rule| rule.name == *name || all) else {
        if all {
            return Ok(());
        }
        let known: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
        let name = lexical::shortened(name);
        let what = format!("there is no output {name:?}; there are {}", known.join(", "));
        return Err(Fault::new(FaultCode::UnexpectedParameter, what).parameter(choice.name.clone()));
    };
    let referable = rule.is_referable();
    if !all && !referable && (choice.form == OutputForm::Reference || choice.to.is_some()) {
        let data_type = &rule.data_type;
        return wrong(format!("output {name} is of type {data_type} and goes by value only"));
    }
    let several = rules.iter().filter(|rule| rule.is_referable()).count() > 1 && all
        || matches!(rule.source, OutputSource::Glob(_));
    if let Some(to) = &choice.to
        && several
        && !to.ends_with('/')
        && !to.starts_with("mailto:")
    {
        return wrong(format!(
            "several files can't be delivered to one address: end {:?} with /, and each gets its \
             name after it",
            lexical::shortened(to)
        ));
    }
    Ok(())
}

impl OutputRule {
    /// It holds a file or an array, and so can go by reference.
    pub fn is_referable(&self) -> bool {
        DataType::from_name(&self.data_type)
            .is_some_and(|it| it.is_binary() || it.as_array().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, data_type: &str) -> OutputRule {
        OutputRule {
            name: name.to_owned(),
            data_type: data_type.to_owned(),
            source: OutputSource::Path(name.to_owned()),
            required: true,
            non_empty: false,
            format: None,
            media_type: String::new(),
        }
    }

    fn wanted(name: &str, form: OutputForm, to: Option<&str>) -> OutputChoice {
        OutputChoice { name: name.to_owned(), form, to: to.map(str::to_owned) }
    }

    #[test]
    fn what_is_not_chosen_goes_by_value_and_in_a_session_by_reference() {
        let plain = OutputChoices::default();
        assert!(!plain.by_reference("mesh", u64::MAX, 0));
        let session = OutputChoices { session: Some("00".repeat(16)), ..OutputChoices::default() };
        assert!(session.by_reference("mesh", 0, 1));
        assert!(session.session().is_some());
        let rules = [rule("mesh", "raw"), rule("grid", "double[]"), rule("n", "int")];
        let chosen = [
            wanted("*", OutputForm::Auto, None),
            wanted("mesh", OutputForm::Value, Some("mailto:ann@example.org")),
        ];
        let answer = OutputChoices { choices: choices(&rules, &chosen).unwrap(), ..session };
        assert!(!answer.by_reference("mesh", 9, 1));
        assert!(answer.by_reference("grid", 1, 1) && !answer.by_reference("grid", 0, 1));
        assert_eq!(answer.destination("mesh"), Some("mailto:ann@example.org"));
        assert_eq!(answer.destination("grid"), None);
    }

    #[test]
    fn a_later_choice_overrides_the_earlier_one_of_what_it_names() {
        let (value, reference) = (OutputForm::Value, OutputForm::Reference);
        let rules = [rule("mesh", "raw"), rule("grid", "double[]")];
        let chosen = |wanted: &[OutputChoice]| choices(&rules, wanted).unwrap();
        let to = Some("mailto:ann@example.org");
        let earlier = OutputChoices {
            choices: chosen(&[wanted("mesh", reference, None), wanted("grid", reference, to)]),
            ..OutputChoices::default()
        };
        let one = earlier.chosen_again(chosen(&[wanted("mesh", value, None)]));
        assert_eq!((one.form("mesh"), one.form("grid")), (value, reference));
        assert_eq!(one.destination("grid"), to);
        let all = earlier.chosen_again(chosen(&[wanted("*", OutputForm::Auto, None)]));
        assert_eq!((all.form("mesh"), all.form("grid")), (OutputForm::Auto, OutputForm::Auto));
        assert_eq!(all.destination("grid"), None);
        let all = OutputChoices {
            choices: chosen(&[wanted("*", reference, to)]),
            ..OutputChoices::default()
        };
        let but_one = all.chosen_again(chosen(&[wanted("mesh", value, None)]));
        assert_eq!((but_one.destination("mesh"), but_one.destination("grid")), (None, to));
    }

    #[test]
    fn a_choice_that_cannot_be_is_a_fault_that_names_its_output() {
        let mut rules = vec![rule("mesh", "raw"), rule("n", "int"), rule("frames", "raw")];
        rules[2].source = OutputSource::Glob("*.vtk".to_owned());
        let fault = |wanted: &[OutputChoice]| {
            let fault = choices(&rules, wanted).unwrap_err();
            (fault.code, fault.parameter.unwrap())
        };
        let reference = OutputForm::Reference;
        let twice = [wanted("mesh", reference, None), wanted("mesh", OutputForm::Value, None)];
        assert_eq!(fault(&twice), (FaultCode::UnexpectedParameter, "mesh".to_owned()));
        let unknown = [wanted("mash", reference, None)];
        assert_eq!(fault(&unknown), (FaultCode::UnexpectedParameter, "mash".to_owned()));
        let scalar = [wanted("n", reference, None)];
        assert_eq!(fault(&scalar), (FaultCode::InvalidValue, "n".to_owned()));
        let mailed = [wanted("n", OutputForm::Value, Some("mailto:a@b"))];
        assert_eq!(fault(&mailed), (FaultCode::InvalidValue, "n".to_owned()));
        for name in ["frames", "*"] {
            let one = [wanted(name, reference, Some("s3://bucket/one"))];
            assert_eq!(fault(&one), (FaultCode::InvalidValue, name.to_owned()));
            for to in ["s3://bucket/each/", "mailto:a@b"] {
                assert!(choices(&rules, &[wanted(name, reference, Some(to))]).is_ok());
            }
        }
        assert!(choices(&rules, &[wanted("n", OutputForm::Auto, None)]).is_ok());
    }
}
