// The dialog that stops or starts producers: what it will touch, why, and what came of it.

import { get, post, query } from "./api.js";
import { fill, h, icon } from "./elements.js";
import { count, exact, plural } from "./format.js";
import { parseName, scopeInWords, shortName } from "./objectname.js";

const WORDS = {
  stop: {
    path: "stop-producers/",
    title: "Stop",
    doing: "Stopping…",
    says: "Every producer of them is held back until producers are started again, also after a restart of the broker. Consumers go on.",
    placeholder: "Such as: consumers of orders are being redeployed",
  },
  start: {
    path: "start-producers/",
    title: "Start",
    doing: "Starting…",
    says: "The operator's stop of this scope is lifted. A queue that is overfull, or stopped by a stop of another scope, still holds its producers.",
    placeholder: "Such as: consumers are back",
  },
};

/** Ask for a reason and do it. `scope`: the object name of the broker, a virtual host or a queue. */
export function openStopDialog(action, scope, { withPattern = parseName(scope)?.type !== "Queue" } = {}) {
  const text = WORDS[action];
  const all = parseName(scope)?.type === "Broker";
  const heading = all ? `${text.title} all producers` : `${text.title} producers of ${scopeInWords(scope)}`;
  const preview = h("div", { class: "preview", "aria-live": "polite" }, h("p", { class: "loading" }, "Counting…"));
  const reason = h("textarea", { id: "stop-reason", rows: "2", required: true, maxlength: "500", placeholder: text.placeholder });
  const pattern = h("input", { type: "text", id: "stop-pattern", spellcheck: "false", maxlength: "255", placeholder: "orders.> or *.eu" });
  const problem = h("div", { class: "notice error", role: "alert", hidden: true });
  const submit = h("button", { type: "submit", class: action === "stop" ? "danger solid" : "primary" }, icon(action), heading);
  const cancel = h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Cancel");
  const form = h(
    "form",
    { method: "dialog", novalidate: true },
    h("h2", { id: "stop-title" }, heading),
    preview,
    h("p", { class: "muted" }, text.says),
    h("label", { class: "field" }, h("span", {}, "Reason ", h("em", {}, "required")), reason, h("small", { class: "hint" }, "Kept in the audit trail", action === "stop" ? " and shown to everybody while the stop is in force." : ".")),
    withPattern ? h("details", { class: "more" }, h("summary", {}, "Only some queues"), h("label", { class: "field" }, h("span", {}, "Pattern"), pattern, h("small", { class: "hint" }, "* stands for one word, > or # for any number of words at the end."))) : null,
    problem,
    h("div", { class: "dialog-actions" }, cancel, submit),
  );
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "stop-title", id: `${action}-dialog` }, form);
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());

  let asked = null;
  const ask = async () => {
    asked?.abort();
    asked = new AbortController();
    try {
      const answer = await post("stop-producers/preview/", { scope, pattern: pattern.value.trim(), reason: "" }, asked.signal);
      fill(preview, ...previewLines(action, answer));
    } catch (error) {
      if (error.name !== "AbortError") fill(preview, h("p", { class: "wrong" }, error.message));
    }
  };
  let pause = 0;
  pattern.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(ask, 250);
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!reason.value.trim()) {
      problem.hidden = false;
      fill(problem, h("p", {}, "Say why: whoever meets this later wants to know."));
      reason.setAttribute("aria-invalid", "true");
      reason.focus();
      return;
    }
    submit.disabled = true;
    fill(submit, text.doing);
    problem.hidden = true;
    try {
      const answer = await post(text.path, { scope, pattern: pattern.value.trim(), reason: reason.value.trim() });
      fill(form, h("h2", { id: "stop-title" }, action === "stop" ? "Producers stopped" : "Producers started"), ...answerLines(action, answer),
        h("div", { class: "dialog-actions" }, h("button", { type: "button", class: "primary", autofocus: true, on: { click: () => dialog.close() } }, "Close")));
      form.querySelector(".dialog-actions button").focus();
      if (action === "stop") followDraining(form, scope, answer);
    } catch (error) {
      submit.disabled = false;
      fill(submit, icon(action), heading);
      problem.hidden = false;
      fill(problem, h("p", {}, error.message));
    }
  });

  dialog.showModal();
  reason.focus();
  ask();
  return dialog;
}

function previewLines(action, answer) {
  const verb = action === "stop" ? "stops" : "starts";
  const lines = [h("p", { class: "preview-count" }, `This ${verb} `, h("strong", {}, plural(answer.producers, "producer")), " of ", h("strong", {}, plural(answer.queues, "queue")), ".")];
  if (answer.already_stopped) lines.push(h("p", { class: "muted" }, `${plural(answer.already_stopped, "queue is", "queues are")} stopped already.`));
  if (answer.largest?.length) {
    lines.push(h("ul", { class: "preview-largest" }, answer.largest.slice(0, 5).map((queue) =>
      h("li", {}, h("span", {}, queue.name ?? shortName(queue.object ?? "")), h("span", { class: "muted" }, `${count(queue.producers)} producers`)))));
  }
  return lines;
}

function answerLines(action, answer) {
  const lines = [];
  if (action === "stop") {
    lines.push(h("p", { class: "answer" }, h("strong", {}, plural(answer.producers, "producer")), ` of ${plural(answer.queues, "queue")} ${answer.producers === 1 ? "gets" : "get"} no more credit.`));
    lines.push(h("dl", { class: "facts" }, h("dt", {}, "Stopped"), h("dd", { class: "stopped-now" }), h("dt", {}, "Draining"), h("dd", { class: "draining-now" })));
    if (!answer.changed) lines.push(h("p", { class: "muted" }, "The same stop was in force before."));
  } else {
    const held = answer.stopped ?? 0;
    lines.push(h("p", { class: "answer" }, `The stop is lifted for ${plural(answer.producers, "producer")} on ${plural(answer.queues, "queue")}.`));
    if (held) lines.push(h("p", { class: "muted" }, `${plural(held, "producer is", "producers are")} still held, by an overfull queue or another stop.`));
    if (!answer.changed) lines.push(h("p", { class: "muted" }, "No such stop was in force."));
  }
  return lines;
}

/** Say how many producers are still draining, until none is or the dialog is closed. */
async function followDraining(form, scope, answer) {
  const name = parseName(scope);
  const where = { draining: "true", page_size: 1, ...(name.type === "Queue" ? { queue: scope } : name.type === "VirtualHost" ? { virtualhost: name.keys.name } : {}) };
  let left = answer.draining;
  for (let tries = 0; ; tries += 1) {
    form.querySelector(".stopped-now").textContent = exact(answer.producers - left);
    form.querySelector(".draining-now").textContent = left ? `${exact(left)}: messages that were on their way may still arrive` : "0: nothing is on its way any more";
    if (!left || tries === 60) return;
    await new Promise((resume) => setTimeout(resume, 500));
    if (!form.isConnected) return;
    try {
      left = Math.min(left, (await get(`producers/${query(where)}`)).count);
    } catch {
      return; // what was told last stands
    }
  }
}
