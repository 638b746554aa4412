import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.marshal.*;
import org.apache.cassandra.dht.*;
import org.apache.cassandra.locator.*;
import org.apache.cassandra.utils.*;

/**
 * Records tokens.txt and replicas.txt again, from Cassandra's own partitioner and strategies:
 * java -cp <cassandra-all and its dependencies> Record.java <this directory>. It draws from a fixed seed, so only what
 * Cassandra answers can change.
 */
public class Record {
    static final Random chance = new Random(4);

    public static void main(String[] args) throws Exception {
        DatabaseDescriptor.clientInitialization(false);
        DatabaseDescriptor.setPartitionerUnsafe(Murmur3Partitioner.instance);
        Path dir = Paths.get(args[0]);
        Files.writeString(dir.resolve("tokens.txt"), tokens());
        Files.writeString(dir.resolve("replicas.txt"), replicas());
        System.exit(0);
    }

    // ---- tokens: key in hex, token

    static String tokens() {
        StringBuilder out = new StringBuilder("# all lengths, bytes below 0x80\n");
        for (int n = 0; n <= 40; n++)
            for (int k = 0; k < 3; k++) token(out, bytes(n, 0, 0x80));
        out.append("# all lengths, any bytes\n");
        for (int n = 0; n <= 40; n++)
            for (int k = 0; k < 6; k++) token(out, bytes(n, 0, 0x100));
        out.append("# one byte >= 0x80 at each position of the tail\n");
        for (int body = 0; body <= 16; body += 16)
            for (int n = 1; n < 16; n++)
                for (int at = 0; at < n; at++) {
                    byte[] b = bytes(body + n, 0, 0x80);
                    b[body + at] = (byte) (0x80 + chance.nextInt(0x80));
                    token(out, b);
                }
        out.append("# long keys\n");
        for (int n : new int[] {255, 256, 257, 1000, 1023, 4096}) token(out, bytes(n, 0, 0x100));
        out.append("# int and bigint\n");
        for (int v : new int[] {0, 1, -1, 2, 42, 127, 128, 255, 256, 65535, 1000000, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
            token(out, ByteBufferUtil.getArray(Int32Type.instance.decompose(v)));
            token(out, ByteBufferUtil.getArray(LongType.instance.decompose((long) v)));
        }
        for (int k = 0; k < 40; k++) token(out, ByteBufferUtil.getArray(Int32Type.instance.decompose(chance.nextInt())));
        for (int k = 0; k < 40; k++) token(out, ByteBufferUtil.getArray(LongType.instance.decompose(chance.nextLong())));
        out.append("# text\n");
        for (String s : new String[] {"theo", "a", "user", "żółć", "日本語", "naïve", "😀", "Ünïcödé wïth söme mörë", "0123456789abcdef"})
            token(out, s.getBytes(StandardCharsets.UTF_8));
        out.append("# uuid\n");
        for (int k = 0; k < 20; k++)
            token(out, ByteBufferUtil.getArray(UUIDType.instance.decompose(new UUID(chance.nextLong(), chance.nextLong()))));
        out.append("# composite keys: (text, text), (int, text), (uuid, bigint, text), with empty parts\n");
        for (int k = 0; k < 30; k++) {
            composite(out, text(), text());
            composite(out, Int32Type.instance.decompose(chance.nextInt()), text());
            composite(out, UUIDType.instance.decompose(new UUID(chance.nextLong(), chance.nextLong())),
                      LongType.instance.decompose(chance.nextLong()), text());
        }
        composite(out, ByteBufferUtil.EMPTY_BYTE_BUFFER, ByteBufferUtil.EMPTY_BYTE_BUFFER);
        composite(out, text(), ByteBufferUtil.EMPTY_BYTE_BUFFER);
        return out.toString();
    }

    static ByteBuffer text() {
        String[] words = {"hello", "zażółć", "x", "山", "a longer text than the others", "naïf", "", "42"};
        return UTF8Type.instance.decompose(words[chance.nextInt(words.length)] + chance.nextInt(1000));
    }

    static void composite(StringBuilder out, ByteBuffer... parts) {
        token(out, ByteBufferUtil.getArray(CompositeType.build(ByteBufferAccessor.instance, parts)));
    }

    static byte[] bytes(int n, int from, int to) {
        byte[] b = new byte[n];
        for (int i = 0; i < n; i++) b[i] = (byte) (from + chance.nextInt(to - from));
        return b;
    }

    static void token(StringBuilder out, byte[] key) {
        out.append(Hex.bytesToHex(key)).append('\t')
           .append(Murmur3Partitioner.instance.getToken(ByteBuffer.wrap(key))).append('\n');
    }

    // ---- replicas: "ring", its nodes, then a strategy and for each question "token: replicas in order"

    static class Racks implements IEndpointSnitch {
        final Map<InetAddressAndPort, String[]> where = new HashMap<>();
        public String getRack(InetAddressAndPort e) { return where.get(e)[1]; }
        public String getDatacenter(InetAddressAndPort e) { return where.get(e)[0]; }
        public <C extends ReplicaCollection<? extends C>> C sortedByProximity(InetAddressAndPort a, C c) { return c; }
        public int compareEndpoints(InetAddressAndPort t, Replica a, Replica b) { return 0; }
        public void gossiperStarting() {}
        public boolean isWorthMergingForRangeQuery(ReplicaCollection<?> m, ReplicaCollection<?> a, ReplicaCollection<?> b) { return false; }
    }

    static String replicas() throws Exception {
        StringBuilder out = new StringBuilder();
        int[][] shapes = { // nodes, data centers, racks in each, tokens of each
            {1, 1, 1, 1}, {1, 1, 1, 4}, {2, 1, 1, 3}, {3, 1, 1, 4}, {4, 1, 1, 16}, {4, 1, 2, 4}, {5, 1, 3, 4}, {6, 1, 3, 4},
            {6, 1, 6, 2}, {8, 1, 2, 4}, {9, 1, 4, 3}, {4, 2, 1, 4}, {6, 2, 2, 4}, {8, 2, 3, 4}, {9, 3, 2, 3}, {12, 3, 3, 4}, {12, 2, 1, 2}};
        for (int[] s : shapes) ring(out, s[0], s[1], s[2], s[3]);
        return out.toString();
    }

    static void ring(StringBuilder out, int nodes, int dcs, int racks, int tokens) throws Exception {
        Racks snitch = new Racks();
        TokenMetadata metadata = new TokenMetadata(snitch);
        out.append("ring\n");
        Set<Long> all = new TreeSet<>();
        for (int i = 1; i <= nodes; i++) {
            InetAddressAndPort e = InetAddressAndPort.getByName("127.0.0." + i);
            String rack = "r" + (1 + chance.nextInt(racks)), dc = "dc" + (1 + i % dcs);
            snitch.where.put(e, new String[] {dc, rack});
            SortedSet<Long> owned = new TreeSet<>();
            while (owned.size() < tokens) { long t = chance.nextLong(); if (all.add(t)) owned.add(t); }
            List<Token> ts = new ArrayList<>();
            for (long t : owned) ts.add(new Murmur3Partitioner.LongToken(t));
            metadata.updateHostId(new UUID(0, i), e);
            metadata.updateNormalTokens(ts, e);
            out.append("node ").append(i).append(' ').append(dc).append(' ').append(rack);
            for (long t : owned) out.append(' ').append(t);
            out.append('\n');
        }
        List<Long> questions = new ArrayList<>(all);
        for (int k = 0; k < 6; k++) questions.add(chance.nextLong());
        questions.add(Long.MAX_VALUE);
        questions.add(Long.MIN_VALUE + 1);
        for (int rf = 1; rf <= 5; rf += 2) {
            out.append("simple ").append(rf).append('\n');
            ask(out, new SimpleStrategy("ks", metadata, snitch, Map.of("replication_factor", "" + rf)), metadata, questions);
        }
        for (int k = 0; k < (dcs == 1 ? 4 : 6); k++) {
            Map<String, String> factors = new TreeMap<>();
            for (int d = 1; d <= dcs; d++) factors.put("dc" + d, "" + (dcs == 1 ? k + 1 : chance.nextInt(5)));
            out.append("network");
            factors.forEach((dc, f) -> out.append(' ').append(dc).append('=').append(f));
            out.append('\n');
            ask(out, new NetworkTopologyStrategy("ks", metadata, snitch, factors), metadata, questions);
        }
    }

    static void ask(StringBuilder out, AbstractReplicationStrategy strategy, TokenMetadata metadata, List<Long> questions) {
        for (long t : questions) {
            out.append(t).append(':');
            // The strategy is asked for the token that ends the range, as getNaturalReplicas does.
            Token at = TokenMetadata.firstToken(metadata.sortedTokens(), new Murmur3Partitioner.LongToken(t));
            for (InetAddressAndPort e : strategy.calculateNaturalReplicas(at, metadata).endpoints())
                out.append(' ').append(e.getHostAddress(false).substring("127.0.0.".length()));
            out.append('\n');
        }
    }
}
