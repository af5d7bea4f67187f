import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** The partition that Kafka's Java client chooses for each key; arguments: number of partitions, keys. */
class Partitions {
    public static void main(String[] arguments) {
        int partitions = Integer.parseInt(arguments[0]);
        for (int i = 1; i < arguments.length; i++) {
            System.out.println(BuiltInPartitioner.partitionForKey(arguments[i].getBytes(StandardCharsets.UTF_8), partitions));
        }
    }
}
