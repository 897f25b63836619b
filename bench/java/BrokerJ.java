import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.qpid.server.SystemLauncher;

/** Qpid Broker-J on loopback with a Derby store; queues come to be as clients attach. */
public class BrokerJ {
    private static final String CONFIGURATION = """
        {
          "name": "peer", "modelVersion": "8.0",
          "authenticationproviders": [{"name": "anonymous", "type": "Anonymous"}],
          "ports": [{
            "name": "AMQP", "port": %s, "bindingAddress": "127.0.0.1", "protocols": ["AMQP_1_0"],
            "authenticationProvider": "anonymous",
            "virtualhostaliases": [{"name": "nameAlias", "type": "nameAlias"}, {"name": "defaultAlias", "type": "defaultAlias"}]
          }],
          "virtualhostnodes": [{
            "name": "default", "type": "DERBY", "defaultVirtualHostNode": "true",
            "virtualHostInitialConfiguration": "%s"
          }]
        }
        """;
    private static final String VIRTUAL_HOST = """
        {"type": "ProvidedStore", "name": "default", "nodeAutoCreationPolicies": [{
          "pattern": ".*", "nodeType": "queue", "createdOnPublish": true, "createdOnConsume": true, "attributes": {}}]}
        """;

    public static void main(String[] arguments) throws Exception {
        Path data = Path.of(arguments[1]), file = data.resolve("initial-config.json");
        String virtualHost = VIRTUAL_HOST.replace("\n", " ").replace("\"", "\\\"");
        Files.writeString(file, CONFIGURATION.formatted(arguments[0], virtualHost));
        System.setProperty("qpid.work_dir", data.toString());
        System.setProperty("derby.stream.error.file", data.resolve("derby.log").toString());
        var launcher = new SystemLauncher();
        launcher.startup(Map.of("type", "JSON", "storePath", data.resolve("config.json").toString(), "initialConfigurationLocation", file.toUri().toString()));
    }
}
