// A workflow as a service, called by who knows nothing of workflows: its result, how far it is, its end with its jobs.

import java.net.URL;
import java.util.List;

import jakarta.xml.ws.Holder;

import settling.JobsJob;
import settling.Settle;
import settling.SettlePortType;

import smoothing.JobsState;
import smoothing.Smooth;
import smoothing.SmoothPortType;

final class Workflows {
    private static final double TOLERANCE = 0.5; // K
    private static final int SWEEPS = 25;
    // K; with one sweep a call, a plate is far from it after the most calls that the workflow makes.
    private static final double FINEST = 1e-9;
    // With so many a job of the workflow lasts a second or more.
    private static final int MANY_SWEEPS = 1000;
    // A job may end while its workflow is being killed: then another one is begun.
    private static final int TRIES = 5;
    private static final int PAUSE = 20; // ms between two questions

    private final SettlePortType settle;
    private final SmoothPortType smooth;
    private final String server;

    Workflows(URL settleWsdl, URL smoothWsdl) {
        settle = new Settle(settleWsdl).getSettleSoap11();
        smooth = new Smooth(smoothWsdl).getSmoothSoap11();
        server = settleWsdl.getProtocol() + "://" + settleWsdl.getAuthority();
    }

    void run() {
        Client.check("workflow-call", () -> {
            double temperature = settle.call(server, "called", TOLERANCE, SWEEPS);
            Client.expect(temperature > 50 && temperature < 100, "found " + temperature);
        });
        Client.check("workflow-progress", this::followed);
        Client.check("workflow-kill", this::killed);
    }

    private void followed() throws Exception {
        // It would go on for hundreds of calls: it is between its beginning and its end whenever it is asked.
        String endless = settle.spawn(server, "endless", FINEST, 1);
        JobsJob now = told(endless);
        while (now.getProgress() == null || now.getProgress() <= 0) {
            Client.expect(settle.running(endless), "it ended: " + now.getMessage());
            Thread.sleep(PAUSE);
            now = told(endless);
        }
        Client.expect(now.getProgress() < 1, "its progress is " + now.getProgress());
        settle.kill(endless, new Holder<>(), new Holder<>());
        String job = settle.spawn(server, "followed", TOLERANCE, SWEEPS);
        while (settle.running(job)) {
            Thread.sleep(PAUSE);
        }
        double found = settle.results(job);
        double called = settle.call(server, "followed", TOLERANCE, SWEEPS);
        Client.expect(found == called, "found " + found + ", wanted " + called);
    }

    private void killed() throws Exception {
        for (int tried = 0; tried < TRIES; tried++) {
            String job = settle.spawn(server, "killed", 0.0, MANY_SWEEPS);
            String child = running();
            while (child == null) {
                Client.expect(settle.running(job), "the workflow ended: " + told(job).getMessage());
                Thread.sleep(PAUSE);
                child = running();
            }
            Holder<String> state = new Holder<>();
            settle.kill(job, state, new Holder<>());
            while (settle.running(job)) {
                Thread.sleep(PAUSE);
            }
            Client.expect("killed".equals(told(job).getState()), "the workflow is " + told(job).getState());
            Client.expect(running() == null, "a job of the workflow goes on");
            String last = child;
            if (jobs(null).stream().anyMatch(one -> one.getId().equals(last) && "killed".equals(one.getState()))) {
                return;
            }
        }
        Client.expect(false, "no job was ended with its workflow");
    }

    private JobsJob told(String job) throws Exception {
        Holder<List<JobsJob>> all = new Holder<>();
        settle.jobs(null, null, null, all, new Holder<>());
        return all.value.stream().filter(one -> one.getId().equals(job)).findFirst().orElseThrow();
    }

    /** A job of the workflow that runs. */
    private String running() throws Exception {
        List<smoothing.JobsJob> all = jobs(JobsState.RUNNING);
        return all.isEmpty() ? null : all.get(0).getId();
    }

    private List<smoothing.JobsJob> jobs(JobsState state) throws Exception {
        Holder<List<smoothing.JobsJob>> all = new Holder<>();
        smooth.jobs(state, null, null, all, new Holder<>());
        return all.value;
    }
}
