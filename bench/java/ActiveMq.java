import java.io.File;
import org.apache.activemq.broker.BrokerService;

/** ActiveMQ Classic on loopback with its AMQP transport and KahaDB, each commit synced: as it is shipped. */
public class ActiveMq {
    public static void main(String[] arguments) throws Exception {
        var broker = new BrokerService();
        broker.setBrokerName("peer");
        broker.setDataDirectoryFile(new File(arguments[1]));
        broker.setUseJmx(false);
        var usage = broker.getSystemUsage();
        usage.getMemoryUsage().setPercentOfJvmHeap(70);
        usage.getStoreUsage().setLimit(8L << 30);
        usage.getTempUsage().setLimit(8L << 30);
        broker.addConnector("amqp://127.0.0.1:" + arguments[0] + "?maximumConnections=10000&wireFormat.maxFrameSize=104857600");
        broker.start();
        broker.waitUntilStopped();
    }
}
