import java.io.File;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;
import org.apache.activemq.artemis.nativo.jlibaio.LibaioContext;

/** Apache Artemis on loopback, with what `artemis create` would configure: a synced journal, its buffer tuned to the disk. */
public class Artemis {
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        Path data = Path.of(arguments[1]);
        long sync = nanosecondsOfASync(data.resolve("probe"));
        var configuration = new ConfigurationImpl();
        configuration.setBrokerInstance(data.toFile());
        configuration.setSecurityEnabled(false).setPersistenceEnabled(true).setJMXManagementEnabled(false);
        configuration.setJournalType(LibaioContext.isLoaded() ? JournalType.ASYNCIO : JournalType.NIO);
        configuration.setJournalDatasync(true);
        configuration.setJournalBufferTimeout_NIO((int) sync).setJournalBufferTimeout_AIO((int) sync);
        configuration.setJournalPoolFiles(10);
        configuration.addAcceptorConfiguration(
            "amqp",
            "tcp://127.0.0.1:" + port + "?protocols=AMQP;useEpoll=true;tcpSendBufferSize=1048576;"
                + "tcpReceiveBufferSize=1048576;amqpCredits=1000;amqpLowCredits=300");
        configuration.addAddressSetting(
            "#",
            new AddressSettings()
                .setDefaultAddressRoutingType(RoutingType.ANYCAST)
                .setDefaultQueueRoutingType(RoutingType.ANYCAST)
                .setAutoDeleteQueues(false)
                .setAutoDeleteAddresses(false));
        var broker = new EmbeddedActiveMQ().setConfiguration(configuration);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                broker.stop();
            } catch (Exception e) {
                e.printStackTrace();
            }
        }));
        broker.start();
        System.out.println("journal " + configuration.getJournalType());
    }

    private static long nanosecondsOfASync(Path path) throws Exception {
        try (var file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            int rounds = 50;
            long start = System.nanoTime();
            for (int i = 0; i < rounds; i++) {
                file.write(ByteBuffer.allocate(4096), 0);
                file.force(false);
            }
            return (System.nanoTime() - start) / rounds;
        }
    }
}
