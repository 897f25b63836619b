// The programs of the first steps: what is saved and run for each language.

import assert from "node:assert/strict";
import { test } from "node:test";

import { countFor, LANGUAGES } from "../../../console/static/console/pages/client_programs.js";

const to = {
  host: "127.0.0.1",
  port: "5672",
  tls: false,
  user: "app",
  password: "secret",
  queue: "orders",
  virtualhost: "default",
  count: 314,
};

test("a sender and its receiver can be in the same folder", () => {
  for (const { name, send, receive } of LANGUAGES) {
    assert.notEqual(send.file, receive.file, name);
    assert.match(send.file, /^send/i);
    assert.match(receive.file, /^receive/i);
  }
  // Of Go, all files of a folder are one program, which has one `main`.
  const go = LANGUAGES.find(({ name }) => name === "Go");
  assert.deepEqual([go?.send.file, go?.receive.file], ["send/main.go", "receive/main.go"]);
});

test("the commands begin in an empty folder and run the program by its file", () => {
  for (const { name, send, receive } of LANGUAGES) {
    for (const program of [send, receive]) {
      const [at] = program.file.split("/");
      assert.ok(program.commands.join("\n").includes(at), `${name}: ${program.file} is run`);
    }
  }
  const first = LANGUAGES.map(({ send }) => send.commands[0].split("\n")[0]);
  assert.deepEqual(first, [
    "python3 -m venv v",
    "cat > pom.xml <<'END'",
    "npm init -y",
    "go mod init first-steps",
    "dotnet new console --output send",
  ]);
});

test("as many messages are received as are sent", () => {
  for (const { name, send, receive } of LANGUAGES)
    for (const program of [send, receive])
      assert.ok(/\b31[45]\b/.test(program.text(to)), `${name}: ${program.file} has the number`);
});

test("a program sends twice as many messages as the queue takes, up to 2,000", () => {
  assert.deepEqual(countFor(100), { count: 200, fits: false });
  assert.deepEqual(countFor(1000), { count: 2000, fits: false });
  assert.deepEqual(countFor(1), { count: 10, fits: false });
  assert.deepEqual(countFor(1001), { count: 200, fits: true });
  assert.deepEqual(countFor(0), { count: 200, fits: true });
});
