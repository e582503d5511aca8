// Looks again every two seconds, as long as somebody looks at the page and the domain goes on.
const state = document.getElementById("state");
const live = document.getElementById("live");
let timer;
let last; // what aborts the newest look

function say(text) {
  if (live.textContent !== text) live.textContent = text;
}

function end() {
  document.getElementById("end")?.remove();
  say("All ranks of this server have ended.");
}

async function look() {
  clearTimeout(timer);
  last?.abort();
  if (document.hidden) return;
  const own = (last = new AbortController());
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.any([own.signal, AbortSignal.timeout(10000)]) });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = page.getElementById("state");
    if (answer.status === 404) return say("It can't be looked at any more: it has been ended, or forgotten.");
    if (!now) throw new Error(answer.status);
    // Whoever reads to the right stays there.
    const offsets = Array.from(state.querySelectorAll(".wide"), (wide) => wide.scrollLeft);
    state.replaceChildren(...now.childNodes);
    state.querySelectorAll(".wide").forEach((wide, at) => (wide.scrollLeft = offsets[at] ?? 0));
    if ("ended" in now.dataset) return end();
    say("This page is up to date.");
  } catch {
    if (own.signal.aborted) return;
    say("The server does not answer, or not now. It is asked again.");
  }
  timer = setTimeout(look, 2000);
}

if ("ended" in state.dataset) {
  end();
} else {
  document.addEventListener("visibilitychange", look);
  look();
}
