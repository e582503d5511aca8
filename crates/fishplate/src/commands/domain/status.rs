//! `fishplate domain status`: where ranks are and are reached, what they exchanged, who waits for whom.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use fishplate_client::domain::{DomainServer, Member, RankState};
use fishplate_client::{Service, Settings};
use fishplate_contract::JobReport;
use fishplate_ranks::Rank;
use fishplate_ranks::status::{Deadlock, KnownRank};
use serde_json::{Value, json};

use super::{ServerArgs, servers};
use crate::commands::client::duration;
use crate::exit::Exit;
use crate::output::{Output, ranks, text};

// A domain, and how often to look.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// Tell it again and again until all ranks have ended
    #[arg(long, value_name = "TIME", value_parser = duration, num_args = 0..=1,
          require_equals = true, default_missing_value = "2s")]
    watch: Option<Duration>,
    #[command(flatten)]
    domain: ServerArgs,
}

struct Picture {
    members: Vec<(String, Member, JobReport)>,
    ranks: BTreeMap<Rank, KnownRank>,
    /// Servers that did not say what their ranks do, and why.
    unknown: Vec<(String, String)>,
}

pub(super) async fn status(args: &StatusArgs, output: Output) -> Result<Exit> {
    let (id, settings) = (args.domain.domain.to_string(), args.domain.reach.settings()?);
    let servers = servers(&args.domain, &settings).await?;
    loop {
        let picture = Picture::take(&id, &servers, &settings).await?;
        picture.show(&id, output)?;
        let is_over = picture.ranks.values().all(|known| known.ended);
        match args.watch {
            Some(pause) if !is_over => tokio::time::sleep(pause).await,
            _ => return Ok(Exit::Success),
        }
        if !output.json {
            output.line("")?;
        }
    }
}

/// What ranks told their servers, by rank. A status that can't be read is none: its server may be of a later release.
pub(super) fn known(told: &[RankState]) -> BTreeMap<Rank, KnownRank> {
    let known = told.iter().map(|of| {
        let status = of.status.as_ref().and_then(|line| line.parse().ok());
        (of.rank, KnownRank { status, ended: of.ended })
    });
    known.collect()
}

impl Picture {
    async fn take(
        id: &str,
        servers: &[(String, DomainServer)],
        settings: &Settings,
    ) -> Result<Self> {
        let (mut members, mut told, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        for (_, server) in servers {
            match server.state(id).await {
                Ok(state) => told.extend(state),
                Err(error) => unknown.push((server.url(), error.to_string())),
            }
            for member in server.members(id).await? {
                let url = server.url();
                let server = url.rsplit_once('/').map_or(url.as_str(), |(server, _)| server);
                let url = format!("{server}/{}", member.service);
                let service = Service::connect_with(&url, settings.clone()).await?;
                let report = service.status(member.job).await?;
                members.push((url, member, report));
            }
        }
        members.sort_by_key(|(_, member, _)| member.rank);
        let mut ranks = known(&told);
        for (_, member, report) in &members {
            let known = ranks.entry(member.rank).or_default();
            known.ended |= member.left || report.state.is_final();
        }
        Ok(Self { members, ranks, unknown })
    }

    fn show(&self, id: &str, output: Output) -> Result<()> {
        for (url, why) in &self.unknown {
            output
                .note(&format!("{url}: what its ranks wait for and exchanged can't be had: {why}"));
        }
        let deadlock = Deadlock::find(&self.ranks);
        if output.json {
            let members: Vec<Value> =
                self.members.iter().map(|member| self.member_as_json(member)).collect();
            output.value(&json!({
                "domain": id,
                "ranks": members,
                "traffic": ranks::traffic_as_json(&self.ranks),
                "routes": ranks::routes_as_json(&self.ranks),
                "omittedRoutes": ranks::omitted_routes(&self.ranks),
                "deadlock": ranks::deadlock_as_json(deadlock.as_ref()),
            }))?;
            return Ok(());
        }
        for (url, member, report) in &self.members {
            let joined = match (&member.address, member.left) {
                (None, _) => "not joined".to_owned(),
                (Some(_), true) => "left".to_owned(),
                (Some(address), false) => {
                    let gateway = member.gateway.as_ref();
                    let gateway = gateway.map(|gateway| format!(", from elsewhere {gateway}"));
                    format!("at {address}{}", gateway.unwrap_or_default())
                }
            };
            let (rank, job, state) = (member.rank, member.job, report.state.name());
            let mut line = format!("{rank}  {state}  {joined}  {url}  {job}");
            let wait = ranks::wait(&self.ranks[&rank]);
            if !wait.is_empty() {
                line.push_str(&format!("  {wait}"));
            }
            output.line(&text::harmless(&line))?;
        }
        for line in ranks::traffic(&self.ranks) {
            output.line(&text::harmless(&line))?;
        }
        if let Some(deadlock) = deadlock {
            output.line(&text::harmless(&deadlock.to_string()))?;
        }
        Ok(())
    }

    fn member_as_json(&self, (url, member, report): &(String, Member, JobReport)) -> Value {
        json!({
            "rank": member.rank,
            "service": url,
            "job": member.job.to_string(),
            "state": report.state.name(),
            "message": report.message,
            "address": member.address,
            "gateway": member.gateway,
            "left": member.left,
            "wait": ranks::wait_as_json(&self.ranks[&member.rank]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_is_known_and_a_status_that_is_none_is_left_out() {
        let told = [(0, false, Some("0 - - 1500 0 0 1 recv from 1")), (1, true, None)];
        let mut told = told.map(|(rank, ended, status)| {
            let status = status.map(str::to_owned);
            RankState { rank, ended, status }
        });
        let found = Deadlock::find(&known(&told));
        assert_eq!(found, None, "rank 1 told nothing, so something may be under way");
        told[1].status = Some("0 - -".to_owned());
        let found = Deadlock::find(&known(&told)).unwrap();
        assert_eq!(found.to_string(), "deadlock: rank 0 waits in recv from 1; rank 1 has ended");
        told[0].status = Some("later form".to_owned());
        assert_eq!(known(&told)[&0], KnownRank::default());
    }
}
