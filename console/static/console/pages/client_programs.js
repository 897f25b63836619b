// Programs that send to a queue, or receive from it, in the languages whose AMQP 1.0 clients are in common use. Each is
// whole: copied into a file it runs. Senders send more messages than the queue of the first steps has room for.

/**
 * @typedef {{host: string, port: string, tls: boolean, user: string, password: string, queue: string,
 *   virtualhost: string}} Target
 * @typedef {{name: string, file: string, needs: string, installation?: string, send: (to: Target) => string,
 *   receive: (to: Target) => string}} Language
 */

/** How many messages a sender sends, and a receiver consumes. */
export const COUNT = 200;

const q = JSON.stringify;
/** @param {Target} to */
const url = (to) => `${to.tls ? "amqps" : "amqp"}://${to.host}:${to.port}`;
/**
 * A part of a program that names the virtual host, if it is not the default one.
 *
 * @param {Target} to
 * @param {(name: string) => string} part
 */
const elsewhere = (to, part) => (to.virtualhost === "default" ? "" : part(to.virtualhost));
/** @param {Target} to */
const bareHost = (to) => q(to.host.replace(/^\[|\]$/g, ""));

/** @param {Target} to */
const python = (to) => `from proton import Message
from proton.utils import BlockingConnection

connection = BlockingConnection(
    ${q(url(to))},
    timeout=600,
    user=${q(to.user)},
    password=${q(to.password)},${elsewhere(to, (host) => `\n    virtual_host=${q(host)},`)}
)`;

/**
 * @param {Target} to
 * @param {string} body
 */
const java = (to, body) => `import jakarta.jms.*;
import org.apache.qpid.jms.JmsConnectionFactory;

public class First {
    public static void main(String[] arguments) throws JMSException {
        var factory = new JmsConnectionFactory(
            ${q(to.user)},
            ${q(to.password)},
            ${q(url(to) + elsewhere(to, (host) => `?amqp.vhost=${encodeURIComponent(host)}`))});
        try (var connection = factory.createConnection()) {
            connection.start();
            var session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
            var queue = session.createQueue(${q(to.queue)});
${body}
        }
    }
}`;

/** @param {Target} to */
const javascript = (to) => `const rhea = require("rhea");

const connection = rhea.connect({
    host: ${bareHost(to)},
    port: ${to.port},
    username: ${q(to.user)},
    password: ${q(to.password)},
    transport: ${q(to.tls ? "tls" : "tcp")},${elsewhere(to, (host) => `\n    hostname: ${q(host)},`)}
});`;

/** @param {string} host */
const goHost = (host) => `\n\t\tHostName: ${q(host)},`;

/**
 * @param {Target} to
 * @param {string} body
 */
const go = (to, body) => `package main

import (
	"context"
	"fmt"
	"log"

	"github.com/Azure/go-amqp"
)

func main() {
	ctx := context.Background()
	connection, err := amqp.Dial(ctx, ${q(url(to))}, &amqp.ConnOptions{
		SASLType: amqp.SASLTypePlain(${q(to.user)}, ${q(to.password)}),${elsewhere(to, goHost)}
	})
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	session, err := connection.NewSession(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
${body}
}`;

/** @param {Target} to */
const dotnet = (to) => `using Amqp;

var factory = new ConnectionFactory();${elsewhere(to, (host) => `\nfactory.AMQP.HostName = ${q(host)};`)}
var connection = await factory.CreateAsync(
    new Address(${bareHost(to)}, ${to.port}, ${q(to.user)}, ${q(to.password)}, "/", ${q(to.tls ? "amqps" : "amqp")}));
var session = new Session(connection);`;

/** @type {Language[]} */
export const LANGUAGES = [
  {
    name: "Python",
    file: "first.py",
    needs: "pip install python-qpid-proton",
    installation: "It is compiled then, with gcc, pkg-config and OpenSSL's headers.",
    send: (to) => `${python(to)}
sender = connection.create_sender(${q(to.queue)})
for number in range(1, ${COUNT + 1}):
    sender.send(Message(body=f"message {number}", durable=True))  # waits while the queue is overfull
    print("sent", number, flush=True)
connection.close()`,
    receive: (to) => `${python(to)}
receiver = connection.create_receiver(${q(to.queue)}, credit=10)
for _ in range(${COUNT}):
    print("received", receiver.receive().body, flush=True)
    receiver.accept()
connection.close()`,
  },
  {
    name: "Java (JMS)",
    file: "First.java",
    needs: "org.apache.qpid:qpid-jms-client:2.10.0 (Maven)",
    send: (to) =>
      java(
        to,
        `            var producer = session.createProducer(queue);
            for (int number = 1; number <= ${COUNT}; number++) {
                producer.send(session.createTextMessage("message " + number)); // waits while the queue is overfull
                System.out.println("sent " + number);
            }`,
      ),
    receive: (to) =>
      java(
        to,
        `            var consumer = session.createConsumer(queue);
            for (int number = 1; number <= ${COUNT}; number++) {
                System.out.println("received " + consumer.receive().getBody(String.class));
            }`,
      ),
  },
  {
    name: "JavaScript",
    file: "first.js",
    needs: "npm install rhea",
    send: (to) => `${javascript(to)}
const sender = connection.open_sender(${q(to.queue)});
let sent = 0;
let accepted = 0;
sender.on("sendable", () => {
    // While the queue is overfull there is no credit, and this is not called.
    while (sender.sendable() && sent < ${COUNT}) {
        sent += 1;
        sender.send({ durable: true, body: \`message \${sent}\` });
        console.log("sent", sent);
    }
});
sender.on("accepted", () => {
    accepted += 1;
    if (accepted === ${COUNT}) connection.close();
});`,
    receive: (to) => `${javascript(to)}
let received = 0;
connection.open_receiver(${q(to.queue)});
connection.on("message", (context) => {
    received += 1;
    console.log("received", context.message.body);
    context.delivery.accept();
    if (received === ${COUNT}) context.connection.close();
});`,
  },
  {
    name: "Go",
    file: "main.go",
    needs: "go get github.com/Azure/go-amqp",
    send: (to) =>
      go(
        to,
        `	sender, err := session.NewSender(ctx, ${q(to.queue)}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for number := 1; number <= ${COUNT}; number++ {
		message := amqp.NewMessage([]byte(fmt.Sprintf("message %d", number)))
		message.Header = &amqp.MessageHeader{Durable: true}
		if err := sender.Send(ctx, message, nil); err != nil { // waits while the queue is overfull
			log.Fatal(err)
		}
		fmt.Println("sent", number)
	}`,
      ),
    receive: (to) =>
      go(
        to,
        `	receiver, err := session.NewReceiver(ctx, ${q(to.queue)}, &amqp.ReceiverOptions{Credit: 10})
	if err != nil {
		log.Fatal(err)
	}
	for number := 1; number <= ${COUNT}; number++ {
		message, err := receiver.Receive(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("received a message", number)
		if err := receiver.AcceptMessage(ctx, message); err != nil {
			log.Fatal(err)
		}
	}`,
      ),
  },
  {
    name: ".NET",
    file: "Program.cs",
    needs: "dotnet add package AMQPNetLite",
    send: (to) => `${dotnet(to)}
var sender = new SenderLink(session, "sender", ${q(to.queue)});
for (var number = 1; number <= ${COUNT}; number++)
{
    var message = new Message($"message {number}") { Header = new Amqp.Framing.Header { Durable = true } };
    await sender.SendAsync(message); // waits while the queue is overfull, for a minute
    Console.WriteLine($"sent {number}");
}
await connection.CloseAsync();`,
    receive: (to) => `${dotnet(to)}
var receiver = new ReceiverLink(session, "receiver", ${q(to.queue)});
for (var number = 1; number <= ${COUNT}; number++)
{
    var message = await receiver.ReceiveAsync(TimeSpan.FromMinutes(10));
    Console.WriteLine($"received {message.Body}");
    receiver.Accept(message);
}
await connection.CloseAsync();`,
  },
];
