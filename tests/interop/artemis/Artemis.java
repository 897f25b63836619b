import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;

/** Artemis as a file configures it. Argument: the URL of the file. */
public class Artemis {
    public static void main(String[] arguments) throws Exception {
        EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
        broker.setConfigResourcePath(arguments[0]);
        broker.start();
        Thread.currentThread().join();
    }
}
