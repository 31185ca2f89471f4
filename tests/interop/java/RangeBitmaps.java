import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.fileindex.FileIndexWriter;
import org.apache.paimon.fileindex.rangebitmap.RangeBitmapFileIndex;
import org.apache.paimon.options.Options;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;

/** Writes range-bitmap indexes: a line "type;chunk size;value,value,..." gives a line of hex. "~" is NULL, texts are hex behind an x. */
public class RangeBitmaps {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(";", -1);
            Options options = new Options();
            if (!parts[1].isEmpty()) {
                options.set("chunk-size", parts[1]);
            }
            FileIndexWriter writer = new RangeBitmapFileIndex(type(parts[0]), options).createWriter();
            if (!parts[2].isEmpty()) {
                for (String value : parts[2].split(",", -1)) {
                    writer.writeRecord(value.equals("~") ? null : value(parts[0], value));
                }
            }
            System.out.println(hex(writer.serializedBytes()));
        }
    }

    private static DataType type(String name) {
        switch (name) {
            case "BOOLEAN": return DataTypes.BOOLEAN();
            case "TINYINT": return DataTypes.TINYINT();
            case "SMALLINT": return DataTypes.SMALLINT();
            case "INT": return DataTypes.INT();
            case "BIGINT": return DataTypes.BIGINT();
            case "FLOAT": return DataTypes.FLOAT();
            case "DOUBLE": return DataTypes.DOUBLE();
            case "DATE": return DataTypes.DATE();
            case "STRING": return DataTypes.STRING();
            case "DECIMAL(9, 2)": return DataTypes.DECIMAL(9, 2);
            case "TIMESTAMP(3)": return DataTypes.TIMESTAMP(3);
            case "TIMESTAMP(6)": return DataTypes.TIMESTAMP(6);
            default: throw new IllegalArgumentException(name);
        }
    }

    private static Object value(String type, String text) {
        switch (type) {
            case "BOOLEAN": return text.equals("1");
            case "TINYINT": return Byte.valueOf(text);
            case "SMALLINT": return Short.valueOf(text);
            case "INT": case "DATE": return Integer.valueOf(text);
            case "BIGINT": return Long.valueOf(text);
            case "FLOAT": return Float.valueOf(text);
            case "DOUBLE": return Double.valueOf(text);
            case "DECIMAL(9, 2)": return Decimal.fromUnscaledLong(Long.parseLong(text), 9, 2);
            case "TIMESTAMP(3)": return Timestamp.fromEpochMillis(Long.parseLong(text));
            case "TIMESTAMP(6)": return Timestamp.fromMicros(Long.parseLong(text));
            default: return BinaryString.fromBytes(bytes(text.substring(1)));
        }
    }

    private static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }
}
