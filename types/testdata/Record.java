import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.*;
import org.apache.cassandra.db.marshal.*;
import org.apache.cassandra.transport.ProtocolVersion;
import org.apache.cassandra.utils.*;

/**
 * Records the files of this directory again: java -cp <cassandra-all and its dependencies> Record.java <directory>.
 * Questions stay as they are in each line; answers are replaced by what this Cassandra says. To ask more, add lines
 * with any answer. Lines where Cassandra and this package differ on purpose are not in the files.
 */
public class Record {
    interface Answer { String of(String[] f) throws Exception; }

    public static void main(String[] args) throws Exception {
        DatabaseDescriptor.clientInitialization(false);
        Path dir = Paths.get(args[0]);
        each(dir.resolve("validate.txt"), 2, f -> { type(f[0]).validate(bytes(f[1])); return "ok"; });
        each(dir.resolve("class.txt"), 1, f -> type(f[0]).asCQL3Type() + "\t" + type(f[0]));
        each(dir.resolve("literal.txt"), 3, f -> hex(((Constants.Value) literal(f[1], f[2])
            .prepare("ks", new ColumnSpecification("ks", "t", new ColumnIdentifier("x", true), type(f[0])))).bytes));
        each(dir.resolve("format.txt"), 3, f -> escape(f[0].equals("cql")
            ? ((AbstractType) type(f[1])).asCQL3Type().toCQLLiteral(bytes(f[2]))
            : type(f[1]).toJSONString(bytes(f[2]), ProtocolVersion.V5)));
        each(dir.resolve("from_json.txt"), 2, f ->
            hex(type(f[0]).fromJSONObject(JsonUtils.decodeJson(f[1])).bindAndGet(QueryOptions.DEFAULT)));
        each(dir.resolve("temporal.txt"), 0, f -> temporal(f));
        order(dir.resolve("order.txt"));
    }

    static void each(Path file, int questions, Answer answer) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String line : Files.readString(file).split("\n")) {
            if (line.startsWith("#")) { out.append(line).append('\n'); continue; }
            String[] f = line.split("\t", -1);
            String a;
            try { a = answer.of(f); } catch (Throwable e) { a = e.getMessage(); }
            out.append(String.join("\t", Arrays.copyOf(f, questions))).append(questions > 0 ? "\t" : "").append(a).append('\n');
        }
        Files.writeString(file, out);
    }

    static String temporal(String[] f) {
        if (f[0].equals("add"))
            return String.join("\t", "add", f[1], f[2], "" + Duration.from(f[1]).addTo(Long.parseLong(f[2])));
        long ms = Long.parseLong(f[0]);
        TimeUUID lower = TimeUUID.minAtUnixMillis(ms), upper = TimeUUID.maxAtUnixMillis(ms);
        return String.join("\t", f[0], "" + lower, "" + upper, "" + lower.unix(TimeUnit.MILLISECONDS), "" + upper.unix(TimeUnit.MILLISECONDS));
    }

    static void order(Path file) throws Exception {
        StringBuilder out = new StringBuilder();
        AbstractType<?> t = null;
        List<ByteBuffer> values = new ArrayList<>();
        for (String line : (Files.readString(file) + "T ").split("\n")) {
            if (line.startsWith("T ")) {
                final AbstractType<?> by = t;
                if (by != null) values.sort((a, b) -> by.compare(a, b));
                for (int i = 0; i < values.size(); i++)
                    out.append(i > 0 && by.compare(values.get(i - 1), values.get(i)) == 0 ? "= " : "< ").append(hex(values.get(i))).append('\n');
                values.clear();
                if (line.length() > 2) { t = type(line.substring(2)); out.append(line).append('\n'); }
            } else if (line.startsWith("#")) out.append(line).append('\n');
            else values.add(bytes(line.substring(2)));
        }
        Files.writeString(file, out);
    }

    static AbstractType<?> type(String s) throws Exception { return TypeParser.parse(s); }

    static Constants.Literal literal(String kind, String s) {
        switch (kind) {
            case "STRING": return Constants.Literal.string(s);
            case "INTEGER": return Constants.Literal.integer(s);
            case "FLOAT": return Constants.Literal.floatingPoint(s);
            case "UUID": return Constants.Literal.uuid(s);
            case "BOOLEAN": return Constants.Literal.bool(s);
            case "HEX": return Constants.Literal.hex(s);
            default: return Constants.Literal.duration(s);
        }
    }

    static String hex(ByteBuffer b) { return b == null ? "null" : b.remaining() == 0 ? "-" : ByteBufferUtil.bytesToHex(b); }

    static ByteBuffer bytes(String s) {
        return s.equals("null") ? null : s.equals("-") ? ByteBufferUtil.EMPTY_BYTE_BUFFER : ByteBufferUtil.hexToBytes(s);
    }

    static String escape(String s) {
        StringBuilder b = new StringBuilder();
        for (char c : s.toCharArray())
            switch (c) {
                case '\\': b.append("\\\\"); break;
                case '\n': b.append("\\n"); break;
                case '\r': b.append("\\r"); break;
                case '\t': b.append("\\t"); break;
                default: b.append(c < 32 || c == 127 ? String.format("\\u%04x", (int) c) : "" + c);
            }
        return b.toString();
    }
}
