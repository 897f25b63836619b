import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Live } from "../../../console/static/console/core/live.js";
import { pauseAfter, SILENCE, shouldCheckSession } from "../../../console/static/console/core/reconnect.js";

// A page without a browser: a fake clock, fake sockets, and the requests to the server.
let now = 0;
let timers = [];
let sockets = [];
let status = 200;

// Node.js 18 has none.
globalThis.CustomEvent ??= class extends Event {
  constructor(type, { detail }) {
    super(type);
    this.detail = detail;
  }
};

class Socket extends EventTarget {
  static OPEN = 1;
  readyState = 0;
  sent = [];

  constructor(url) {
    super();
    this.url = url;
    sockets.push(this);
  }

  send(text) {
    this.sent.push(JSON.parse(text));
  }

  close() {
    this.readyState = 3;
  }

  open() {
    this.readyState = Socket.OPEN;
    this.dispatchEvent(new Event("open"));
  }

  receive(frame) {
    this.dispatchEvent(Object.assign(new Event("message"), { data: JSON.stringify(frame) }));
  }

  lose(code = 1006) {
    this.readyState = 3;
    this.dispatchEvent(Object.assign(new Event("close"), { code }));
  }
}

function pass(ms) {
  const end = now + ms;
  for (;;) {
    const [next] = timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
    if (!next) break;
    timers = timers.filter((timer) => timer !== next);
    now = next.at;
    next.act();
  }
  now = end;
}

beforeEach(() => {
  now = 1_000_000;
  timers = [];
  sockets = [];
  status = 200;
  const page = new EventTarget();
  const document = Object.assign(new EventTarget(), { visibilityState: "visible" });
  Object.assign(globalThis, {
    WebSocket: Socket,
    location: { href: "https://console.example/" },
    document,
    page,
    addEventListener: page.addEventListener.bind(page),
    fetch: async () => ({ status }),
    setTimeout(act, ms) {
      const timer = { at: now + ms, act };
      timers.push(timer);
      return timer;
    },
    clearTimeout(timer) {
      timers = timers.filter((other) => other !== timer);
    },
  });
  Date.now = () => now;
  Math.random = () => 0.5;
});

function watched(path = "/ws/live/?broker=b") {
  const live = new Live(path);
  const heard = [];
  for (const type of ["state", "broker", "snapshot", "events", "beat", "refused"]) {
    live.addEventListener(type, ({ detail }) => heard.push([type, detail]));
  }
  live.watch({ watch: "overview" });
  return { live, heard, of: (type) => heard.filter(([name]) => name === type).map(([, detail]) => detail) };
}

const snapshot = (n, more = {}) => ({ type: "snapshot", n, at: now, as_of: now, connected: true, data: {}, ...more });

test("the connection is opened by the first watch", () => {
  const live = new Live();
  assert.equal(sockets.length, 0);
  live.watch({ watch: "overview" });
  assert.equal(sockets.length, 1);
  assert.equal(sockets[0].url, "wss://console.example/ws/live/");
  sockets[0].open();
  assert.deepEqual(sockets[0].sent, [{ watch: "overview" }]);
});

test("it is live from the first snapshot on", () => {
  const { live, of } = watched();
  sockets[0].open();
  assert.equal(live.state.state, "connecting");
  sockets[0].receive(snapshot(1));
  assert.equal(live.state.state, "live");
  assert.deepEqual(of("broker"), [{ connected: true, since: now, error: "" }]);
});

test("a snapshot older than the newest is dropped", () => {
  const { of } = watched();
  sockets[0].open();
  for (const n of [1, 3, 2, 4]) sockets[0].receive(snapshot(n));
  assert.deepEqual(
    of("snapshot").map(({ n }) => n),
    [1, 3, 4],
  );
});

test("delays grow to eight seconds, spread by half, and a frame resets them", () => {
  assert.deepEqual(
    [1, 2, 3, 4, 5, 6, 60].map((failures) => pauseAfter(failures, 0.5)),
    [250, 500, 1000, 2000, 4000, 8000, 8000],
  );
  assert.deepEqual([pauseAfter(1, 0), pauseAfter(1, 1)], [187.5, 312.5]);
  watched();
  for (const pause of [250, 500, 1000]) {
    const made = sockets.length;
    sockets.at(-1).lose();
    pass(pause - 1);
    assert.equal(sockets.length, made);
    pass(1);
    assert.equal(sockets.length, made + 1);
  }
  sockets.at(-1).open();
  sockets.at(-1).receive(snapshot(1));
  sockets.at(-1).lose();
  pass(250);
  assert.equal(sockets.length, 5);
});

test("a silent connection is lost, and a hung server is disconnected", () => {
  const { live } = watched();
  sockets[0].open();
  sockets[0].receive(snapshot(1));
  pass(SILENCE - 1);
  assert.equal(live.state.state, "live");
  pass(1);
  assert.equal(live.state.state, "lost");
  assert.equal(sockets[0].readyState, 3);
  sockets[0].receive(snapshot(2)); // too late
  assert.equal(live.state.state, "lost");
});

test("after a loss it requests the events after the last one received", () => {
  const { of } = watched();
  sockets[0].open();
  sockets[0].receive({ type: "events", events: [{ number: 7 }, { number: 8 }] });
  sockets[0].lose();
  pass(250);
  sockets[1].open();
  assert.deepEqual(sockets[1].sent, [{ watch: "overview", after: 8 }]);
  sockets[1].receive({ type: "events", events: [{ number: 8 }, { number: 9 }] });
  assert.deepEqual(of("events").at(-1), { events: [{ number: 9 }], reset: false });
});

test("expired events start a new list", () => {
  const { of } = watched();
  sockets[0].open();
  sockets[0].receive({ type: "events-expired", first: 100 });
  sockets[0].receive({ type: "events", events: [{ number: 100 }] });
  assert.deepEqual(of("events"), [{ events: [{ number: 100 }], reset: true }]);
});

test("a server without data of the broker does not replace the page's data", () => {
  const { of } = watched();
  sockets[0].open();
  sockets[0].receive(snapshot(1));
  sockets[0].receive(snapshot(2, { as_of: null, connected: false }));
  assert.equal(of("snapshot").length, 1);
  assert.equal(of("broker").at(-1).connected, false);
  assert.equal(of("beat").at(-1).asOf, undefined);
});

test("an ended session is not reconnected", async () => {
  const { live } = watched();
  sockets[0].lose(4401);
  assert.equal(live.state.state, "signed-out");
  pass(60_000);
  live.retry();
  assert.equal(sockets.length, 1);
});

test("a page of a removed broker stays so while the console does not have the broker", () => {
  const { live, of } = watched("/ws/live/?broker=rabbit");
  sockets[0].open();
  sockets[0].receive(snapshot(1));
  sockets[0].lose(4404);
  assert.equal(live.state.state, "removed");
  assert.equal(of("state").at(-1).retryAt, null);
  for (const code of [4404, 1006, 4404]) {
    pass(10_000);
    sockets.at(-1).lose(code);
    assert.equal(live.state.state, "removed");
  }
  assert.equal(sockets.length, 4);
});

test("a page of a broker that is added again under its name asks to be loaded again, and takes no data", () => {
  const { live, of } = watched("/ws/live/?broker=rabbit");
  sockets[0].open();
  sockets[0].receive(snapshot(1));
  sockets[0].lose(4404);
  pass(10_000);
  sockets[1].open();
  sockets[1].receive(snapshot(1, { data: "of another broker" }));
  assert.equal(live.state.state, "returned");
  assert.equal(of("snapshot").length, 1);
  pass(60_000);
  live.retry();
  document.dispatchEvent(new Event("visibilitychange"));
  globalThis.page.dispatchEvent(new Event("online"));
  assert.equal(sockets.length, 2);
});

test("a broker that a process of the console does not know yet is waited for, some seconds long", () => {
  const { live } = watched("/ws/live/?broker=rabbit");
  for (let failures = 1; failures < 5; failures += 1) {
    sockets.at(-1).lose(4404);
    assert.equal(live.state.state, "lost");
    pass(8000 * 1.25);
  }
  sockets.at(-1).lose(4404);
  assert.equal(live.state.state, "removed");
  assert.equal(sockets.length, 5);
});

test("a page of all brokers waits for one that its user may view", () => {
  const { live } = watched("/ws/fleet/");
  for (let failures = 1; failures < 20; failures += 1) {
    sockets.at(-1).lose(4404);
    pass(8000 * 1.25);
  }
  assert.equal(live.state.state, "lost");
  assert.equal(sockets.length, 20);
});

test("a refused handshake is explained by an HTTP request", async () => {
  assert.deepEqual(
    [1, 2, 3, 7, 8, 16].filter((failures) => shouldCheckSession(failures)),
    [2, 8, 16],
  );
  status = 403;
  const { live } = watched();
  sockets[0].lose();
  pass(250);
  sockets[1].lose();
  await new Promise((resume) => setImmediate(resume));
  assert.equal(live.state.state, "signed-out");
  pass(60_000);
  assert.equal(sockets.length, 2);
});

test("a page that is shown again checks its connection at once", () => {
  const { live } = watched();
  sockets[0].open();
  sockets[0].receive(snapshot(1));
  now += SILENCE + 1; // the laptop was closed: no timer ran
  document.dispatchEvent(new Event("visibilitychange"));
  assert.equal(live.state.state, "lost");
  pass(250);
  assert.equal(sockets.length, 2);
});
