import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.options.ConfigOption;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.RowKeyExtractor;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.TypeUtils;

/**
 * Reads tables by location, one request a line on standard input: {"table": location, "rows": true, "where": [[column, op, literal], …]}.
 * Or {"options": [[key, text], …]}: how many of those values Java reads, and which it refuses.
 * Answers one line: rows as canonical.py spells them, the bucket of each, how many differ from the bucket Paimon would choose, and files kept.
 */
public class PaimonReader {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer;
            try {
                answer = answer(JSON.readValue(line, Map.class));
            } catch (Throwable problem) {
                problem.printStackTrace();
                answer = Map.of("error", String.valueOf(problem));
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    private static Map<String, Object> answer(Map<String, Object> request) throws Exception {
        if (request.get("options") != null) {
            return options((List<List<String>>) request.get("options"));
        }
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path((String) request.get("table")));
        boolean wantsRows = Boolean.TRUE.equals(request.get("rows"));
        List<Object> rows = new ArrayList<>();
        List<Integer> buckets = new ArrayList<>();
        long count = 0;
        long misplaced = 0;
        RowType type = table.rowType();
        ReadBuilder builder = table.newReadBuilder();
        Predicate where = where(type, (List<List<Object>>) request.get("where"));
        if (where != null) {
            builder.withFilter(where);
        }
        RowKeyExtractor extractor = table.bucketMode() == BucketMode.HASH_FIXED ? table.createRowKeyExtractor() : null;
        int files = 0;
        for (Split planned : builder.newScan().plan().splits()) {
            DataSplit split = (DataSplit) planned;
            files += split.dataFiles().size();
            try (RecordReader<InternalRow> reader = builder.newRead().createReader(split);
                    RecordReaderIterator<InternalRow> found = new RecordReaderIterator<>(reader)) {
                while (found.hasNext()) {
                    InternalRow row = found.next();
                    count++;
                    if (extractor != null) {
                        extractor.setRecord(row);
                        if (extractor.bucket() != split.bucket()) {
                            misplaced++;
                        }
                    }
                    if (wantsRows) {
                        rows.add(fields(row, type));
                        buckets.add(split.bucket());
                    }
                }
            }
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("count", count);
        answer.put("misplaced", misplaced);
        answer.put("files", files);
        answer.put("rows", rows);
        answer.put("buckets", buckets);
        return answer;
    }

    private static Map<String, Object> options(List<List<String>> given) throws Exception {
        Map<String, ConfigOption<?>> known = new LinkedHashMap<>();
        for (Field field : CoreOptions.class.getFields()) {
            if (Modifier.isStatic(field.getModifiers()) && field.get(null) instanceof ConfigOption) {
                ConfigOption<?> option = (ConfigOption<?>) field.get(null);
                known.put(option.key(), option);
            }
        }
        List<List<String>> refused = new ArrayList<>();
        int read = 0;
        for (List<String> pair : given) {
            ConfigOption<?> option = known.get(pair.get(0));
            if (option == null) {
                continue;
            }
            try {
                new Options(Map.of(pair.get(0), pair.get(1))).get(option);
                read++;
            } catch (RuntimeException problem) {
                refused.add(List.of(pair.get(0), pair.get(1), String.valueOf(problem.getMessage())));
            }
        }
        return Map.of("read", read, "refused", refused);
    }

    private static Predicate where(RowType type, List<List<Object>> conditions) {
        if (conditions == null || conditions.isEmpty()) {
            return null;
        }
        PredicateBuilder builder = new PredicateBuilder(type);
        List<Predicate> parts = new ArrayList<>();
        for (List<Object> condition : conditions) {
            int index = builder.indexOf((String) condition.get(0));
            Object text = condition.get(2);
            Object literal = text == null ? null : TypeUtils.castFromString(text.toString(), type.getTypeAt(index));
            switch ((String) condition.get(1)) {
                case "=": parts.add(builder.equal(index, literal)); break;
                case "<": parts.add(builder.lessThan(index, literal)); break;
                case ">": parts.add(builder.greaterThan(index, literal)); break;
                case "is null": parts.add(builder.isNull(index)); break;
                case "is not null": parts.add(builder.isNotNull(index)); break;
                default: throw new IllegalArgumentException("no such comparison: " + condition.get(1));
            }
        }
        return PredicateBuilder.and(parts);
    }

    private static List<Object> fields(InternalRow row, RowType type) {
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < type.getFieldCount(); i++) {
            DataType field = type.getTypeAt(i);
            values.add(canonical(InternalRow.createFieldGetter(field, i).getFieldOrNull(row), field));
        }
        return values;
    }

    private static Object canonical(Object value, DataType type) {
        if (value == null || value instanceof Boolean || value instanceof Byte || value instanceof Short || value instanceof Integer) {
            return value;
        } else if (value instanceof Long) {
            return value;
        } else if (value instanceof Float || value instanceof Double) {
            double number = ((Number) value).doubleValue();
            return Double.isNaN(number) ? "NaN" : Double.isInfinite(number) ? (number > 0 ? "inf" : "-inf") : (Object) number;
        } else if (value instanceof BinaryString) {
            return value.toString();
        } else if (value instanceof byte[]) {
            StringBuilder hex = new StringBuilder();
            for (byte b : (byte[]) value) {
                hex.append(String.format("%02x", b));
            }
            return "0x" + hex;
        } else if (value instanceof Decimal) {
            return ((Decimal) value).toBigDecimal().toPlainString();
        } else if (value instanceof Timestamp) {
            return ((Timestamp) value).toMicros();
        } else if (type instanceof ArrayType) {
            return list((InternalArray) value, ((ArrayType) type).getElementType());
        } else if (type instanceof MapType) {
            InternalMap map = (InternalMap) value;
            List<Object> keys = list(map.keyArray(), ((MapType) type).getKeyType());
            List<Object> values = list(map.valueArray(), ((MapType) type).getValueType());
            List<Object> pairs = new ArrayList<>();
            for (int i = 0; i < keys.size(); i++) {
                List<Object> pair = new ArrayList<>();
                pair.add(keys.get(i));
                pair.add(values.get(i));
                pairs.add(pair);
            }
            return pairs;
        } else if (type instanceof RowType) {
            return fields((InternalRow) value, (RowType) type);
        }
        throw new IllegalArgumentException("no spelling for " + type);
    }

    private static List<Object> list(InternalArray array, DataType element) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(element);
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            values.add(canonical(getter.getElementOrNull(array, i), element));
        }
        return values;
    }
}
