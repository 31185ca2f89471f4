import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Map;
import org.apache.paimon.schema.SchemaValidation;
import org.apache.paimon.schema.TableSchema;

/** Reads the file of a schema, one a line on standard input, and checks it as each load of a table does; answers what is wrong with it. */
public class SchemaLoader {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String refusal = "";
            try {
                SchemaValidation.validateTableSchema(TableSchema.fromJson(line));
            } catch (Throwable problem) {
                refusal = String.valueOf(problem);
            }
            out.println(json.writeValueAsString(Map.of("refusal", refusal)));
        }
    }
}
