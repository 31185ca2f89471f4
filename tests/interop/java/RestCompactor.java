import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.AppendOnlyFileStoreTable;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.utils.Pair;

/**
 * Appends to and compacts tables of a REST catalog as engines with Paimon inside do, one request a line on standard input:
 * {"table": "db.t", "append": [first, count]} or {"table": "db.t"} to compact. Answers {"messages": n}: what it committed.
 */
public class RestCompactor {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static Catalog catalog;

    public static void main(String[] arguments) throws Exception {
        Options options = new Options();
        options.set("metastore", "rest");
        options.set("uri", arguments[0]);
        options.set("warehouse", "sluice");
        options.set("token.provider", "bear");
        options.set("token", "any");
        options.set("cache-enabled", "false");
        catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer;
            try {
                answer = Map.of("messages", answer(JSON.readValue(line, Map.class)));
            } catch (Throwable problem) {
                problem.printStackTrace();
                answer = Map.of("error", String.valueOf(problem));
            }
            out.println(JSON.writeValueAsString(answer));
        }
        catalog.close();
    }

    private static int answer(Map<String, Object> request) throws Exception {
        FileStoreTable table = (FileStoreTable) catalog.getTable(Identifier.fromString((String) request.get("table")));
        List<Integer> rows = (List<Integer>) request.get("append");
        if (rows != null) {
            return append(table, rows.get(0), rows.get(1));
        }
        return table.bucketMode() == BucketMode.HASH_FIXED ? buckets(table) : bins(table);
    }

    private static int append(FileStoreTable table, int first, int count) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            for (int id = first; id < first + count; id++) {
                write.write(GenericRow.of((long) id, BinaryString.fromString("s" + id)));
            }
            List<CommitMessage> messages = write.prepareCommit();
            commit.commit(messages);
            return messages.size();
        }
    }

    private static int buckets(FileStoreTable writeOnly) throws Exception {
        FileStoreTable table = writeOnly.copy(Map.of("write-only", "false")); // as Flink's dedicated compaction does
        Set<Pair<BinaryRow, Integer>> buckets = new LinkedHashSet<>();
        for (Split split : table.newReadBuilder().newScan().plan().splits()) {
            buckets.add(Pair.of(((DataSplit) split).partition().copy(), ((DataSplit) split).bucket()));
        }
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
            for (Pair<BinaryRow, Integer> bucket : buckets) {
                write.compact(bucket.getLeft(), bucket.getRight(), true);
            }
            List<CommitMessage> messages = write.prepareCommit();
            commit.commit(messages);
            return messages.size();
        }
    }

    private static int bins(FileStoreTable table) throws Exception {
        List<CommitMessage> messages = new ArrayList<>();
        BaseAppendFileStoreWrite write = ((AppendOnlyFileStoreTable) table).store().newWrite("compactor");
        for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
            messages.add(task.doCompact(table, write));
        }
        write.close();
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(messages);
        }
        return messages.size();
    }
}
