import assert from "node:assert/strict";
import { test } from "node:test";

import { EditSession } from "../../../console/static/console/widgets/edit_session.js";

/** A field without a page: its text is parsed as JSON; empty text is null, or undefined unless `nullable`. */
function fake(name, nullable = true) {
  const field = {
    declared: { name },
    text: "",
    error: "",
    read: () => (field.text === "" ? (nullable ? null : undefined) : JSON.parse(field.text)),
    set: (value) => {
      field.text = value === null ? "" : JSON.stringify(value);
    },
    wrong: (text) => {
      field.error = text;
    },
    check: () => {
      try {
        field.read();
        field.error = "";
      } catch (error) {
        field.error = error.message;
      }
      return field.error === "";
    },
  };
  return field;
}

function edit() {
  const capacity = fake("capacity");
  const resume = fake("resume");
  const session = new EditSession([capacity, resume]);
  session.rebase({ capacity: 100, resume: null }, 1);
  return { capacity, resume, session };
}

test("loading shows the values and is not a change", () => {
  const { capacity, resume, session } = edit();
  assert.deepEqual([capacity.text, resume.text], ["100", ""]);
  assert.equal(session.version, 1);
  assert.equal(session.dirty, false);
  assert.deepEqual(session.changes(), {});
});

test("changes are the fields that differ from the loaded values", () => {
  const { capacity, resume, session } = edit();
  capacity.text = "50";
  assert.deepEqual(session.changes(), { capacity: 50 });
  resume.text = '"80%"';
  capacity.text = "";
  assert.deepEqual(session.changes(), { capacity: null, resume: "80%" });
  capacity.text = "100";
  resume.text = "";
  assert.equal(session.dirty, false);
});

test("lists and maps are compared by value", () => {
  const grants = fake("grants");
  const session = new EditSession([grants]);
  session.rebase({ grants: ["default:publish"] }, 1);
  grants.text = '["default:publish"]';
  assert.equal(session.dirty, false);
  grants.text = "[]";
  assert.deepEqual(session.changes(), { grants: [] });
});

test("an invalid value is a change that cannot be read", () => {
  const { capacity, session } = edit();
  capacity.text = "many";
  assert.equal(session.dirty, true);
  assert.equal(session.check(), false);
  assert.throws(() => session.changes());
});

test("an undefined value leaves its attribute unchanged", () => {
  const password = fake("password", false);
  const session = new EditSession([password]);
  session.rebase({ password: "" }, 1);
  password.text = "";
  assert.equal(session.dirty, false);
  password.text = '"secret"';
  assert.deepEqual(session.changes(), { password: "secret" });
});

test("a default value and an empty field are equal", () => {
  const priority = fake("priority", false);
  const session = new EditSession([priority], { defaults: { priority: 0 } });
  session.rebase({ priority: 0 }, 1);
  assert.equal(priority.text, "");
  assert.equal(session.dirty, false);
  session.rebase({ priority: 5 }, 2);
  assert.equal(priority.text, "5");
  priority.text = "";
  assert.deepEqual(session.changes(), { priority: 0 });
  session.discard();
  assert.equal(priority.text, "5");
});

test("a change by another user is shown in untouched fields, and edits are preserved", () => {
  const { capacity, resume, session } = edit();
  capacity.text = "50";
  const differences = session.rebase({ capacity: 70, resume: "80%" }, 2);
  assert.deepEqual(differences, [
    { name: "capacity", before: 100, now: 70 },
    { name: "resume", before: null, now: "80%" },
  ]);
  assert.deepEqual([capacity.text, resume.text], ["50", '"80%"']);
  assert.deepEqual(session.changes(), { capacity: 50 });
  assert.equal(session.version, 2);
});

test("a field with an invalid value is not overwritten by a change of another user", () => {
  const { capacity, session } = edit();
  capacity.text = "many";
  session.rebase({ capacity: 70, resume: null }, 2);
  assert.equal(capacity.text, "many");
});

test("the same change by another user leaves nothing to save", () => {
  const { capacity, session } = edit();
  capacity.text = "50";
  session.rebase({ capacity: 50, resume: null }, 2);
  assert.equal(session.dirty, false);
});

test("attributes that a response lacks are unchanged", () => {
  const { capacity, session } = edit();
  assert.deepEqual(session.rebase({}, 3), []);
  assert.equal(capacity.text, "100");
  assert.equal(session.version, 3);
});

test("discarding restores the loaded values and forgets the preview", () => {
  const { capacity, session } = edit();
  capacity.text = "many";
  session.check();
  session.previewed({ capacity: 5 });
  session.discard();
  assert.deepEqual([capacity.text, capacity.error], ["100", ""]);
  assert.equal(session.hasPreview, false);
});

test("only the previewed change counts as previewed", () => {
  const { session } = edit();
  assert.equal(session.isPreviewed({ capacity: 5 }), false);
  session.previewed({ capacity: 5 });
  assert.equal(session.isPreviewed({ capacity: 5 }), true);
  assert.equal(session.isPreviewed({ capacity: 6 }), false);
});

test("errors are shown at their fields, and others are returned", () => {
  const { capacity, resume, session } = edit();
  const rest = session.showErrors({ fields: { capacity: "too large", reason: "missing", actor: "unknown" } });
  assert.deepEqual([capacity.error, resume.error, rest], ["too large", "", "missing unknown"]);
  assert.equal(session.showErrors({}), "");
  assert.equal(capacity.error, "");
});

test("fields of the object's name are checked but are not changes", () => {
  const pattern = fake("pattern");
  const session = new EditSession([], { keys: [pattern] });
  session.rebase({}, 0);
  pattern.text = '"orders.>"';
  assert.deepEqual(session.changes(), {});
  assert.equal(session.showErrors({ fields: { pattern: "invalid" } }), "");
  assert.equal(pattern.error, "invalid");
  pattern.text = "orders";
  assert.equal(session.check(), false);
});

test("saving sends version and changes", async () => {
  const { capacity, session } = edit();
  capacity.text = "50";
  const saved = await session.save(async (version, changes) => ({ version, changes }));
  assert.deepEqual(saved, { version: 1, changes: { capacity: 50 } });
});

test("a version that arrives while saving can be its own, later ones are of others", async () => {
  const { session } = edit();
  await session.save(async () => {
    assert.equal(session.arrives(2), false);
    session.rebase({ capacity: 50, resume: null }, 2);
  });
  assert.equal(session.isConflict({ status: 500 }), false);
  assert.equal(session.arrives(2), false);
  assert.equal(session.arrives(3), true);
  assert.equal(session.arrives(3), false, "each version is reported once");
});

test("a failed save is a conflict if it is refused as one, or another version has arrived", async () => {
  const { session } = edit();
  assert.equal(session.isConflict({ status: 409 }), true);
  assert.equal(session.isConflict({ status: 0 }), false);
  await assert.rejects(
    session.save(async () => {
      session.arrives(2);
      throw new Error("timeout");
    }),
  );
  assert.equal(session.isConflict({ status: 0 }), true);
});
