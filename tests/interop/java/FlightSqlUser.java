import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/**
 * What a person does first in a tool such as DBeaver, through the Arrow Flight SQL JDBC driver.
 *
 * <p>One command a line comes in ("sql", a tab, a statement), one answer a line goes out: rows parted by "|", values by ",".
 */
public final class FlightSqlUser {
  private static Connection connection;

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    java.io.PrintStream out = new java.io.PrintStream(System.out, true, "UTF-8");
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = line.split("\t", -1);
      String answer;
      try {
        answer = answer(words);
      } catch (SQLException | RuntimeException problem) {
        answer = "ERROR " + problem.getClass().getSimpleName() + ": " + problem.getMessage();
      }
      out.println("> " + answer.replace("\n", " "));
    }
  }

  private static String answer(String[] words) throws SQLException, InterruptedException {
    DatabaseMetaData data = connection == null ? null : connection.getMetaData();
    switch (words[0]) {
      case "connect":
        Properties properties = new Properties();
        for (int at = 2; at + 1 < words.length; at += 2) properties.put(words[at], words[at + 1]);
        connection = DriverManager.getConnection(words[1], properties);
        return "connected";
      case "product":
        return data.getDatabaseProductName() + "," + data.getIdentifierQuoteString() + "," + data.getCatalogTerm() + ","
            + data.getSchemaTerm() + "," + data.supportsTransactions() + "," + data.supportsBatchUpdates() + ","
            + data.getMaxConnections() + "," + data.supportsANSI92EntryLevelSQL() + "," + data.getSQLKeywords().contains("WATERMARK")
            + "," + data.supportsConvert() + "," + data.nullsAreSortedLow();
      case "catalogs":
        return rows(data.getCatalogs());
      case "schemas":
        return rows(data.getSchemas());
      case "types":
        return rows(data.getTableTypes());
      case "tables":
        return rows(data.getTables(words[1], words[2], words[3], null), "TABLE_NAME", "TABLE_TYPE");
      case "columns":
        return rows(
            data.getColumns(words[1], words[2], words[3], null), "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "COLUMN_SIZE",
            "DECIMAL_DIGITS", "NULLABLE", "REMARKS", "ORDINAL_POSITION");
      case "keys":
        return rows(data.getPrimaryKeys(words[1], words[2], words[3])) + ";" + rows(data.getImportedKeys(words[1], words[2], words[3]))
            + ";" + rows(data.getExportedKeys(words[1], words[2], words[3]));
      case "schema":
        connection.setSchema(words[1]);
        return connection.getSchema();
      case "sql":
        try (Statement statement = connection.createStatement()) {
          statement.setMaxRows(200);
          if (!statement.execute(words[1])) return "updated " + statement.getUpdateCount();
          return rows(statement.getResultSet());
        }
      case "prepare":
        try (PreparedStatement statement = connection.prepareStatement(words[1])) {
          return statement.getParameterMetaData().getParameterCount() + " parameters";
        }
      case "ask":
        try (PreparedStatement statement = connection.prepareStatement(words[1])) {
          bind(statement, words);
          return rows(statement.executeQuery());
        }
      case "change":
        try (PreparedStatement statement = connection.prepareStatement(words[1])) {
          bind(statement, words);
          return "updated " + statement.executeUpdate();
        }
      case "cancel":
        return cancel(words[1]);
      case "close":
        connection.close();
        return "closed";
      default:
        return "ERROR no command " + words[0];
    }
  }

  /** Parameters: "l" and a long, "s" and a text, "d" and a double, "n" for NULL. */
  private static void bind(PreparedStatement statement, String[] words) throws SQLException {
    for (int at = 2; at < words.length; at++) {
      String value = words[at].substring(1);
      switch (words[at].charAt(0)) {
        case 'l':
          statement.setLong(at - 1, Long.parseLong(value));
          break;
        case 'd':
          statement.setDouble(at - 1, Double.parseDouble(value));
          break;
        case 'n':
          statement.setObject(at - 1, null);
          break;
        default:
          statement.setString(at - 1, value);
      }
    }
  }

  /** Run a statement on another thread, cancel it after a moment, and tell what that thread was told. */
  private static String cancel(String text) throws SQLException, InterruptedException {
    Statement statement = connection.createStatement();
    List<String> told = new ArrayList<>();
    Thread runner =
        new Thread(
            () -> {
              try (ResultSet rows = statement.executeQuery(text)) {
                while (rows.next()) {}
                told.add("it ended");
              } catch (SQLException | RuntimeException problem) {
                told.add("stopped");
              }
            });
    runner.start();
    Thread.sleep(1500);
    statement.cancel();
    runner.join(20000);
    return runner.isAlive() ? "it still runs" : told.get(0);
  }

  private static String rows(ResultSet found, String... names) throws SQLException {
    StringBuilder text = new StringBuilder();
    try (found) {
      ResultSetMetaData data = found.getMetaData();
      while (found.next()) {
        if (text.length() > 0) text.append("|");
        int count = names.length > 0 ? names.length : data.getColumnCount();
        for (int at = 0; at < count; at++) {
          if (at > 0) text.append(",");
          text.append(names.length > 0 ? found.getObject(names[at]) : found.getObject(at + 1));
        }
      }
    }
    return text.toString();
  }

  private FlightSqlUser() {}
}
