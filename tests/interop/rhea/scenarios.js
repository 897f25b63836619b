// What an application does with rhea, one scenario a run: `node scenarios.js NAME URL [KEY=VALUE...]`.
//
// It prints one line of JSON: what it saw, or {"error": text} with exit code 1. It judges nothing; test_rhea.py does.
'use strict';

const crypto = require('crypto');
const rhea = require('rhea');

const [name, url, ...pairs] = process.argv.slice(2);
const options = Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));
const count = Number(options.count);
const queue = options.queue || 'orders';
const container = rhea.create_container();

function end(seen, code = 0) {
    process.stdout.write(JSON.stringify(seen) + '\n', () => process.exit(code));
}

function fail(context) {
    const error = context.error || (context.connection && context.connection.error) || 'it ended';
    end({ error: String(error.description || error.message || error) }, 1);
}

for (const event of ['connection_error', 'session_error', 'sender_error', 'receiver_error', 'disconnected', 'error']) {
    container.on(event, fail);
}

function connect(more = {}) {
    const { hostname, port } = new URL(url);
    return container.connect({ host: hostname, port: Number(port), reconnect: false, username: 'anonymous', ...more });
}

// SCRAM-SHA-256 (RFC 5802, RFC 7677), which rhea does not bring along: it takes mechanisms as objects.
function scram(user, password) {
    const hmac = (key, text) => crypto.createHmac('sha256', key).update(text).digest();
    const nonce = crypto.randomBytes(18).toString('base64');
    const bare = `n=${user.replace(/=/g, '=3D').replace(/,/g, '=2C')},r=${nonce}`;
    let signature;
    return {
        start: (callback) => callback(undefined, Buffer.from(`n,,${bare}`)),
        step: (challenge, callback) => {
            const text = challenge.toString();
            const given = Object.fromEntries(text.split(',').map((part) => [part[0], part.slice(2)]));
            if (given.v !== undefined) {
                callback(given.v === signature ? undefined : 'the broker does not know the password', Buffer.alloc(0));
                return;
            }
            if (!given.r.startsWith(nonce)) {
                callback('the broker changed the nonce');
                return;
            }
            const final = `c=${Buffer.from('n,,').toString('base64')},r=${given.r}`;
            const salted = crypto.pbkdf2Sync(password, Buffer.from(given.s, 'base64'), Number(given.i), 32, 'sha256');
            const message = `${bare},${text},${final}`;
            const key = hmac(salted, 'Client Key');
            const mask = hmac(crypto.createHash('sha256').update(key).digest(), message);
            signature = hmac(hmac(salted, 'Server Key'), message).toString('base64');
            callback(undefined, Buffer.from(`${final},p=${key.map((byte, n) => byte ^ mask[n]).toString('base64')}`));
        },
    };
}

const scenarios = {
    // Send `count` messages, each once there is credit for it.
    send() {
        let sent = 0;
        let accepted = 0;
        const sender = connect().open_sender(queue);
        sender.on('sendable', () => {
            while (sender.sendable() && sent < count) {
                sender.send({ body: `m${sent}` });
                sent += 1;
            }
        });
        sender.on('accepted', () => {
            accepted += 1;
            if (accepted === count) {
                end({ sent, accepted });
            }
        });
    },

    // As `send`, without looking at the credit: rhea keeps what it may not send yet.
    'send-ahead'() {
        let accepted = 0;
        const connection = connect();
        const sender = connection.open_sender(queue);
        sender.once('sendable', () => {
            for (let n = 0; n < count; n += 1) {
                sender.send({ body: `m${n}` });
            }
        });
        sender.on('accepted', () => {
            accepted += 1;
            if (accepted === count) {
                end({ accepted });
            }
        });
    },

    // `links` senders on one connection that send nothing and answer drains, until SIGTERM.
    idle() {
        let drains = 0;
        const connection = connect();
        for (let n = 0; n < Number(options.links); n += 1) {
            const sender = connection.open_sender({ target: { address: queue }, name: `idle-${n}` });
            sender.on('sender_draining', () => {
                sender.set_drained(true);
                drains += 1;
            });
        }
        process.on('SIGTERM', () => end({ drains }));
    },

    // Look at `count` messages and leave them, two times.
    browse() {
        const connection = connect();
        const seen = [];
        const look = () => {
            const found = [];
            const source = { address: queue, distribution_mode: 'copy' };
            const receiver = connection.open_receiver({ source, credit_window: 0, autoaccept: true });
            receiver.on('message', (context) => {
                found.push(context.message.body);
                if (found.length === count) {
                    seen.push(found);
                    receiver.close();
                }
            });
            receiver.on('receiver_close', () => (seen.length < 2 ? look() : end({ first: seen[0], second: seen[1] })));
            receiver.add_credit(count);
        };
        look();
    },

    // Ask for more than there is, and take back the credit that is left.
    'drain-receiver'() {
        const found = [];
        const receiver = connect().open_receiver({ source: queue, credit_window: 0 });
        receiver.on('message', (context) => found.push(context.message.body));
        receiver.on('receiver_drained', () => end({ found, credit: receiver.credit }));
        receiver.add_credit(count);
        receiver.drain_credit();
    },

    // Ask through a dynamic source, and answer from another connection.
    'request-reply'() {
        const answering = connect();
        const answers = answering.open_sender({ target: {} });
        answering.open_receiver(queue).on('message', ({ message }) => {
            answers.send({ to: message.reply_to, body: `answer to ${message.body}`, correlation_id: message.message_id });
        });
        const asking = connect();
        const replies = asking.open_receiver({ source: { dynamic: true } });
        replies.once('receiver_open', () => {
            const reply_to = replies.source.address;
            asking.open_sender(queue).once('sendable', (context) => {
                context.sender.send({ message_id: 'q0', reply_to, body: 'q0' });
            });
            replies.on('message', ({ message }) => end({ reply_to, got: message.body, to: message.correlation_id }));
        });
    },

    // Sign in, send one message and receive it.
    scram() {
        const { user, password } = options;
        const connection = connect({ sasl_mechanisms: { 'SCRAM-SHA-256': () => scram(user, password) } });
        connection.open_sender(queue).once('sendable', (context) => context.sender.send({ body: 'm0' }));
        connection.open_receiver(queue).on('message', (context) => end({ received: [context.message.body] }));
    },
};

scenarios[name]();
