import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** Does what users do with Flink's JDBC driver: one JSON request a line on standard input, one JSON answer a line on standard output. */
public class FlinkJdbcUser {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static Connection connection;

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            Object answer;
            try {
                answer = Map.of("ok", answer(JSON.readTree(line)));
            } catch (Throwable problem) {
                List<String> causes = new ArrayList<>();
                for (Throwable cause = problem; cause != null; cause = cause.getCause()) causes.add(String.valueOf(cause));
                answer = Map.of("causes", causes);
            }
            OUT.println(JSON.writeValueAsString(answer));
        }
        if (connection != null) connection.close();
        System.exit(0); // threads of connections that failed to open stay alive
    }

    private static Object answer(JsonNode asked) throws Exception {
        String what = asked.get("do").asText();
        String given = asked.path("with").asText();
        switch (what) {
            case "connect":
                if (connection != null) connection.close();
                connection = DriverManager.getConnection(given);
                return List.of(connection.getCatalog(), connection.getSchema());
            case "use":
                connection.setCatalog("sluice");
                connection.setSchema(given);
                return connection.getSchema();
            case "execute":
                try (Statement statement = connection.createStatement()) {
                    return statement.execute(given) ? rows(statement.getResultSet(), Integer.MAX_VALUE) : Map.of();
                }
            case "query":
                try (Statement statement = connection.createStatement(); ResultSet found = statement.executeQuery(given)) {
                    return rows(found, asked.path("rows").asInt(Integer.MAX_VALUE));
                }
            case "count":
                try (Statement statement = connection.createStatement(); ResultSet found = statement.executeQuery(given)) {
                    long count = 0;
                    while (found.next()) count++;
                    return count;
                }
            case "cancel":
                return cancelled(given);
            case "catalogs":
                return rows(connection.getMetaData().getCatalogs(), Integer.MAX_VALUE);
            case "schemas":
                return rows(connection.getMetaData().getSchemas(), Integer.MAX_VALUE);
            case "set":
                connection.setClientInfo(asked.get("key").asText(), given);
                return connection.getClientInfo(asked.get("key").asText());
            case "metadata":
                return metadata(given);
            default:
                throw new IllegalArgumentException(what);
        }
    }

    /** Starts reading, closes the statement from another thread as a tool's stop button does, and tells how reading ended. */
    private static Object cancelled(String sql) throws Exception {
        Statement statement = connection.createStatement();
        ResultSet found = statement.executeQuery(sql);
        found.next();
        CompletableFuture<Boolean> reading = CompletableFuture.supplyAsync(() -> {
            try {
                while (found.next()) { }
                return true;
            } catch (Exception stopped) {
                return false;
            }
        });
        statement.cancel();
        statement.close();
        return reading.get();
    }

    private static Object metadata(String call) throws Exception {
        DatabaseMetaData metadata = connection.getMetaData();
        switch (call) {
            case "getTables":
                return rows(metadata.getTables(null, null, "%", null), Integer.MAX_VALUE);
            case "getColumns":
                return rows(metadata.getColumns(null, null, "%", "%"), Integer.MAX_VALUE);
            case "getPrimaryKeys":
                return rows(metadata.getPrimaryKeys(null, null, "t"), Integer.MAX_VALUE);
            case "getTableTypes":
                return rows(metadata.getTableTypes(), Integer.MAX_VALUE);
            default:
                return String.valueOf(DatabaseMetaData.class.getMethod(call).invoke(metadata));
        }
    }

    private static Object rows(ResultSet found, int most) throws Exception {
        ResultSetMetaData metadata = found.getMetaData();
        List<String> columns = new ArrayList<>();
        for (int i = 1; i <= metadata.getColumnCount(); i++) columns.add(metadata.getColumnName(i) + " " + metadata.getColumnTypeName(i));
        List<List<String>> rows = new ArrayList<>();
        while (rows.size() < most && found.next()) {
            List<String> row = new ArrayList<>();
            for (int i = 1; i <= columns.size(); i++) row.add(text(found, i));
            rows.add(row);
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("columns", columns);
        answer.put("rows", rows);
        return answer;
    }

    /** A value as the driver's own object, where it has one; the driver refuses some types. */
    private static String text(ResultSet found, int column) throws Exception {
        Object value;
        try {
            value = found.getObject(column);
        } catch (java.sql.SQLException refused) {
            return "refused: " + refused.getMessage();
        }
        if (value == null) return null;
        if (value instanceof byte[]) return "byte[] " + Arrays.toString((byte[]) value);
        if (value instanceof Map) value = new TreeMap<>((Map<?, ?>) value);
        return value.getClass().getSimpleName() + " " + value;
    }
}
