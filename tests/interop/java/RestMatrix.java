import java.nio.charset.StandardCharsets;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.Instant;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.DataTypes;

/** What Java's RESTCatalog does of the client matrix: a line asks "operation TAB table [TAB option=value]…", a line of JSON answers. */
public class RestMatrix {
    private static Catalog catalog;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Options options = new Options();
        for (String option : arguments[0].split(" ")) {
            int equals = option.indexOf('=');
            options.set(option.substring(0, equals), option.substring(equals + 1));
        }
        options.set("cache-enabled", "false"); // the cache of 1.4 forgets to pass some calls on
        catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] asked = line.split("\t");
            Identifier name = Identifier.fromString(asked[1]);
            String answer;
            try {
                if (asked[0].equals("read")) {
                    answer = "{\"rows\": [" + String.join(", ", read(name, asked)) + "]}";
                } else {
                    answer = act(asked[0], name) ? "{\"rows\": []}" : "{\"none\": true}";
                }
            } catch (Exception problem) {
                answer = "{\"error\": " + quoted(problem.toString()) + "}";
            }
            out.println(answer);
            out.flush();
        }
    }

    private static boolean act(String operation, Identifier name) throws Exception {
        switch (operation) {
            case "create" -> create(name, Map.of("bucket", "-1"));
            case "create a queue" -> create(name, Map.of("bucket", "1", "bucket-key", "id"));
            case "create partitioned" -> create(name, Map.of("bucket", "-1"), "v");
            case "create in ORC" -> create(name, Map.of("bucket", "-1", "file.format", "orc"));
            case "insert", "insert into a queue", "insert into buckets", "insert into a partition", "leave a snapshot behind" ->
                write(name, null, 3);
            case "insert overwrite" -> write(name, Map.of(), 3);
            case "overwrite a partition" -> write(name, Map.of("v", "x"), 3);
            case "write a branch" -> write(new Identifier(name.getDatabaseName(), name.getTableName(), "b"), null, 3);
            case "truncate" -> {
                try (BatchTableCommit commit = catalog.getTable(name).newBatchWriteBuilder().newCommit()) {
                    commit.truncateTable();
                }
            }
            case "drop a partition" -> {
                try (BatchTableCommit commit = catalog.getTable(name).newBatchWriteBuilder().newCommit()) {
                    commit.truncatePartitions(List.of(Map.of("v", "x")));
                }
            }
            case "add a column" -> alter(name, SchemaChange.addColumn("n", DataTypes.INT()));
            case "rename a column" -> alter(name, SchemaChange.renameColumn("v", "w"));
            case "drop a column" -> alter(name, SchemaChange.dropColumn("v"));
            case "move a column" -> alter(name, SchemaChange.updateColumnPosition(SchemaChange.Move.first("v")));
            case "comment a column" -> alter(name, SchemaChange.updateColumnComment("v", "said"));
            case "remove an option" -> alter(name, SchemaChange.removeOption("target-file-size"));
            case "widen a type" -> alter(name, SchemaChange.updateColumnType("id", DataTypes.BIGINT()));
            case "cast a type" -> alter(name, SchemaChange.updateColumnType("id", DataTypes.STRING()));
            case "set an option" -> alter(name, SchemaChange.setOption("target-file-size", "1 mb"));
            case "comment" -> alter(name, SchemaChange.updateComment("said"));
            case "create a tag" -> catalog.createTag(name, "one", 1L, null, false);
            case "delete a tag" -> catalog.deleteTag(name, "one");
            case "rename a tag" -> catalog.getTable(name).renameTag("old", "one");
            case "roll back to a snapshot" -> catalog.rollbackTo(name, Instant.snapshot(1L));
            case "roll back to a tag" -> catalog.rollbackTo(name, Instant.tag("one"));
            case "create a branch" -> catalog.createBranch(name, "b", "one");
            case "delete a branch" -> catalog.dropBranch(name, "b");
            case "fast-forward" -> catalog.fastForward(name, "b");
            case "expire snapshots" -> {
                ExpireConfig kept = ExpireConfig.builder().snapshotRetainMax(1).snapshotRetainMin(1).build();
                catalog.getTable(name).newExpireSnapshots().config(kept).expire();
            }
            case "rename" -> catalog.renameTable(name, Identifier.create(name.getDatabaseName(), name.getTableName() + "_new"), false);
            default -> {
                return false;
            }
        }
        return true;
    }

    private static void create(Identifier name, Map<String, String> options, String... partitionKeys) throws Exception {
        Schema.Builder schema = Schema.newBuilder().column("id", DataTypes.INT()).column("v", DataTypes.STRING());
        schema.partitionKeys(partitionKeys).options(options);
        catalog.createTable(name, schema.build(), false);
        write(name, null, 1, 2);
    }

    private static void alter(Identifier name, SchemaChange change) throws Exception {
        catalog.alterTable(name, List.of(change), false);
    }

    /** One batch commit; what it overwrites, or null. */
    private static void write(Identifier name, Map<String, String> overwritten, int... ids) throws Exception {
        BatchWriteBuilder builder = catalog.getTable(name).newBatchWriteBuilder();
        if (overwritten != null) {
            builder = overwritten.isEmpty() ? builder.withOverwrite() : builder.withOverwrite(overwritten);
        }
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            for (int id : ids) {
                write.write(GenericRow.of(id, BinaryString.fromString("x")));
            }
            commit.commit(write.prepareCommit());
        }
    }

    private static List<String> read(Identifier name, String[] asked) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int at = 2; at < asked.length; at++) {
            String[] pair = asked[at].split("=", 2);
            options.put(pair[0], pair[1]);
        }
        Table table = catalog.getTable(name).copy(options);
        List<DataType> types = table.rowType().getFieldTypes();
        ReadBuilder builder = table.newReadBuilder();
        List<String> found = new ArrayList<>();
        try (RecordReaderIterator<InternalRow> rows = new RecordReaderIterator<>(builder.newRead().createReader(builder.newScan().plan()))) {
            while (rows.hasNext()) {
                InternalRow row = rows.next();
                List<String> values = new ArrayList<>();
                for (int at = 0; at < types.size(); at++) {
                    values.add(value(row, at, types.get(at).getTypeRoot()));
                }
                found.add("[" + String.join(", ", values) + "]");
            }
        }
        return found;
    }

    private static String value(InternalRow row, int at, DataTypeRoot root) {
        if (row.isNullAt(at)) {
            return "null";
        }
        return switch (root) {
            case INTEGER -> String.valueOf(row.getInt(at));
            case BIGINT -> String.valueOf(row.getLong(at));
            case VARCHAR -> quoted(row.getString(at).toString());
            default -> throw new IllegalArgumentException("the matrix has no column of type " + root);
        };
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\s+", " ") + '"';
    }
}
