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

/**
 * Apache Artemis on loopback, syncing what it accepts as durable. Its journal is by the third argument:
 *
 * "defaults": nothing of it is configured: ASYNCIO where libaio is, else NIO; a buffer that is flushed after 0.5 ms (NIO:
 * 3.3); two files at first, and a pool without a limit.
 *
 * "documented": what the chapter Performance Tuning of its manual recommends without giving up durability: ASYNCIO
 * (without libaio this fails), journal-min-files for the sustained rate and journal-pool-files for the greatest load, so
 * that files are used again rather than created, and a journal-buffer-timeout for the disk: as long as a sync takes,
 * which is what its command perf-journal would say.
 */
public class Artemis {
    private static final int FILES = 50; // of 10 MiB each: seconds of the fastest load, which is acknowledged and its files used again by then

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        Path data = Path.of(arguments[1]);
        boolean documented = arguments[2].equals("documented"), aio = LibaioContext.isLoaded();
        var configuration = new ConfigurationImpl();
        configuration.setBrokerInstance(data.toFile());
        configuration.setSecurityEnabled(false).setPersistenceEnabled(true).setJMXManagementEnabled(false);
        if (documented) {
            if (!aio) {
                System.out.println("the documented journal is ASYNCIO, which needs libaio: apt-get install libaio1");
                System.exit(1);
            }
            int sync = (int) nanosecondsOfASync(data.resolve("probe"));
            configuration.setJournalType(JournalType.ASYNCIO).setJournalBufferTimeout_AIO(sync);
            configuration.setJournalMinFiles(FILES).setJournalPoolFiles(FILES);
        } else if (!aio) {
            configuration.setJournalType(JournalType.NIO); // as it would itself, with a warning
        }
        configuration.addAcceptorConfiguration(
            "amqp",
            "tcp://127.0.0.1:" + port + "?protocols=AMQP;useEpoll=true;tcpSendBufferSize=1048576;"
                + "tcpReceiveBufferSize=1048576;amqpCredits=1000;amqpLowCredits=300");
        configuration.addAddressSetting("#", settings(RoutingType.ANYCAST));
        configuration.addAddressSetting("bench.topic.#", settings(RoutingType.MULTICAST));
        var broker = new EmbeddedActiveMQ().setConfiguration(configuration);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                broker.stop();
            } catch (Exception e) {
                e.printStackTrace();
            }
        }));
        broker.start();
        boolean nio = configuration.getJournalType() == JournalType.NIO;
        System.out.printf(
            "durability: %s journal, datasync %b, sync of transactions %b and of other messages %b, buffer time-out %d µs, "
                + "files %d, pool %d%n",
            configuration.getJournalType(),
            configuration.isJournalDatasync(),
            configuration.isJournalSyncTransactional(),
            configuration.isJournalSyncNonTransactional(),
            (nio ? configuration.getJournalBufferTimeout_NIO() : configuration.getJournalBufferTimeout_AIO()) / 1000,
            configuration.getJournalMinFiles(),
            configuration.getJournalPoolFiles());
    }

    private static AddressSettings settings(RoutingType type) {
        return new AddressSettings()
            .setDefaultAddressRoutingType(type)
            .setDefaultQueueRoutingType(type)
            .setAutoDeleteQueues(type == RoutingType.MULTICAST)
            .setAutoDeleteAddresses(false);
    }

    /** Like `perf-journal --sync-writes`: the best of five tries with 250 blocks of 4 KiB. */
    private static long nanosecondsOfASync(Path path) throws Exception {
        int tries = 5, blocks = 250, size = 4096;
        long best = Long.MAX_VALUE;
        try (var file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            file.write(ByteBuffer.allocate(blocks * size), 0);
            file.force(true);
            for (int at = 0; at < tries; at++) {
                long start = System.nanoTime();
                for (int block = 0; block < blocks; block++) {
                    file.write(ByteBuffer.allocate(size), (long) block * size);
                    file.force(false);
                }
                best = Math.min(best, (System.nanoTime() - start) / blocks);
            }
        }
        return best;
    }
}
