import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.zip.CRC32;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.springframework.jms.core.JmsTemplate;

/**
 * What an application does with Apache Qpid JMS, one scenario a run: `Scenarios NAME URL [KEY=VALUE...]`.
 *
 * It prints one line of JSON: what it saw, or {"error": class, "message": text} with exit code 1. It judges nothing;
 * test_jms.py does.
 */
public final class Scenarios {
    private static final long WITHIN = 10_000; // ms for what should come
    private static final long NOTHING = 300; // ms in which nothing more should come

    private final String url;
    private final Map<String, String> options = new LinkedHashMap<>();
    private final Map<String, Object> seen = new LinkedHashMap<>();
    private final List<Connection> connections = new ArrayList<>();

    private interface Scenario {
        void run() throws Exception;
    }

    private Scenarios(String[] args) {
        url = args[1];
        for (int n = 2; n < args.length; n++) {
            String[] pair = args[n].split("=", 2);
            options.put(pair[0], pair[1]);
        }
    }

    public static void main(String[] args) {
        Scenarios all = new Scenarios(args);
        int code = 0;
        try {
            all.named(args[0]).run();
            for (Connection connection : all.connections) {
                connection.close();
            }
        } catch (Throwable error) {
            all.seen.put("error", error.getClass().getSimpleName());
            all.seen.put("message", String.valueOf(error.getMessage()));
            code = 1;
        }
        System.out.println(json(all.seen));
        System.out.flush();
        Runtime.getRuntime().halt(code); // a connection that was lost may have threads that go on
    }

    private Scenario named(String name) {
        Map<String, Scenario> known = new LinkedHashMap<>();
        known.put("send", this::send);
        known.put("send-timeout", this::sendTimeout);
        known.put("one-blocked", this::oneBlocked);
        known.put("anonymous-producer", this::anonymousProducer);
        known.put("recover", this::recover);
        known.put("lost-connection", this::lostConnection);
        known.put("browse", this::browse);
        known.put("presettled", this::presettled);
        known.put("large", this::large);
        known.put("echo", this::echo);
        known.put("crowd", this::crowd);
        known.put("transacted", this::transacted);
        known.put("transacted-send-timeout", this::transactedSendTimeout);
        known.put("topic", this::topic);
        known.put("durable-subscription", this::durableSubscription);
        known.put("subscriptions", this::subscriptions);
        known.put("duplicate-client-id", this::duplicateClientId);
        known.put("request-reply", this::requestReply);
        known.put("anonymous-send-timeout", this::anonymousSendTimeout);
        known.put("groups", this::groups);
        known.put("spring-request-reply", this::springRequestReply);
        known.put("selector", this::selector);
        known.put("priority", this::priority);
        known.put("expiry", this::expiry);
        known.put("delay", this::delay);
        known.put("poison", this::poison);
        return known.get(name);
    }

    // -- flow control -------------------------------------------------------------------------------------------

    /** Send `count` messages, one after the other. */
    private void send() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(queue(session));
        long longest = 0;
        for (int n = 0; n < number("count"); n++) {
            long began = System.nanoTime();
            producer.send(session.createTextMessage("m" + n));
            longest = Math.max(longest, System.nanoTime() - began);
        }
        seen.put("sent", number("count"));
        seen.put("longest_ms", TimeUnit.NANOSECONDS.toMillis(longest));
    }

    /** Send until it throws; then take everything and send once more, all in one session. */
    private void sendTimeout() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.sendTimeout=2000");
        MessageProducer producer = session.createProducer(queue(session));
        List<String> sent = new ArrayList<>();
        try {
            for (int n = 0; n < 100; n++) {
                producer.send(session.createTextMessage("m" + n));
                sent.add("m" + n);
            }
        } catch (JMSException error) {
            seen.put("thrown", error.getClass().getSimpleName());
            seen.put("said", error.getMessage());
        }
        seen.put("sent", sent);
        MessageConsumer consumer = session.createConsumer(queue(session));
        seen.put("received", bodies(consumer, sent.size()));
        producer.send(session.createTextMessage("after"));
        seen.put("then", bodies(consumer, 1));
        seen.put("nothing_more", consumer.receive(NOTHING) == null);
    }

    /** Several producers on one connection, and a consumer; one producer's queue is full. */
    private void oneBlocked() throws Exception {
        Connection connection = connect();
        Session blockedSession = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer blocked = blockedSession.createProducer(queue(blockedSession));
        ExecutorService pool = Executors.newCachedThreadPool();
        Future<?> late = pool.submit(() -> {
            blocked.send(blockedSession.createTextMessage("late"));
            return null;
        });
        List<Future<Integer>> others = new ArrayList<>();
        for (int other = 0; other < 2; other++) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createQueue("free-" + other));
            others.add(pool.submit(() -> {
                for (int n = 0; n < 50; n++) {
                    producer.send(session.createTextMessage("m" + n));
                }
                return 50;
            }));
        }
        int sent = 0;
        for (Future<Integer> other : others) {
            sent += other.get(WITHIN, TimeUnit.MILLISECONDS);
        }
        seen.put("others_sent", sent);
        Session consuming = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        seen.put("consumed", bodies(consuming.createConsumer(consuming.createQueue("free-0")), 50).size());
        seen.put("still_blocked", !late.isDone());
        seen.put("freed", bodies(consuming.createConsumer(queue(consuming)), number("full")).size());
        late.get(WITHIN, TimeUnit.MILLISECONDS);
        seen.put("released", true);
    }

    /** A producer without a destination sends to a queue with free capacity while an overfull queue blocks another. */
    private void anonymousProducer() throws Exception {
        Connection connection = connect();
        Session blockedSession = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer blocked = blockedSession.createProducer(null);
        Future<?> late = Executors.newCachedThreadPool().submit(() -> {
            blocked.send(queue(blockedSession), blockedSession.createTextMessage("late"));
            return null;
        });
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(null);
        for (int n = 0; n < 10; n++) {
            producer.send(session.createQueue("free-0"), session.createTextMessage("m" + n));
        }
        seen.put("others_sent", 10);
        seen.put("still_blocked", !late.isDone());
        seen.put("freed", bodies(session.createConsumer(queue(session)), number("full")).size());
        late.get(WITHIN, TimeUnit.MILLISECONDS);
        seen.put("released", true);
    }

    /** A producer without a destination gives up a send to a full queue; the queue is emptied much later. */
    private void anonymousSendTimeout() throws Exception {
        boolean transacted = "true".equals(options.get("transacted"));
        Connection connection = connect("jms.sendTimeout=1000");
        int mode = transacted ? Session.SESSION_TRANSACTED : Session.AUTO_ACKNOWLEDGE;
        Session session = connection.createSession(transacted, mode);
        MessageProducer producer = session.createProducer(null);
        List<String> thrown = new ArrayList<>();
        for (int n = 0; n < 2; n++) {
            try {
                producer.send(queue(session), session.createTextMessage("given up " + n));
            } catch (JMSException error) {
                thrown.add(error.getClass().getSimpleName());
            }
        }
        seen.put("thrown", thrown);
        Session other = session(Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = other.createConsumer(queue(other));
        seen.put("received", bodies(consumer, number("full")));
        seen.put("nothing_more", consumer.receive(1500) == null);
        producer.send(queue(session), session.createTextMessage("after"));
        if (transacted) {
            session.commit();
        }
        seen.put("then", bodies(consumer, 1));
    }

    /** `producers` connections, each sends `count` messages, once all have attached. */
    private void crowd() throws Exception {
        List<Callable<Integer>> all = new ArrayList<>();
        for (int p = 0; p < number("producers"); p++) {
            Session session = session(Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(queue(session));
            String name = "p" + p;
            all.add(() -> {
                for (int n = 0; n < number("count"); n++) {
                    producer.send(session.createTextMessage(name + ":" + n));
                }
                return number("count");
            });
        }
        int sent = 0;
        for (Future<Integer> one : Executors.newCachedThreadPool().invokeAll(all)) {
            sent += one.get();
        }
        seen.put("sent", sent);
    }

    // -- acknowledgements ---------------------------------------------------------------------------------------

    /** Recover a session: CLIENT_ACKNOWLEDGE with receive, AUTO_ACKNOWLEDGE in a listener. */
    private void recover() throws Exception {
        Session session = session(Session.CLIENT_ACKNOWLEDGE);
        fill(session, 3);
        MessageConsumer consumer = session.createConsumer(queue(session));
        seen.put("first", deliveries(consumer, 3));
        session.recover();
        List<Object> again = new ArrayList<>();
        Message last = null;
        for (int n = 0; n < 3; n++) {
            last = needed(consumer);
            again.add(delivery(last));
        }
        seen.put("again", again);
        last.acknowledge();
        seen.put("nothing_more", consumer.receive(NOTHING) == null);
        consumer.close();

        Session listening = session(Session.AUTO_ACKNOWLEDGE);
        fill(listening, 1);
        List<Object> heard = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch twice = new CountDownLatch(2);
        listening.createConsumer(queue(listening)).setMessageListener(message -> {
            try {
                heard.add(delivery(message));
                if (twice.getCount() == 2) {
                    listening.recover();
                }
            } catch (JMSException error) {
                heard.add(error.toString());
            }
            twice.countDown();
        });
        twice.await(WITHIN, TimeUnit.MILLISECONDS);
        seen.put("auto", heard);
    }

    /** The connection is lost with three messages received; `mode` says how far they were acknowledged. */
    /** Creates the file `taken` when it has its messages: only then may its connection be lost. */
    private void lostConnection() throws Exception {
        boolean auto = "auto".equals(options.get("mode"));
        Connection connection = connect();
        CountDownLatch lost = new CountDownLatch(1);
        connection.setExceptionListener(error -> lost.countDown());
        Session session = connection.createSession(false, auto ? Session.AUTO_ACKNOWLEDGE : Session.CLIENT_ACKNOWLEDGE);
        seen.put("first", deliveries(session.createConsumer(queue(session)), number("take")));
        Files.createFile(Path.of(options.get("taken")));
        seen.put("noticed", lost.await(WITHIN, TimeUnit.MILLISECONDS));
        connections.clear();
        Session next = session(Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = next.createConsumer(queue(next));
        seen.put("again", deliveries(consumer, number("left")));
        seen.put("nothing_more", consumer.receive(NOTHING) == null);
    }

    // -- kinds of clients and messages --------------------------------------------------------------------------

    private void browse() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        fill(session, 3);
        for (String time : List.of("first", "second")) {
            List<Object> found = new ArrayList<>();
            for (Enumeration<?> all = session.createBrowser(queue(session)).getEnumeration(); all.hasMoreElements(); ) {
                found.add(((TextMessage) all.nextElement()).getText());
            }
            seen.put(time, found);
        }
        seen.put("consumed", bodies(session.createConsumer(queue(session)), 3));
    }

    /** Producer and consumer settle in advance; the queue takes fewer messages than are sent. */
    private void presettled() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.presettlePolicy.presettleAll=true");
        MessageProducer producer = session.createProducer(queue(session));
        Future<?> sending = Executors.newCachedThreadPool().submit(() -> {
            for (int n = 0; n < number("count"); n++) {
                producer.send(session.createTextMessage("m" + n));
            }
            return null;
        });
        try {
            sending.get(NOTHING, TimeUnit.MILLISECONDS);
            seen.put("blocked", false);
        } catch (TimeoutException blocked) {
            seen.put("blocked", true);
        }
        Session consuming = session(Session.AUTO_ACKNOWLEDGE, "jms.presettlePolicy.presettleAll=true");
        seen.put("received", bodies(consuming.createConsumer(queue(consuming)), number("count")));
        sending.get(WITHIN, TimeUnit.MILLISECONDS);
    }

    private void large() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        byte[] body = new byte[number("bytes")];
        new java.util.Random(1).nextBytes(body);
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(body);
        session.createProducer(queue(session)).send(message);
        BytesMessage back = (BytesMessage) needed(session.createConsumer(queue(session)));
        byte[] got = new byte[(int) back.getBodyLength()];
        back.readBytes(got);
        seen.put("bytes", got.length);
        seen.put("same", crc(body) == crc(got));
    }

    /** Sign in as the URL says, send one message and receive it. */
    private void echo() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        fill(session, 1);
        seen.put("received", bodies(session.createConsumer(queue(session)), 1));
    }

    // -- transactions and topics --------------------------------------------------------------------------------

    private void transacted() throws Exception {
        Session other = session(Session.AUTO_ACKNOWLEDGE);
        MessageConsumer watching = other.createConsumer(other.createQueue("tx"));
        Session session = connect().createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue("tx"));
        producer.send(session.createTextMessage("rolled back"));
        session.rollback();
        producer.send(session.createTextMessage("committed"));
        seen.put("before_commit", watching.receive(NOTHING) == null);
        session.commit();
        seen.put("after_commit", bodies(watching, 1));

        fill(other, 2);
        MessageConsumer consumer = session.createConsumer(queue(session));
        seen.put("first", deliveries(consumer, 2));
        session.rollback();
        seen.put("again", deliveries(consumer, 2));
        producer.send(session.createTextMessage("with the acknowledgements"));
        session.commit();
        seen.put("together", bodies(watching, 1));
        seen.put("nothing_more", consumer.receive(NOTHING) == null);
    }

    /** A send that fails on flow control leaves the transaction to be committed. */
    private void transactedSendTimeout() throws Exception {
        Session session = connect("jms.sendTimeout=2000").createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer elsewhere = session.createProducer(session.createQueue("elsewhere"));
        elsewhere.send(session.createTextMessage("before"));
        try {
            session.createProducer(queue(session)).send(session.createTextMessage("no room"));
        } catch (JMSException error) {
            seen.put("thrown", error.getClass().getSimpleName());
        }
        elsewhere.send(session.createTextMessage("after"));
        session.commit();
        Session other = session(Session.AUTO_ACKNOWLEDGE);
        seen.put("received", bodies(other.createConsumer(other.createQueue("elsewhere")), 2));
    }

    private void topic() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        Topic prices = session.createTopic("prices");
        MessageConsumer one = session.createConsumer(prices);
        MessageConsumer two = session.createConsumer(prices);
        MessageConsumer sharedA = session.createSharedConsumer(prices, "shared");
        MessageConsumer sharedB = session.createSharedConsumer(prices, "shared");
        MessageProducer producer = session.createProducer(prices);
        for (int n = 0; n < 4; n++) {
            producer.send(session.createTextMessage("m" + n));
        }
        seen.put("one", bodies(one, 4));
        seen.put("two", bodies(two, 4));
        List<String> shared = new ArrayList<>();
        for (MessageConsumer consumer : List.of(sharedA, sharedB)) {
            for (Message m = consumer.receive(NOTHING); m != null; m = consumer.receive(NOTHING)) {
                shared.add(((TextMessage) m).getText());
            }
        }
        Collections.sort(shared);
        seen.put("shared", shared);
    }

    private void durableSubscription() throws Exception {
        String client = "jms.clientID=durable";
        Connection connection = connect(client);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        session.createDurableSubscriber(session.createTopic("prices"), "mine").close();
        connection.close();
        Session publishing = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = publishing.createProducer(publishing.createTopic("prices"));
        for (int n = 0; n < 3; n++) {
            producer.send(publishing.createTextMessage("m" + n));
        }
        connections.remove(connection);
        Session again = connect(client).createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer subscriber = again.createDurableSubscriber(again.createTopic("prices"), "mine");
        seen.put("received", bodies(subscriber, 3));
        subscriber.close();
        again.unsubscribe("mine");
        MessageConsumer fresh = again.createDurableSubscriber(again.createTopic("prices"), "mine");
        seen.put("after_unsubscribe", fresh.receive(NOTHING) == null);
        fresh.close();
        again.unsubscribe("mine");
    }

    /** Subscriptions beyond the simplest: shared and durable ones, of a client and of all, and their ends. */
    private void subscriptions() throws Exception {
        Session publishing = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = publishing.createProducer(publishing.createTopic("stocks.ibm"));
        Connection named = connect("jms.clientID=me");
        Session own = named.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Session shared = session(Session.AUTO_ACKNOWLEDGE);
        Topic pattern = own.createTopic("stocks.*");
        own.createSharedDurableConsumer(pattern, "both").close();
        shared.createSharedDurableConsumer(pattern, "both").close();
        producer.send(publishing.createTextMessage("m0"));
        seen.put("own", bodies(own.createSharedDurableConsumer(pattern, "both"), 1));
        MessageConsumer first = shared.createSharedDurableConsumer(pattern, "both");
        seen.put("of all clients", bodies(first, 1));
        seen.put("in_use", thrownBy(() -> session(Session.AUTO_ACKNOWLEDGE).unsubscribe("both")));
        first.close();
        shared.unsubscribe("both");
        seen.put("unknown", thrownBy(() -> shared.unsubscribe("both")));
        MessageConsumer deaf = own.createConsumer(pattern, null, true);
        MessageProducer local = own.createProducer(own.createTopic("stocks.ibm"));
        local.send(own.createTextMessage("own"));
        producer.send(publishing.createTextMessage("another's"));
        seen.put("not_local", bodies(deaf, 1));
        MessageProducer anywhere = publishing.createProducer(null);
        anywhere.send(publishing.createTopic("stocks.sap"), publishing.createTextMessage("anonymous"));
        anywhere.send(publishing.createTopic("without.subscribers"), publishing.createTextMessage("lost"));
        seen.put("anonymous", bodies(deaf, 1));
    }

    private interface Attempt {
        void run() throws Exception;
    }

    private static String thrownBy(Attempt attempt) throws Exception {
        try {
            attempt.run();
            return "nothing";
        } catch (JMSException error) {
            return error.getClass().getSimpleName() + ": " + error.getMessage();
        }
    }

    /** Two connections with one client ID; then another once the first is closed. */
    private void duplicateClientId() throws Exception {
        Connection first = connect("jms.clientID=me");
        try {
            connect("jms.clientID=me");
        } catch (JMSException error) {
            seen.put("thrown", error.getClass().getSimpleName());
            seen.put("said", error.getMessage());
        }
        Session session = first.createSession(false, Session.AUTO_ACKNOWLEDGE);
        fill(session, 1);
        seen.put("first_goes_on", bodies(session.createConsumer(queue(session)), 1));
        for (int n = 0; n < 20; n++) {
            first.close();
            first = connect("jms.clientID=me");
        }
        seen.put("reconnected", true);
    }

    /** Ask and answer through a temporary queue and a temporary topic, from another connection. */
    private void requestReply() throws Exception {
        Session answering = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer answers = answering.createProducer(null);
        answering.createConsumer(queue(answering)).setMessageListener(request -> {
            try {
                TextMessage answer = answering.createTextMessage("answer to " + ((TextMessage) request).getText());
                answer.setJMSCorrelationID(request.getJMSMessageID());
                answers.send(request.getJMSReplyTo(), answer);
            } catch (JMSException error) {
                seen.put("refused", error.getClass().getSimpleName());
            }
        });
        Session asking = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer requests = asking.createProducer(queue(asking));
        List<Object> names = new ArrayList<>();
        List<Object> got = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            TemporaryQueue replies = asking.createTemporaryQueue();
            names.add(replies.getQueueName());
            MessageConsumer consumer = asking.createConsumer(replies);
            TextMessage request = asking.createTextMessage("q" + n);
            request.setJMSReplyTo(replies);
            requests.send(request);
            got.addAll(bodies(consumer, 1));
            consumer.close();
            replies.delete();
        }
        seen.put("names", names);
        seen.put("got", got);

        TemporaryTopic news = asking.createTemporaryTopic();
        MessageConsumer one = asking.createConsumer(news);
        MessageConsumer two = asking.createConsumer(news);
        MessageProducer elsewhere = answering.createProducer(answering.createTopic(news.getTopicName()));
        elsewhere.send(answering.createTextMessage("to all"));
        seen.put("topic", List.of(bodies(one, 1), bodies(two, 1)));

        TemporaryQueue mine = asking.createTemporaryQueue();
        try {
            Session other = session(Session.AUTO_ACKNOWLEDGE);
            other.createConsumer(other.createQueue(mine.getQueueName()));
            seen.put("foreign", "consumes");
        } catch (JMSException error) {
            seen.put("foreign", error.getMessage());
        }
        try {
            Session other = session(Session.AUTO_ACKNOWLEDGE);
            other.createProducer(other.createQueue((String) names.get(0)));
            seen.put("late", "sends");
        } catch (JMSException error) {
            seen.put("late", error.getMessage());
        }
    }

    /** Two consumers that ask for message groups, on sessions of their own; then one of them goes. */
    private void groups() throws Exception {
        List<MessageConsumer> consumers = new ArrayList<>();
        for (int n = 0; n < 2; n++) {
            Session session = session(Session.AUTO_ACKNOWLEDGE);
            consumers.add(session.createConsumer(session.createQueue("orders?message-groups=true")));
        }
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue("orders"));
        for (int n = 0; n < 60; n++) {
            TextMessage message = session.createTextMessage("g" + n % 6 + ":" + n);
            message.setStringProperty("JMSXGroupID", "g" + n % 6);
            producer.send(message);
        }
        List<Object> taken = new ArrayList<>();
        int left = 60;
        while (left > 0) {
            for (int n = 0; n < 2; n++) {
                TextMessage message = (TextMessage) consumers.get(n).receive(50);
                if (message != null) {
                    taken.add(List.of(n, message.getText()));
                    left--;
                }
            }
        }
        seen.put("taken", taken);
    }

    /** Spring's template asks, with a temporary queue for the answer; another connection answers. */
    private void springRequestReply() throws Exception {
        Session answering = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer answers = answering.createProducer(null);
        answering.createConsumer(queue(answering)).setMessageListener(request -> {
            try {
                String text = ((TextMessage) request).getText();
                answers.send(request.getJMSReplyTo(), answering.createTextMessage("answer to " + text));
            } catch (JMSException error) {
                seen.put("refused", error.toString());
            }
        });
        JmsTemplate template = new JmsTemplate(new JmsConnectionFactory(url));
        template.setReceiveTimeout(WITHIN);
        List<Object> got = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            String text = "q" + n;
            Message answer = template.sendAndReceive("orders", session -> session.createTextMessage(text));
            got.add(answer == null ? "nothing" : ((TextMessage) answer).getText());
        }
        seen.put("got", got);
    }

    private void selector() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(queue(session));
        for (String color : List.of("red", "blue", "red")) {
            TextMessage message = session.createTextMessage(color);
            message.setStringProperty("color", color);
            producer.send(message);
        }
        MessageConsumer consumer = session.createConsumer(queue(session), "color = 'blue'");
        seen.put("received", bodies(consumer, 1));
        seen.put("nothing_more", consumer.receive(NOTHING) == null);
    }

    private void priority() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(queue(session));
        for (int priority : List.of(4, 0, 9, 4, 9)) {
            producer.setPriority(priority);
            producer.send(session.createTextMessage("p" + priority));
        }
        seen.put("received", bodies(session.createConsumer(queue(session)), 5));
    }

    /** One message that is soon too old, and one that is not; the consumer comes when the first has gone. */
    private void expiry() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(queue(session));
        producer.setTimeToLive(200);
        producer.send(session.createTextMessage("old"));
        producer.setTimeToLive(3_600_000);
        producer.send(session.createTextMessage("new"));
        await("the first message has expired", () -> "new".equals(firstBrowsed(session)));
        MessageConsumer consumer = session.createConsumer(queue(session));
        Message message = needed(consumer);
        seen.put("received", ((TextMessage) message).getText());
        seen.put("left_ms", message.getJMSExpiration() - System.currentTimeMillis());
        seen.put("nothing_more", consumer.receive(NOTHING) == null);
    }

    /** A message that is not to be delivered for a while, and one that is at once; the file `taken` says that it has come. */
    private void delay() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(queue(session));
        producer.setDeliveryDelay(number("delay"));
        long before = System.currentTimeMillis();
        producer.send(session.createTextMessage("later"));
        producer.setDeliveryDelay(0);
        producer.send(session.createTextMessage("now"));
        MessageConsumer consumer = session.createConsumer(queue(session));
        seen.put("first", bodies(consumer, 1));
        seen.put("nothing_more", consumer.receive(NOTHING) == null);
        Files.createFile(Path.of(options.get("taken")));
        Message message = needed(consumer);
        seen.put("then", ((TextMessage) message).getText());
        seen.put("delivery_ms", message.getJMSDeliveryTime() - before);
    }

    /** A message that the application fails on; the client's policy gives it up at once. */
    private void poison() throws Exception {
        Session session = session(Session.CLIENT_ACKNOWLEDGE, "jms.redeliveryPolicy.maxRedeliveries=0");
        fill(session, 2);
        MessageConsumer consumer = session.createConsumer(queue(session));
        seen.put("first", bodies(consumer, 1));
        session.recover();
        Message second = needed(consumer);
        seen.put("then", ((TextMessage) second).getText());
        second.acknowledge();
        seen.put("dead", bodies(session.createConsumer(session.createQueue("dead")), 1));
    }

    // -- pieces -------------------------------------------------------------------------------------------------

    private Connection connect(String... uriOptions) throws JMSException {
        String options = String.join("&", uriOptions);
        String whole = options.isEmpty() ? url : url + (url.contains("?") ? "&" : "?") + options;
        Connection connection = new JmsConnectionFactory(whole).createConnection();
        connections.add(connection);
        connection.start();
        return connection;
    }

    private Session session(int acknowledge, String... uriOptions) throws JMSException {
        return connect(uriOptions).createSession(false, acknowledge);
    }

    private Queue queue(Session session) throws JMSException {
        return session.createQueue(options.getOrDefault("queue", "orders"));
    }

    private int number(String option) {
        return Integer.parseInt(options.get(option));
    }

    private void fill(Session session, int count) throws JMSException {
        Destination queue = queue(session);
        try (MessageProducer producer = session.createProducer(queue)) {
            for (int n = 0; n < count; n++) {
                producer.send(session.createTextMessage("m" + n));
            }
        }
    }

    /** The body of the first message that a browser is shown; null if there is none. */
    private String firstBrowsed(Session session) throws JMSException {
        try (QueueBrowser browser = session.createBrowser(queue(session))) {
            Enumeration<?> there = browser.getEnumeration();
            return there.hasMoreElements() ? ((TextMessage) there.nextElement()).getText() : null;
        }
    }

    private static void await(String what, Callable<Boolean> condition) throws Exception {
        long began = System.nanoTime();
        while (!condition.call()) {
            if (System.nanoTime() - began > TimeUnit.MILLISECONDS.toNanos(WITHIN)) {
                throw new IllegalStateException("not within " + WITHIN + " ms: " + what);
            }
            Thread.sleep(5);
        }
    }

    private static Message needed(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(WITHIN);
        if (message == null) {
            throw new IllegalStateException("no message within " + WITHIN + " ms");
        }
        return message;
    }

    private static List<String> bodies(MessageConsumer consumer, int count) throws JMSException {
        List<String> found = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            found.add(((TextMessage) needed(consumer)).getText());
        }
        return found;
    }

    private static List<Object> deliveries(MessageConsumer consumer, int count) throws JMSException {
        List<Object> found = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            found.add(delivery(needed(consumer)));
        }
        return found;
    }

    /** [body, JMSRedelivered, JMSXDeliveryCount] */
    private static List<Object> delivery(Message message) throws JMSException {
        int count = message.getIntProperty("JMSXDeliveryCount");
        return List.of(((TextMessage) message).getText(), message.getJMSRedelivered(), count);
    }

    private static long crc(byte[] data) {
        CRC32 crc = new CRC32();
        crc.update(data);
        return crc.getValue();
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            map.forEach((key, part) -> parts.add(json(String.valueOf(key)) + ": " + json(part)));
            return "{" + String.join(", ", parts) + "}";
        }
        if (value instanceof Collection<?> list) {
            return "[" + String.join(", ", list.stream().map(Scenarios::json).toList()) + "]";
        }
        if (value instanceof Number || value instanceof Boolean) {
            return value.toString();
        }
        StringBuilder text = new StringBuilder("\"");
        for (char c : value.toString().toCharArray()) {
            text.append(c == '"' || c == '\\' || c < ' ' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return text.append('"').toString();
    }
}
