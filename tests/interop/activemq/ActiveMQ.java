import java.io.File;
import java.util.List;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.broker.region.policy.VMPendingQueueMessageStoragePolicy;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;

/** ActiveMQ with a store, and a memory limit for each queue. Arguments: the folder, the port for AMQP. */
public class ActiveMQ {
    public static void main(String[] arguments) throws Exception {
        PolicyEntry policy = new PolicyEntry();
        policy.setQueue(">");
        policy.setMemoryLimit(50_000);
        policy.setProducerFlowControl(true);
        policy.setPendingQueuePolicy(new VMPendingQueueMessageStoragePolicy());
        PolicyEntry stored = new PolicyEntry(); // the broker's default: what exceeds the memory is in the store alone
        stored.setQueue("stored.>");
        stored.setMemoryLimit(50_000);
        PolicyEntry unthrottled = new PolicyEntry();
        unthrottled.setQueue("unthrottled");
        unthrottled.setProducerFlowControl(false);
        PolicyEntry advised = new PolicyEntry();
        advised.setQueue("advised.>");
        advised.setMemoryLimit(50_000);
        advised.setPendingQueuePolicy(new VMPendingQueueMessageStoragePolicy());
        advised.setAdvisoryWhenFull(true);
        advised.setAdvisoryForFastProducers(true);
        PolicyMap policies = new PolicyMap();
        policies.setPolicyEntries(List.of(policy, stored, unthrottled, advised));
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setDirectory(new File(arguments[0], "kahadb"));
        store.setJournalMaxFileLength(1 << 20);
        BrokerService broker = new BrokerService();
        broker.setBrokerName("test");
        broker.setDataDirectory(arguments[0]);
        broker.setPersistenceAdapter(store);
        broker.setUseJmx(true);
        broker.getManagementContext().setCreateConnector(false);
        broker.setDestinationPolicy(policies);
        broker.getSystemUsage().getMemoryUsage().setLimit(10_000_000);
        broker.getSystemUsage().getStoreUsage().setLimit(100_000_000);
        broker.getSystemUsage().getTempUsage().setLimit(50_000_000);
        broker.addConnector("amqp://127.0.0.1:" + arguments[1]);
        broker.start();
        System.out.println("ready"); // a client can connect earlier, while it is still a slave for JMX
        broker.waitUntilStopped();
    }
}
