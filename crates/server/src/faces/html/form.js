// A form that runs an operation: files may be dropped on their fields, and what must be there is asked for before it is sent.
// Without this script the server says what is missing.
for (const field of document.querySelectorAll("[data-drop]")) {
  const input = field.querySelector("input[type=file]");
  const others = Array.from(field.querySelectorAll("textarea, input[type=url]"));

  const check = () => {
    const missing = "required" in field.dataset && !input.files.length && others.every((other) => !other.value.trim());
    (field.querySelector("textarea[id]") ?? input).setCustomValidity(missing ? "Choose a file, write it, or give its address." : "");
  };

  for (const type of ["dragenter", "dragover"]) {
    field.addEventListener(type, (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      field.classList.add("over");
    });
  }
  field.addEventListener("dragleave", (event) => {
    if (!field.contains(event.relatedTarget)) field.classList.remove("over");
  });
  field.addEventListener("drop", (event) => {
    field.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    const files = new DataTransfer();
    const wanted = input.multiple ? event.dataTransfer.files : [event.dataTransfer.files[0]];
    for (const file of wanted) files.items.add(file);
    input.files = files.files;
    check();
  });
  field.addEventListener("input", check);
  check();
}

for (const form of document.querySelectorAll("form.run")) {
  const button = form.querySelector("button.main");
  const sending = form.querySelector(".sending");
  form.addEventListener("submit", () => {
    button.disabled = true;
    sending.textContent = "It is being sent.";
  });
  // Whoever comes back may run it again.
  addEventListener("pageshow", () => {
    button.disabled = false;
    sending.textContent = "";
  });
}

document.querySelector("[aria-invalid]")?.focus();
