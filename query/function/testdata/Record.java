import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.*;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.functions.*;
import org.apache.cassandra.db.marshal.*;
import org.apache.cassandra.transport.ProtocolVersion;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * Records number.txt again: java -cp <cassandra-all and its dependencies> Record.java <directory>. Each line has a
 * function, the CQL types of its arguments, their bytes, and the answer, which is replaced. To ask more, add lines with
 * any answer. Lines where Cassandra and this package differ on purpose are not in the file.
 */
public class Record {
    public static void main(String[] args) throws Exception {
        DatabaseDescriptor.clientInitialization(false);
        Path file = Paths.get(args[0]).resolve("number.txt");
        StringBuilder out = new StringBuilder();
        for (String line : Files.readString(file).split("\n")) {
            if (line.startsWith("#")) { out.append(line).append('\n'); continue; }
            String[] f = line.split("\t", -1);
            out.append(String.join("\t", f[0], f[1], f[2], answer(f[0], f[1], f[2]))).append('\n');
        }
        Files.writeString(file, out);
    }

    static String answer(String name, String type, String hex) {
        try {
            for (Function f : NativeFunctions.instance.getFunctions(FunctionName.nativeFunction(name))) {
                if (!f.argTypes().get(0).asCQL3Type().toString().equals(type)) continue;
                Arguments a = ((ScalarFunction) f).newArguments(ProtocolVersion.V5);
                a.set(0, ByteBufferUtil.hexToBytes(hex));
                ByteBuffer b = ((ScalarFunction) f).execute(a);
                if (b == null) return "null";
                return f.returnType() == UTF8Type.instance ? ByteBufferUtil.string(b) : ByteBufferUtil.bytesToHex(b);
            }
            return "no such function";
        } catch (Throwable e) {
            return "error " + e.getMessage();
        }
    }
}
