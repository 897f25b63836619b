// Programs that send to a queue, or receive from it, in the languages whose AMQP 1.0 clients are in common use. Each
// is whole: saved in its file in an empty folder it runs with its commands; a sender and its receiver share the folder.
// A sender prints a message when the broker has accepted it: what it prints ends where it is blocked.

/**
 * `count`: messages that the sender sends, and the receiver consumes.
 *
 * @typedef {{host: string, port: string, tls: boolean, user: string, password: string, queue: string,
 *   virtualhost: string, count: number}} Target
 */

/**
 * `commands`: of a shell; those of the sender install the client, too. `packages`: installs what it needs on Debian.
 * `encrypts`: the client sends no password, also without TLS.
 *
 * @typedef {{file: string, text: (to: Target) => string, commands: string[]}} Program
 * @typedef {{name: string, needs: string, packages?: string, encrypts?: boolean, send: Program,
 *   receive: Program}} Language
 */

/** Messages that a sender sends at most, and those that it sends to a queue with room for half of that or more. */
const MOST = 2000;
const USUAL = 200;

/**
 * Return how many messages a program sends to a queue: twice as many as it takes, so that the program is blocked in the
 * middle. `fits`: the queue takes them all.
 *
 * @param {number} limit messages above which the queue is overfull; 0: none
 */
export function countFor(limit) {
  const fits = limit === 0 || 2 * limit > MOST;
  return { count: fits ? USUAL : Math.max(2 * limit, 10), fits };
}

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

/** What Maven fetches for the Java programs. slf4j-nop: without it each start prints a warning about logging. */
const POM = `cat > pom.xml <<'END'
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>first</groupId>
  <artifactId>steps</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.qpid</groupId>
      <artifactId>qpid-jms-client</artifactId>
      <version>2.10.0</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-nop</artifactId>
      <version>2.0.17</version>
    </dependency>
  </dependencies>
</project>
END
`;

/**
 * @param {Target} to
 * @param {string} name
 * @param {string} body
 */
const java = (to, name, body) => `import jakarta.jms.*;
import org.apache.qpid.jms.JmsConnectionFactory;

public class ${name} {
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

/**
 * Return the commands of a .NET program. Its project is created first, in a folder of its own: with the program in it,
 * `dotnet new` would refuse.
 *
 * @param {string} name
 */
const dotnetCommands = (name) => [
  `dotnet new console --output ${name}`,
  `mv ${name}.cs ${name}/Program.cs`,
  `dotnet add ${name} package AMQPNetLite`,
  `dotnet run --project ${name}`,
];

/** @type {Language[]} */
export const LANGUAGES = [
  {
    name: "Python",
    needs:
      "Python 3 with its headers, gcc, pkg-config and OpenSSL's headers: pip compiles the client, which takes half a " +
      "minute",
    packages: "apt-get install python3-venv python3-dev gcc pkg-config libssl-dev",
    send: {
      file: "send.py",
      commands: ["python3 -m venv v", "v/bin/pip install python-qpid-proton", "v/bin/python send.py"],
      text: (to) => `${python(to)}
sender = connection.create_sender(${q(to.queue)})
for number in range(1, ${to.count + 1}):
    sender.send(Message(body=f"message {number}", durable=True))  # waits while the queue is overfull
    print("sent", number, flush=True)
connection.close()`,
    },
    receive: {
      file: "receive.py",
      commands: ["v/bin/python receive.py"],
      text: (to) => `${python(to)}
receiver = connection.create_receiver(${q(to.queue)}, credit=10)
for _ in range(${to.count}):
    print("received", receiver.receive().body, flush=True)
    receiver.accept()
connection.close()`,
    },
  },
  {
    name: "Java (JMS)",
    needs: "a JDK (17 or later) and Maven",
    encrypts: true,
    send: {
      file: "Send.java",
      commands: [`${POM}mvn --quiet dependency:copy-dependencies -DoutputDirectory=lib`, "java -cp 'lib/*' Send.java"],
      text: (to) =>
        java(
          to,
          "Send",
          `            var producer = session.createProducer(queue);
            for (int number = 1; number <= ${to.count}; number++) {
                producer.send(session.createTextMessage("message " + number)); // waits while the queue is overfull
                System.out.println("sent " + number);
            }`,
        ),
    },
    receive: {
      file: "Receive.java",
      commands: ["java -cp 'lib/*' Receive.java"],
      text: (to) =>
        java(
          to,
          "Receive",
          `            var consumer = session.createConsumer(queue);
            for (int number = 1; number <= ${to.count}; number++) {
                System.out.println("received " + consumer.receive().getBody(String.class));
            }`,
        ),
    },
  },
  {
    name: "JavaScript",
    needs: "Node.js (18 or later) and npm",
    send: {
      file: "send.js",
      commands: ["npm init -y", "npm install rhea", "node send.js"],
      text: (to) => `${javascript(to)}
const sender = connection.open_sender(${q(to.queue)});
let sent = 0;
let accepted = 0;
sender.on("sendable", () => {
    // While the queue is overfull there is no credit, and this is not called.
    while (sender.sendable() && sent < ${to.count}) {
        sent += 1;
        sender.send({ durable: true, body: \`message \${sent}\` }); // without credit it waits in this program
    }
});
sender.on("accepted", () => {
    accepted += 1;
    console.log("sent", accepted); // the broker has it
    if (accepted === ${to.count}) connection.close();
});`,
    },
    receive: {
      file: "receive.js",
      commands: ["node receive.js"],
      text: (to) => `${javascript(to)}
let received = 0;
connection.open_receiver(${q(to.queue)});
connection.on("message", (context) => {
    received += 1;
    console.log("received", context.message.body);
    context.delivery.accept();
    if (received === ${to.count}) context.connection.close();
});`,
    },
  },
  {
    name: "Go",
    needs: "Go (1.25 or later)",
    send: {
      file: "send/main.go",
      commands: ["go mod init first-steps", "go get github.com/Azure/go-amqp", "go run ./send"],
      text: (to) =>
        go(
          to,
          `	sender, err := session.NewSender(ctx, ${q(to.queue)}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for number := 1; number <= ${to.count}; number++ {
		message := amqp.NewMessage([]byte(fmt.Sprintf("message %d", number)))
		message.Header = &amqp.MessageHeader{Durable: true}
		if err := sender.Send(ctx, message, nil); err != nil { // waits while the queue is overfull
			log.Fatal(err)
		}
		fmt.Println("sent", number)
	}`,
        ),
    },
    receive: {
      file: "receive/main.go",
      commands: ["go run ./receive"],
      text: (to) =>
        go(
          to,
          `	receiver, err := session.NewReceiver(ctx, ${q(to.queue)}, &amqp.ReceiverOptions{Credit: 10})
	if err != nil {
		log.Fatal(err)
	}
	for number := 1; number <= ${to.count}; number++ {
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
  },
  {
    name: ".NET",
    needs: "the .NET SDK (8 or later)",
    send: {
      file: "send.cs",
      commands: dotnetCommands("send"),
      text: (to) => `${dotnet(to)}
var sender = new SenderLink(session, "sender", ${q(to.queue)});
for (var number = 1; number <= ${to.count}; number++)
{
    var message = new Message($"message {number}") { Header = new Amqp.Framing.Header { Durable = true } };
    await sender.SendAsync(message, TimeSpan.FromMinutes(10)); // waits while the queue is overfull
    Console.WriteLine($"sent {number}");
}
await connection.CloseAsync();`,
    },
    receive: {
      file: "receive.cs",
      commands: dotnetCommands("receive"),
      text: (to) => `${dotnet(to)}
var receiver = new ReceiverLink(session, "receiver", ${q(to.queue)});
for (var number = 1; number <= ${to.count}; number++)
{
    var message = await receiver.ReceiveAsync(TimeSpan.FromMinutes(10));
    Console.WriteLine($"received {message.Body}");
    receiver.Accept(message);
}
await connection.CloseAsync();`,
    },
  },
];
