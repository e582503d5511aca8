// Files on their way to the server: how far they are, how fast, and a way to stop. What is wrong with a form is told in it, so that its files
// need not be chosen again. Without this script the browser sends the form, and shows what comes back.
"use strict";
const upload = (() => {
  const RECENT = 4000; // milliseconds that count for the rate
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

  function bytes(count) {
    const unit = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
    return `${(count / 1024 ** unit).toFixed(unit ? 1 : 0)} ${UNITS[unit]}`;
  }

  function time(seconds) {
    if (seconds < 60) return `${Math.ceil(seconds)} s`;
    return seconds < 3600 ? `${Math.ceil(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
  }

  /** What is wrong, as the page that came back has it, within the form as it is. */
  function tell(form, page) {
    const action = form.getAttribute("action");
    const told = Array.from(page?.querySelectorAll("form.run") ?? []).find((it) => it.getAttribute("action") === action);
    if (!told) {
      const main = page?.querySelector("main");
      if (main) document.querySelector("main").replaceChildren(...main.childNodes);
      return Boolean(main);
    }
    form.querySelectorAll(".alert, .error").forEach((it) => it.remove());
    form.querySelectorAll("[aria-invalid]").forEach((it) => it.removeAttribute("aria-invalid"));
    form.querySelectorAll(".wrong").forEach((it) => it.classList.remove("wrong"));
    form.prepend(...told.querySelectorAll(".alert"));
    for (const error of told.querySelectorAll(".error")) {
      const control = document.getElementById(error.id.slice(0, -"-error".length));
      const field = control?.closest(".field");
      if (!field) continue;
      field.classList.add("wrong");
      [".help", ".need", ".type"].map((name) => field.querySelector(name)).find(Boolean).after(error);
      control.setAttribute("aria-invalid", "true");
      control.focus();
    }
    form.querySelector(".alert")?.scrollIntoView({ block: "nearest" });
    return true;
  }

  /** Sends a form. `end` is called when it is no longer on its way, with what to say about it. */
  function send(form, end) {
    const view = form.querySelector(".upload");
    const [meter, figures, cancel] = ["progress", "span", "button"].map((name) => view.querySelector(name));
    const request = new XMLHttpRequest();
    const marks = [[performance.now(), 0]];
    const stay = (event) => event.preventDefault();
    const stop = () => request.abort();
    let isSent = false;

    const finish = (said) => {
      removeEventListener("beforeunload", stay);
      cancel.removeEventListener("click", stop);
      view.hidden = true;
      end(said);
    };
    request.upload.addEventListener("progress", ({ loaded, total }) => {
      const now = performance.now();
      marks.push([now, loaded]);
      while (marks.length > 2 && now - marks[0][0] > RECENT) marks.shift();
      const rate = (1000 * (loaded - marks[0][1])) / Math.max(1, now - marks[0][0]);
      meter.value = loaded / total;
      const left = rate > 0 && now - marks[0][0] > 1000 ? `, ${time((total - loaded) / rate)} left` : "";
      figures.textContent = `${Math.floor((100 * loaded) / total)} % of ${bytes(total)}, ${bytes(rate)}/s${left}`;
    });
    request.upload.addEventListener("load", () => {
      isSent = true;
      cancel.hidden = true;
      meter.removeAttribute("value");
      figures.textContent = "All is sent; the server looks at it.";
    });
    request.addEventListener("load", () => {
      // A job was begun, and its page is there.
      if (request.status < 400 && request.responseURL !== form.action) {
        removeEventListener("beforeunload", stay);
        location.assign(request.responseURL);
        return;
      }
      finish(tell(form, request.response) ? "" : `The server answered ${request.status} ${request.statusText}.`);
    });
    request.addEventListener("error", () => {
      finish(
        isSent
          ? "The connection broke before the server answered. Look among the jobs whether it runs; if not, try again."
          : "The connection broke before all was sent: nothing was run. Try again.",
      );
    });
    request.addEventListener("abort", () => finish("Cancelled: nothing was run."));

    addEventListener("beforeunload", stay);
    cancel.addEventListener("click", stop);
    cancel.hidden = false;
    meter.value = 0;
    figures.textContent = "0 %";
    view.hidden = false;
    request.open("POST", form.action);
    request.setRequestHeader("Accept", "text/html");
    request.responseType = "document";
    request.send(new FormData(form));
  }

  return { send, bytes };
})();
