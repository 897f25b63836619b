// jolokia.js against the console: node scenarios.js URL USER PASSWORD prints the results as one line of JSON.
import Jolokia from "@jolokia.js/simple";

globalThis.window = globalThis; // where it looks for btoa, to sign in
const [url, username, password] = process.argv.slice(2);
const jolokia = new Jolokia({ url, username, password, method: "post", canonicalNaming: false });
const queue = 'headgate:type=Queue,broker=local,virtualhost="default",name="mail/out"';

const seen = {};
const version = await jolokia.version();
seen.product = version.info.product;
seen.producers = await jolokia.getAttribute(queue, "producers");
seen.several = await jolokia.getAttribute(queue, ["producers", "state"]);
seen.written = await jolokia.setAttribute(queue, "capacity_messages", 5);
seen.writtenAgain = await jolokia.setAttribute(queue, "capacity_messages", 7);
await jolokia.execute(queue, "stop-producers", "incident 7");
seen.path = await jolokia.getAttribute(queue, "state", { method: "get" });
seen.reason = await jolokia.getAttribute("headgate:type=Broker,broker=local", "stops", "0/reason");
seen.found = await jolokia.search("headgate:type=Queue,*");
seen.classes = Object.keys(await jolokia.list("headgate/" + queue.slice(9).replace("mail/out", "mail!/out"))).sort();
const tree = await jolokia.list({ listCache: true });
seen.tree = tree.cache[tree.domains.headgate[queue.slice(9)]].class;

const bulk = await jolokia.request([
  { type: "read", mbean: "headgate:type=Queue,*", attribute: ["depth_messages"] },
  { type: "read", mbean: queue.replace("mail/out", "none"), attribute: "producers" },
]);
seen.bulk = bulk.map((answer) => answer.status);
seen.pattern = bulk[0].value;
try {
  await jolokia.execute(queue, "start-producers");
} catch (refused) {
  seen.refused = String(refused.message ?? refused.error ?? refused);
}
console.log(JSON.stringify(seen));
