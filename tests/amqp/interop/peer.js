// A client in JavaScript (rhea). It is told what to do as JSON in its one argument, and says what happens as lines of
// JSON: {port, user?, password?, mechanism?, send?: {address, count}, take?: {address, count}, ask?: {name}}.
'use strict';
const crypto = require('crypto');
const rhea = require('rhea');

const wanted = JSON.parse(process.argv[2]);
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

// SCRAM-SHA-256 (RFC 7677), which rhea leaves to its user.
function scram(user, password) {
    const nonce = crypto.randomBytes(18).toString('base64');
    const bare = `n=${user},r=${nonce}`;
    const hmac = (key, text) => crypto.createHmac('sha256', key).update(text).digest();
    return {
        start: (callback) => callback(undefined, Buffer.from('n,,' + bare)),
        step: (challenge, callback) => {
            const first = challenge.toString();
            const field = (name) => first.split(',').find((f) => f.startsWith(name + '=')).slice(2);
            if (!field('r').startsWith(nonce)) return callback('the nonce is not ours');
            const salted = crypto.pbkdf2Sync(password, Buffer.from(field('s'), 'base64'), Number(field('i')), 32, 'sha256');
            const clientKey = hmac(salted, 'Client Key');
            const storedKey = crypto.createHash('sha256').update(clientKey).digest();
            const last = `c=biws,r=${field('r')}`;
            const signature = hmac(storedKey, `${bare},${first},${last}`);
            const proof = Buffer.from(clientKey.map((byte, at) => byte ^ signature[at]));
            callback(undefined, Buffer.from(`${last},p=${proof.toString('base64')}`));
        },
    };
}

const options = { host: '127.0.0.1', port: wanted.port, reconnect: false, container_id: 'rhea' };
if (wanted.mechanism === 'SCRAM-SHA-256') {
    options.sasl_mechanisms = { 'SCRAM-SHA-256': () => scram(wanted.user, wanted.password) };
} else if (wanted.mechanism === 'PLAIN') {
    Object.assign(options, { username: wanted.user, password: wanted.password });
} else if (wanted.mechanism === 'ANONYMOUS') {
    options.username = 'anonymous';
}

const container = rhea.create_container();
let sent = 0, accepted = 0, taken = 0;

container.on('connection_open', (context) => {
    say({ open: true });
    const connection = context.connection;
    if (wanted.send) connection.open_sender(wanted.send.address);
    if (wanted.take) connection.open_receiver({ source: wanted.take.address, credit_window: 10 });
    if (wanted.ask) ask(connection, wanted.ask.name);
});
container.on('sendable', (context) => {
    while (wanted.send && context.sender.sendable() && sent < wanted.send.count) {
        sent += 1;
        context.sender.send({ body: sent, durable: true, ttl: 60000 });
    }
});
container.on('accepted', () => say({ accepted: ++accepted }));
container.on('message', (context) => {
    if (context.receiver.source.dynamic || context.message.correlation_id !== undefined) {
        say({ answer: context.message.body, status: context.message.application_properties.statusCode });
    } else {
        say({ taken: context.message.body });
        if (++taken === wanted.take.count) context.connection.close();
    }
});
function ask(connection, name) {
    const answers = connection.open_receiver({ source: { dynamic: true } });
    answers.on('receiver_open', () => connection.open_sender('$management').send({
        reply_to: answers.source.address,
        correlation_id: 'one',
        application_properties: { operation: 'READ', name },
    }));
}
for (const end of ['connection_error', 'session_error', 'sender_error', 'receiver_error', 'disconnected']) {
    container.on(end, (context) => {
        const link = context.sender || context.receiver;
        const error = context.error || (link && link.error) || context.connection.error;
        say({ [end]: error ? error.condition || String(error) : '' });
    });
}
process.stdin.on('end', () => process.exit(0)).resume();
container.connect(options);
