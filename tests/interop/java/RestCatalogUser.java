import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.function.FunctionChange;
import org.apache.paimon.function.FunctionDefinition;
import org.apache.paimon.function.FunctionImpl;
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
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.view.ViewChange;
import org.apache.paimon.view.ViewImpl;

/** What a program does that has this server as Paimon's own REST catalog; ends with status 1 at the first surprise. */
public class RestCatalogUser {
    private static Catalog catalog;

    public static void main(String[] arguments) throws Exception {
        Options options = new Options();
        for (String option : arguments[0].split(" ")) {
            int equals = option.indexOf('=');
            options.set(option.substring(0, equals), option.substring(equals + 1));
        }
        options.set("cache-enabled", "false"); // the cache of 1.4 forgets to pass some calls on
        catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
        if (arguments.length == 4) { // table, first id, how many: one row a commit, whatever the server answers
            Identifier name = Identifier.fromString(arguments[1]);
            int first = Integer.parseInt(arguments[2]);
            for (int id = first; id < first + Integer.parseInt(arguments[3]); id++) {
                write(name, id, 1);
            }
            System.out.println("done");
            return;
        }
        databases();
        for (String bucket : List.of("2", "-1")) {
            Identifier name = Identifier.create("java", "t" + bucket.replace("-", "m"));
            tables(name, bucket);
            history(name);
            branches(name);
        }
        views();
        functions();
        catalog.dropDatabase("java", false, true);
        catalog.close();
        System.out.println("done");
    }

    private static void databases() throws Exception {
        catalog.createDatabase("a b/c".replace("/", "+"), false);
        expect(catalog.listDatabases().contains("a b+c"), true);
        catalog.dropDatabase("a b+c", false, false);
        catalog.createDatabase("java", false, Map.of("k", "v"));
        expect(catalog.getDatabase("java").options().get("k"), "v");
        try {
            catalog.createDatabase("java", false);
            throw new AssertionError("made twice");
        } catch (Catalog.DatabaseAlreadyExistException expected) {
        }
    }

    private static void tables(Identifier name, String bucket) throws Exception {
        Schema.Builder schema = Schema.newBuilder().column("id", DataTypes.BIGINT()).column("name", DataTypes.STRING())
                .column("day", DataTypes.STRING()).partitionKeys("day").option("bucket", bucket).option("made.up", "kept");
        if (!bucket.equals("-1")) {
            schema.option("bucket-key", "id");
        }
        catalog.createTable(name, schema.build(), false);
        expect(catalog.getTable(name).options().get("made.up"), "kept");
        expect(catalog.listTables("java").contains(name.getTableName()), true);
        expect(catalog.listTableDetails("java").isEmpty(), false);
        expect(catalog.listTablesPagedGlobally("java", null, 100, null).getElements().contains(name), true);
        for (int first = 0; first < 12; first += 4) {
            write(name, first, 4);
        }
        expect(ids(name).size(), 12);
        expect(catalog.listPartitions(name).size(), 2);
        expect(catalog.listPartitionsByNames(name, List.of(Map.of("day", "d1"))).size(), 1);
        catalog.markDonePartitions(name, List.of(Map.of("day", "d1")));
    }

    private static void history(Identifier name) throws Exception {
        expect(catalog.loadSnapshot(name).get().snapshot().id(), 3L);
        expect(catalog.loadSnapshot(name).get().recordCount(), 12L);
        expect(catalog.loadSnapshot(name, "EARLIEST").get().id(), 1L);
        catalog.createTag(name, "two", 2L, "1 d", false);
        expect(catalog.getTag(name, "two").snapshot().id(), 2L);
        expect(catalog.listTagsPaged(name, null, null, null).getElements(), List.of("two"));
        expect(read(catalog.getTable(name).copy(Map.of("scan.tag-name", "two"))).size(), 8);
        catalog.rollbackTo(name, Instant.tag("two"));
        expect(ids(name).size(), 8);
        catalog.alterTable(name, List.of(
                SchemaChange.addColumn("extra", DataTypes.ROW(DataTypes.FIELD(0, "x", DataTypes.INT())), "said", SchemaChange.Move.first("extra")),
                SchemaChange.renameColumn("name", "title"), SchemaChange.setOption("more", "1")), false);
        expect(catalog.getTable(name).rowType().getFieldNames(), List.of("extra", "id", "title", "day"));
        expect(ids(name).size(), 8);
        catalog.alterTable(name, List.of(SchemaChange.dropColumn("extra")), false);
        try {
            catalog.alterTable(name, List.of(SchemaChange.dropColumn("none")), false);
            throw new AssertionError("dropped what is not there");
        } catch (Catalog.ColumnNotExistException expected) {
        }
    }

    private static void branches(Identifier name) throws Exception {
        catalog.createBranch(name, "b", "two");
        expect(catalog.listBranches(name), List.of("b"));
        Identifier branch = new Identifier(name.getDatabaseName(), name.getTableName(), "b");
        write(branch, 100, 2);
        expect(ids(branch).size(), 10);
        expect(ids(name).size(), 8);
        catalog.fastForward(name, "b");
        expect(ids(name).size(), 10);
        catalog.dropBranch(name, "b");
        try {
            catalog.dropBranch(name, "b");
            throw new AssertionError("dropped twice");
        } catch (Catalog.BranchNotExistException expected) {
        }
        Identifier renamed = Identifier.create("java", name.getTableName() + "_renamed");
        catalog.renameTable(name, renamed, false);
        expect(ids(renamed).size(), 10);
        catalog.dropTable(renamed, false);
    }

    private static void views() throws Exception {
        Identifier name = Identifier.create("java", "v");
        ViewImpl view = new ViewImpl(name, DataTypes.ROW(DataTypes.FIELD(0, "a", DataTypes.INT())).getFields(), "SELECT 1 AS a",
                Map.of("spark", "SELECT 2 AS a"), "said", Map.of("k", "v"));
        catalog.createView(name, view, false);
        expect(catalog.getView(name).query("spark"), "SELECT 2 AS a");
        catalog.alterView(name, List.of(ViewChange.addDialect("flink", "SELECT 3 AS a"), ViewChange.setOption("x", "1")), false);
        expect(new TreeSet<>(catalog.getView(name).dialects().keySet()), new TreeSet<>(List.of("flink", "spark")));
        expect(catalog.listViews("java"), List.of("v"));
        expect(catalog.listViewDetailsPaged("java", null, null, null).getElements().size(), 1);
        Identifier renamed = Identifier.create("java", "w");
        catalog.renameView(name, renamed, false);
        try {
            catalog.alterView(renamed, List.of(ViewChange.addDialect("flink", "x")), false);
            throw new AssertionError("added twice");
        } catch (Catalog.DialectAlreadyExistException expected) {
        }
        catalog.dropView(renamed, false);
    }

    private static void functions() throws Exception {
        Identifier name = Identifier.create("java", "f");
        catalog.createFunction(name, new FunctionImpl(name, Map.of("spark", FunctionDefinition.sql("a + 1"))), false);
        catalog.alterFunction(name, List.of(FunctionChange.addDefinition("flink", FunctionDefinition.lambda("x -> x", "JAVA"))), false);
        expect(catalog.getFunction(name).definitions().size(), 2);
        expect(catalog.listFunctions("java"), List.of("f"));
        expect(catalog.listFunctionDetailsPaged("java", null, null, null).getElements().size(), 1);
        catalog.dropFunction(name, false);
    }

    private static void write(Identifier name, int first, int count) throws Exception {
        BatchWriteBuilder builder = catalog.getTable(name).newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            for (int id = first; id < first + count; id++) {
                write.write(GenericRow.of((long) id, BinaryString.fromString("n" + id), BinaryString.fromString("d" + id % 2)));
            }
            commit.commit(write.prepareCommit());
        }
    }

    private static List<Long> ids(Identifier name) throws Exception {
        return read(catalog.getTable(name));
    }

    private static List<Long> read(Table table) throws Exception {
        ReadBuilder builder = table.newReadBuilder();
        int at = table.rowType().getFieldIndex("id");
        List<Long> found = new ArrayList<>();
        try (RecordReaderIterator<InternalRow> rows =
                new RecordReaderIterator<>(builder.newRead().createReader(builder.newScan().plan()))) {
            while (rows.hasNext()) {
                found.add(rows.next().getLong(at));
            }
        }
        if (new TreeSet<>(found).size() != found.size()) {
            throw new AssertionError("doubled: " + Arrays.toString(found.toArray()));
        }
        return found;
    }

    private static void expect(Object found, Object wanted) {
        if (!wanted.equals(found)) {
            throw new AssertionError("found " + found + ", not " + wanted);
        }
    }
}
