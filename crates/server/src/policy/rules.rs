//! Groups and rules, and what they decide: what no rule allows is refused, and what a rule denies is refused
//! whatever others allow.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fishplate_contract::{Principal, Verb};

use super::quotas::QuotaRule;
use crate::dispatch::authorise::{Access, Action};

/// What begins the name of a group.
pub const GROUP: char = '@';

/// Everybody, with a name or without.
pub const ANYBODY: &str = "@anybody";

/// Everybody of whom it is known who they are.
pub const AUTHENTICATED: &str = "@authenticated";

/// A word in rules that stands for several actions, and those.
pub const SETS: [(&str, &[Action]); 1] = [(
    "see",
    &[
        Action::Verb(Verb::Results),
        Action::Verb(Verb::Running),
        Action::Verb(Verb::Status),
        Action::Verb(Verb::Log),
        Action::Verb(Verb::Jobs),
    ],
)];

/// Who may do what.
#[derive(Clone, Debug, Default)]
pub struct AccessPolicy {
    /// Members by the group's name, with its `@`.
    groups: BTreeMap<String, BTreeSet<String>>,
    rules: Vec<Rule>,
    pub(super) quotas: Vec<QuotaRule>,
    /// Places of the rules that concern a user, by name or as a member of a group.
    of_user: HashMap<String, Vec<usize>>,
    /// Places of the rules that concern everybody who is known.
    of_authenticated: Vec<usize>,
    /// Places of the rules that concern everybody.
    of_anybody: Vec<usize>,
}

/// Whether a rule gives or takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `[[allow]]`.
    Allow,
    /// `[[deny]]`.
    Deny,
}

/// A rule. Where it names nothing (`None`), it concerns all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it gives or takes.
    pub effect: Effect,
    /// The line of the file where it begins, from 1.
    pub line: usize,
    /// Users, and groups with their `@`.
    pub who: Vec<String>,
    /// Services that it is about; all if it names none.
    pub services: Option<Vec<String>>,
    /// Operations of these.
    pub operations: Option<Vec<String>>,
    /// What may be done, or may not.
    pub actions: Option<HashSet<Action>>,
}

/// What was decided, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'p> {
    /// This rule allows it.
    Allowed(&'p Rule),
    /// Whoever has the address may read what is there, and no rule denies it.
    AllowedByAddress,
    /// This rule denies it.
    Denied(&'p Rule),
    /// No rule allows it.
    NotAllowed,
}

impl Decision<'_> {
    /// Whether it may be done.
    pub fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed(_) | Self::AllowedByAddress)
    }
}

impl Effect {
    /// The name of its tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

impl Rule {
    /// Whether it is about this, whoever asks.
    fn concerns(&self, access: &Access<'_>) -> bool {
        let names = |names: &Option<Vec<String>>, name: &str| {
            names.as_ref().is_none_or(|names| names.iter().any(|it| it == name))
        };
        // What is about jobs is of no operation: who may run one may look at what came of it.
        let operation = match self.effect {
            Effect::Allow if access.operation.is_empty() => true,
            _ => names(&self.operations, access.operation),
        };
        // Who may do anything with a service has to read how.
        let described = self.effect == Effect::Allow && access.action == Action::Describe;
        let action = self.actions.as_ref();
        // Whose name others trust has to be said, and who has others' results.
        let is_said = matches!(access.action, Action::Register | Action::Reuse);
        let unnamed = self.effect == Effect::Deny || !is_said;
        let action = action.map_or(unnamed, |actions| actions.contains(&access.action));
        let action = described || action;
        operation && action && names(&self.services, access.service)
    }
}

impl AccessPolicy {
    /// That of these groups (names with their `@`) and rules.
    pub fn new(
        groups: BTreeMap<String, BTreeSet<String>>,
        rules: Vec<Rule>,
        quotas: Vec<QuotaRule>,
    ) -> Self {
        let mut policy = Self { groups, rules, quotas, ..Self::default() };
        for (place, rule) in policy.rules.iter().enumerate() {
            for who in &rule.who {
                match who.as_str() {
                    ANYBODY => policy.of_anybody.push(place),
                    AUTHENTICATED => policy.of_authenticated.push(place),
                    name => {
                        let alone = BTreeSet::from([name.to_owned()]);
                        let members = if name.starts_with(GROUP) {
                            policy.groups.get(name).cloned().unwrap_or_default()
                        } else {
                            alone
                        };
                        for member in members {
                            policy.of_user.entry(member).or_default().push(place);
                        }
                    }
                }
            }
        }
        policy
    }

    /// Whether anybody may do anything.
    pub(super) fn allows_something(&self) -> bool {
        self.rules.iter().any(|rule| rule.effect == Effect::Allow)
    }

    /// Whether somebody may have results of this owner's jobs: if one rule allows both of them to reuse what the service gives, and no rule denies it
    /// to either. Those whom different rules allow it do not share.
    pub fn may_reuse(&self, access: &Access<'_>, owner: &Principal) -> bool {
        let of_owner = Access { principal: owner, ..*access };
        let is_allowed = |access: &Access<'_>| self.decide(access).is_allowed();
        let own: Vec<usize> = self.about(access).collect();
        let allows = |place: usize| self.rules[place].effect == Effect::Allow;
        is_allowed(access)
            && is_allowed(&of_owner)
            && self.about(&of_owner).any(|place| allows(place) && own.contains(&place))
    }

    /// Places of the rules that are about this.
    fn about(&self, access: &Access<'_>) -> impl Iterator<Item = usize> {
        let known = !access.principal.is_anonymous() && !access.is_by_address();
        let named = self.of_user.get(access.principal.as_str()).filter(|_| known);
        let authenticated = known.then_some(&self.of_authenticated);
        let places = named.into_iter().chain(authenticated).chain([&self.of_anybody]).flatten();
        places.copied().filter(move |place| self.rules[*place].concerns(access))
    }

    /// Whether it may be done, and why. A rule that denies counts more than one that allows; of several, the first.
    /// Where the address is the permission nobody is asked for a name, so only rules for everybody count.
    pub fn decide(&self, access: &Access<'_>) -> Decision<'_> {
        // Deny before allow, then as they stand.
        let first = self
            .about(access)
            .min_by_key(|place| (self.rules[*place].effect == Effect::Allow, *place));
        match first.map(|place| &self.rules[place]) {
            Some(rule) if rule.effect == Effect::Deny => Decision::Denied(rule),
            _ if access.is_by_address() => Decision::AllowedByAddress,
            Some(rule) => Decision::Allowed(rule),
            None => Decision::NotAllowed,
        }
    }

    /// Whether a user is in the group of this name.
    pub(super) fn is_member(&self, user: &str, group: &str) -> bool {
        self.groups.get(group).is_some_and(|members| members.contains(user))
    }

    /// The groups of a user that are in this rule.
    pub fn groups_of<'p>(&'p self, user: &str, rule: &'p Rule) -> impl Iterator<Item = &'p str> {
        let is_in = move |group: &&String| self.is_member(user, group);
        rule.who.iter().filter(is_in).map(String::as_str).collect::<Vec<_>>().into_iter()
    }

    /// The services that rules name.
    pub fn services(&self) -> BTreeSet<&str> {
        self.rules.iter().flat_map(|rule| &rule.services).flatten().map(String::as_str).collect()
    }
}
