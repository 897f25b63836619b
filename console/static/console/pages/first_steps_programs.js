// The programs of the first steps: one that sends and one that receives, in the chosen language, with the commands that
// run them.

import { fillOnce, h, setText } from "../core/elements.js";
import { settings } from "../core/settings.js";
import { copyButton } from "../widgets/copy_button.js";
import { plainField } from "../widgets/form_dialog.js";
import { LANGUAGES } from "./client_programs.js";

/**
 * What was created on this page, or is there: `chosen`: the queue is the one that was created here.
 *
 * @typedef {{host: string, queue: string, chosen: boolean, user: string, password: string}} Made
 */

/** A link that keeps this page, with the password in its programs. */
export const aside = (
  /** @type {string} */ href,
  /** @type {any} */ text,
  /** @type {Record<string, any>} */ more = {},
) => h("a", { href, target: "_blank", title: "Opens in a new tab: this page keeps its programs", ...more }, text);

/** Where clients connect: a broker that the console reaches by loopback is at the console's own host for others. */
function address() {
  const found = new URL((settings.amqp || "amqp://127.0.0.1:5672").replace(/^amqp/, "http")); // amqp: has no parts
  const port = /:(\d+)$/.exec(settings.amqp)?.[1] ?? "5672";
  const loopback = ["127.0.0.1", "localhost", "[::1]"];
  const host = loopback.includes(found.hostname) ? location.hostname : found.hostname;
  return { host, port, tls: settings.amqp.startsWith("amqps:") };
}

/**
 * Text, and above it what is to be done with it and a button that copies it.
 *
 * @param {string} id
 * @param {string} what
 */
function copyable(id, what) {
  const code = h("code", { id });
  const says = h("p");
  const head = h("div", { class: "program-file" }, says, copyButton(code, what));
  const label = `${what[0].toUpperCase()}${what.slice(1)}`;
  const text = h("pre", { class: "program", tabindex: "0", "aria-label": label }, code);
  return { code, says, head, text };
}

export class Programs {
  #made;
  #language = LANGUAGES[0];
  #count = 0;
  #userExists = false;
  #renew;
  #needs = h("p", { class: "needs" });
  #send = copyable("send-text", "the program that sends");
  #sendCommands = copyable("send-commands", "the commands that run it");
  #receive = copyable("receive-text", "the program that receives");
  #receiveCommands = copyable("receive-commands", "the command that runs it");

  /**
   * @param {Made} made
   * @param {HTMLButtonElement} renew makes a new password of the user, for a page that has none
   */
  constructor(made, renew) {
    this.#made = made;
    this.#renew = renew;
  }

  /** What the step shows that sends. */
  sender() {
    const choice = plainField("language", "Language", { choices: LANGUAGES.map(({ name }) => [name, name]) });
    choice.input.addEventListener("change", () => {
      this.#language = LANGUAGES.find(({ name }) => name === choice.input.value) ?? this.#language;
      this.show();
    });
    return [
      h("div", { class: "program-head" }, choice.element, this.#renew, this.#needs),
      this.#send.head,
      this.#send.text,
      this.#sendCommands.head,
      this.#sendCommands.text,
    ];
  }

  /** What the step shows that receives. */
  receiver() {
    return [this.#receive.head, this.#receive.text, this.#receiveCommands.head, this.#receiveCommands.text];
  }

  /**
   * Show the programs as they are for what was made.
   *
   * @param {{count?: number, userExists?: boolean}} [changes] messages to send; whether the named user exists
   */
  show({ count = this.#count, userExists = this.#userExists } = {}) {
    this.#count = count;
    this.#userExists = userExists;
    const { send, receive, needs, packages, encrypts } = this.#language;
    const { host, queue, user, password } = this.#made;
    const to = { ...address(), user, password: password || "PASSWORD", queue, virtualhost: host, count };
    setText(this.#send.code, send.text(to));
    setText(this.#receive.code, receive.text(to));
    setText(this.#sendCommands.code, send.commands.join(" &&\n"));
    setText(this.#receiveCommands.code, receive.commands.join(" &&\n"));
    this.#renew.hidden = Boolean(password) || !userExists;
    const clear = !to.tls && !encrypts;
    fillOnce(this.#needs, JSON.stringify([needs, user, !password, clear]), () => [
      `Needs ${needs}.`,
      ...(packages ? [" Debian: ", h("code", {}, packages), "."] : []),
      password ? null : ` Replace PASSWORD by that of ${user}, which was shown once.`,
      ...(clear
        ? [
            " Without TLS this client can sign in on the broker's own machine only: ",
            aside("/help/broker/#users-permissions-and-tls", "users and TLS"),
            ".",
          ]
        : []),
    ]);
    fillOnce(this.#send.says, send.file, () => [
      "Save this program as ",
      h("code", {}, send.file),
      " in an empty folder:",
    ]);
    fillOnce(this.#sendCommands.says, "", () => "Run it there:");
    fillOnce(this.#receive.says, receive.file, () => [
      "Save this program as ",
      h("code", {}, receive.file),
      " in the same folder:",
    ]);
    fillOnce(this.#receiveCommands.says, "", () => "Run it there, in a second terminal:");
  }
}
