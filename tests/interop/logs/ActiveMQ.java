import java.util.List;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;

/** ActiveMQ with a memory limit for each queue. Argument: the port for AMQP. */
public class ActiveMQ {
    public static void main(String[] arguments) throws Exception {
        PolicyEntry policy = new PolicyEntry();
        policy.setQueue(">");
        policy.setMemoryLimit(50_000);
        policy.setProducerFlowControl(true);
        policy.setBlockedProducerWarningInterval(1_000);
        PolicyMap policies = new PolicyMap();
        policies.setPolicyEntries(List.of(policy));
        BrokerService broker = new BrokerService();
        broker.setPersistent(false);
        broker.setUseJmx(false);
        broker.setDestinationPolicy(policies);
        broker.addConnector("amqp://127.0.0.1:" + arguments[0]);
        broker.start();
        broker.waitUntilStopped();
    }
}
