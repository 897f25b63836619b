import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.core.config.CoreAddressConfiguration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressFullMessagePolicy;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;

/** Artemis with a size for each address, at which it blocks producers. Argument: the port for AMQP. */
public class Artemis {
    public static void main(String[] arguments) throws Exception {
        AddressSettings settings = new AddressSettings();
        settings.setAddressFullMessagePolicy(AddressFullMessagePolicy.BLOCK);
        settings.setMaxSizeBytes(50_000);
        CoreAddressConfiguration orders = new CoreAddressConfiguration().setName("orders");
        orders.addRoutingType(RoutingType.ANYCAST);
        orders.addQueueConfig(QueueConfiguration.of("orders").setRoutingType(RoutingType.ANYCAST));
        ConfigurationImpl configuration = new ConfigurationImpl();
        configuration.setPersistenceEnabled(false);
        configuration.setSecurityEnabled(false);
        configuration.addAddressSetting("#", settings);
        configuration.addAddressConfiguration(orders);
        String credit = ";amqpCredits=2;amqpMinCredits=1";
        configuration.addAcceptorConfiguration("amqp", "tcp://127.0.0.1:" + arguments[0] + "?protocols=AMQP" + credit);
        new EmbeddedActiveMQ().setConfiguration(configuration).start();
        Thread.currentThread().join();
    }
}
