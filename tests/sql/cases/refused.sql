-- update without a value
UPDATE t SET a = WHERE b = 1
=>
1:18 Syntax error at 'WHERE': a value or DEFAULT is expected

-- update of an expression
UPDATE t SET a + 1 = 2
=>
1:16 Syntax error at '+': = is expected

-- update from a query
UPDATE t SET a = 1 FROM s WHERE s.b = t.b
=>
1:20 Syntax error at 'FROM'

-- update behind a query with a name
WITH q AS (SELECT 1 AS a) UPDATE t SET a = 1 WHERE a IN (SELECT a FROM q)
=>
1:27 UPDATE behind WITH or in parentheses is not available

-- delete behind a query with a name
WITH q AS (SELECT 1 AS a) DELETE FROM t WHERE a IN (SELECT a FROM q)
=>
1:27 DELETE behind WITH or in parentheses is not available

-- merge behind a query with a name
WITH q AS (SELECT 1 AS a) MERGE INTO t USING q ON t.a = q.a WHEN MATCHED THEN DELETE
=>
1:27 MERGE behind WITH or in parentheses is not available

-- delete
DELETE FROM t
=>
1:13 DELETE needs a WHERE clause

-- merge without a clause
MERGE INTO t USING s ON t.a = s.a
=>
1:33 The statement ends too early after 'a': WHEN [NOT] MATCHED

-- merge that inserts what is there
MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN INSERT *
=>
1:53 Syntax error at 'INSERT': UPDATE SET or DELETE is expected

-- merge that deletes what is not there
MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN DELETE
=>
1:57 Syntax error at 'DELETE': INSERT is expected

-- merge with a change of the schema
MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE
=>
1:7 MERGE WITH SCHEMA EVOLUTION is not available

-- primary key of a column
CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED)
=>
1:23 PRIMARY KEY is not available

-- primary key of a table
CREATE TABLE t (a INT,
  PRIMARY KEY (a) NOT ENFORCED)
=>
2:3 PRIMARY KEY is not available

-- computed column
CREATE TABLE t (a INT, b AS a + 1)
=>
1:26 Computed columns are not available

-- metadata column
CREATE TABLE t (a INT METADATA)
=>
1:23 METADATA columns are not available

-- add jar
ADD JAR 'x'
=>
1:1 ADD is not available

-- cache
CACHE TABLE t
=>
1:1 CACHE is not available

-- refresh
REFRESH TABLE t
=>
1:1 REFRESH is not available

-- load data
LOAD DATA INPATH 'x' INTO TABLE t
=>
1:1 LOAD is not available

-- function
CREATE FUNCTION f AS 'x'
=>
1:8 CREATE FUNCTION is not available

-- temporary view
CREATE TEMPORARY VIEW v AS SELECT 1
=>
1:18 Temporary views are not available; CREATE VIEW keeps one

-- directory
INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT 1
=>
1:8 INSERT OVERWRITE DIRECTORY is not available

-- hive ddl
CREATE TABLE t (a INT) STORED AS ORC
=>
1:24 STORED is not a clause of CREATE TABLE

-- execute immediate
EXECUTE IMMEDIATE 'SELECT 1'
=>
1:9 EXECUTE IMMEDIATE is not available

-- script
BEGIN SELECT 1; END
=>
1:7 Scripts and transactions are not available

-- misspelt
SELEC 1
=>
1:1 Syntax error at 'SELEC'

-- second line
SELECT 1 +
  FROM x
=>
2:3 Syntax error at 'FROM'

-- an option twice
CREATE TABLE t (a INT) WITH ('a' = '1', 'a' = '2')
=>
1:41 each option once

-- unknown type
CREATE TABLE t (a INT, b FOO)
=>
1:26 There is no type

-- a hint behind the alias
SELECT *
FROM t AS x /*+ OPTIONS('scan.snapshot-id' = '1') */
=>
2:13 A hint stands directly behind a table's name

-- options behind select
SELECT /*+ OPTIONS('a' = 'b') */ * FROM t
=>
1:8 A hint stands directly behind a table's name

-- what the parser stumbles over
SELECT * FROM t |> LIMIT 1
=>
1:26 The statement cannot be read

-- what the parser stumbles over in another way
SELECT * t |> LIMIT * t |> LIMIT
=>
1:23 The statement cannot be read

-- a comma too many
CREATE TABLE t (a INT,)
=>
1:23 a column's name is expected

-- an option's comma too many
CREATE TABLE t (a INT) WITH ('a' = '1',)
=>
1:40 an option's key is expected

-- flink's old windows
SELECT count(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)
=>
1:33 it stands in FROM: FROM TABLE(TUMBLE(TABLE t

-- a window without its size
SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts)))
=>
1:21 SIZE is expected

-- flink's json
SELECT JSON_VALUE(a, '$.b') FROM t
=>
1:8 Did you mean get_json_object?

-- show what there is none of
SHOW CREATE FUNCTION t
=>
1:6 SHOW CREATE FUNCTION is not available

-- modules
UNLOAD MODULE m
=>
1:1 UNLOAD is not available

-- the jvm in a common table expression
WITH x AS (SELECT reflect('a', 'b') AS r) SELECT * FROM x
=>
1:19 The function reflect is not available: it calls any method of the serv

-- the jvm in a subquery
SELECT * FROM t WHERE a IN (SELECT reflect('a', 'b'))
=>
1:36 The function reflect is not available: it calls any method of the serv

-- the jvm by a backquoted name
SELECT `reflect`('a', 'b')
=>
1:9 The function reflect is not available: it calls any method of the serv

-- the jvm in mixed case
SELECT ReFlEcT('a', 'b')
=>
1:8 The function ReFlEcT is not available: it calls any method of the serv

-- the jvm by a qualified name
SELECT builtin.reflect('a', 'b')
=>
1:16 The function reflect is called by a qualified name, which is not avail

-- the jvm by a session's name
SELECT system.session.reflect('a', 'b')
=>
1:23 The function reflect is called by a qualified name, which is not avail

-- the jvm behind a comment
SELECT reflect/*x*/('a', 'b')
=>
1:8 The function reflect is not available: it calls any method of the serv

-- the jvm behind nested comments
SELECT /* /* */ 1, */ reflect('a', 'b') /* */
=>
1:23 The function reflect is not available: it calls any method of the serv

-- the jvm by an escape in the name
SELECT re\u0066lect('a', 'b')
=>
1:10 Syntax error at '\': the end of the statement is expected.

-- the jvm behind an escaped quote
SELECT 'it\'s', reflect('a', 'b')
=>
1:17 The function reflect is not available: it calls any method of the serv

-- the jvm behind doubled quotes and a backslash
SELECT 'a''b\\', reflect('a', 'b')
=>
1:18 The function reflect is not available: it calls any method of the serv

-- the jvm behind double quotes
SELECT "x\"", reflect('a', 'b') -- "
=>
1:8 Double quotes are not read here; write 'text' in single quotes

-- the jvm behind a raw text
SELECT r'\', reflect('a', 'b') --'
=>
1:14 The function reflect is not available: it calls any method of the serv

-- the jvm behind a dollar quote
SELECT $$x$$, reflect('a', 'b')
=>
1:10 is not available: parameters

-- the jvm in a hint
SELECT /*+ COALESCE(reflect('a', 'b')) */ 1
=>
1:12 The hint COALESCE(REFLECT('a', 'b')) is not available.

-- the jvm in a lambda
SELECT transform(array(1), x -> java_method('a', 'b', x))
=>
1:33 The function java_method is not available: it calls any method of the

-- the jvm in a fold
SELECT aggregate(array(1), 0, (a, x) -> a + hash(try_reflect('a', 'b')))
=>
1:50 The function try_reflect is not available: it calls any method of the

-- the jvm as a lateral table
SELECT * FROM t, LATERAL reflect('a', 'b')
=>
1:26 The function reflect is not available: it calls any method of the serv

-- the jvm as a table of flink's
SELECT * FROM t, LATERAL TABLE(reflect('a', 'b')) AS x(y)
=>
1:32 The function reflect is not available: it calls any method of the serv

-- the jvm as a lateral view
SELECT * FROM t LATERAL VIEW reflect('a', 'b') x AS y
=>
1:30 The function reflect is not available: it calls any method of the serv

-- the jvm under a CTE's columns
WITH reflect(a) AS (SELECT 1) SELECT reflect('a', 'b')
=>
1:6 The function reflect is not available: it calls any method of the serv

-- the jvm in a sample
SELECT * FROM t TABLESAMPLE (BUCKET 1 OUT OF 2 ON reflect('a', 'b'))
=>
1:51 The function reflect is not available: it calls any method of the serv

-- the jvm in a pivot
SELECT * FROM t PIVOT (reflect('a', 'b') FOR a IN (1))
=>
1:24 The function reflect is not available: it calls any method of the serv

-- the jvm in a filter
SELECT sum(a) FILTER (WHERE reflect('a', 'b') = '') FROM t
=>
1:29 The function reflect is not available: it calls any method of the serv

-- the jvm in a named window
SELECT a FROM t WINDOW x AS (ORDER BY reflect('a', 'b'))
=>
1:39 The function reflect is not available: it calls any method of the serv

-- the jvm in a limit
SELECT a FROM t LIMIT reflect('a', 'b')
=>
1:23 The function reflect is not available: it calls any method of the serv

-- the jvm in an interval
SELECT INTERVAL reflect('a', 'b') DAY
=>
1:17 a number or a text is expected

-- an interval out of a column
SELECT INTERVAL a DAY
=>
1:17 a number or a text is expected

-- an interval without a unit
SELECT d - INTERVAL 1
=>
1:21 the interval's unit, such as DAY, is expected

-- a type with a zone of its own
SELECT CAST(a AS TIMESTAMP(3) WITH TIME ZONE)
=>
1:31 TIMESTAMP WITH TIME ZONE is not a type

-- a type of which nothing here holds the values, which sqlglot takes for BYTES
SELECT CAST(a AS BLOB)
=>
1:18 The type BLOB is not available in SQL

-- such a type inside another
SELECT a::MAP<STRING, ROW<x BLOB>>
=>
1:29 The type BLOB is not available in SQL

-- a type with a zone of its own inside another
SELECT a::ARRAY<TIMESTAMPTZ>
=>
1:17 TIMESTAMP WITH TIME ZONE is not a type

-- the jvm in an index
SELECT array(1)[reflect('a', 'b')]
=>
1:17 The function reflect is not available: it calls any method of the serv

-- the jvm behind a cast
SELECT reflect('a', 'b')::STRING
=>
1:8 The function reflect is not available: it calls any method of the serv

-- the jvm as a named argument
SELECT upper(str => reflect('a', 'b'))
=>
1:21 The function reflect is not available: it calls any method of the serv

-- the jvm behind a pipe
SELECT a FROM t |> SELECT reflect('a', 'b')
=>
1:27 The function reflect is not available: it calls any method of the serv

-- the jvm called by a pipe
FROM t |> CALL reflect('a', 'b')
=>
1:11 Syntax error at 'CALL': Unsupported pipe syntax operator: 'CALL'.

-- the jvm in a method's place
SELECT struct(1).reflect('a')
=>
1:18 The function reflect is called by a qualified name, which is not avail

-- files as a table
SELECT * FROM parquet.`/etc/passwd`
=>
1:24 'parquet.`/etc/passwd`' is no table of the catalog.

-- files as a table in backquotes
SELECT * FROM `text`.`/etc/passwd`
=>
1:23 '`text`.`/etc/passwd`' is no table of the catalog.

-- files as binaries
SELECT * FROM binaryFile.`file:///etc` AS t
=>
1:27 'binaryFile.`file:///etc` AS t' is no table of the catalog.

-- files by a table function
SELECT * FROM read_files('/etc/passwd')
=>
1:15 The table function read_files is not available.

-- files by a function
SELECT input_file_name() FROM t
=>
1:8 The function input_file_name is not available: it shows paths of the s

-- files by a schema of xml
SELECT from_xml(a, 'b INT', map('rowValidationXSDPath', '/etc/passwd')) FROM t
=>
1:8 from_xml takes no options here: one names a file of the server to read

-- files by a hidden option of xml
SELECT schema_of_xml(a, map(concat('rowValidation', 'XSDPath'), '/etc/passwd')) FROM t
=>
1:8 schema_of_xml takes no options here: one names a file of the server to

-- files by a descriptor
SELECT from_protobuf(a, 'x', '/etc/passwd') FROM t
=>
1:8 The function from_protobuf is not available: it reads descriptor files

-- the network by a table function
SELECT * FROM read_kafka(bootstrapServers => 'x')
=>
1:15 The table function read_kafka is not available.

-- another catalog
SELECT * FROM spark_catalog.default.t
=>
1:23 'spark_catalog.default.t' is no table of the catalog.

-- global views
SELECT * FROM global_temp.t
=>
1:22 'global_temp.t' is no table of the catalog.

-- a built-in function by its schema
SELECT * FROM system.builtin.range(3)
=>
1:30 The function range is called by a qualified name, which is not availab

-- the workers' logs
SELECT * FROM python_worker_logs()
=>
1:15 The table function python_worker_logs is not available.

-- an identifier as a table
SELECT * FROM IDENTIFIER('t')
=>
1:15 The table function IDENTIFIER is not available.

-- an identifier as a column
SELECT IDENTIFIER('a') FROM t
=>
1:8 The function IDENTIFIER is not available: it hides which table or func

-- an identifier as a function
SELECT IDENTIFIER('reflect')('a', 'b')
=>
1:30 Syntax error at ''a'': something is missing here

-- a program by transform
SELECT TRANSFORM (a) USING 'cat' AS (x) FROM t
=>
1:8 'TRANSFORM(a) USING 'cat' AS (x)' is not available: TRANSFORM … USING

-- a program by transform in FROM
FROM (FROM t SELECT TRANSFORM (a) USING 'cat' AS (x)) SELECT *
=>
1:21 'TRANSFORM(a) USING 'cat' AS (x)' is not available: TRANSFORM … USING

-- a program by map
MAP a USING 'cat' FROM t
=>
1:1 MAP is not available: TRANSFORM and its kin start programs on the serv

-- a program by map behind FROM
FROM t MAP a USING 'cat'
=>
1:12 Syntax error at 'a': the end of the statement is expected.

-- a parameter
SELECT :x
=>
1:8 :x at line 1, column 8 is a placeholder, and no value was sent for it

-- a positional parameter
SELECT ?
=>
1:8 ? at line 1, column 8 is a placeholder, and no value was sent for it

-- a substituted variable
SELECT ${env:HOME}
=>
1:10 '${env:HOME}' is not available: parameters and variables are not avail

-- a server's variable
SELECT @@version
=>
1:10 '${${version}}' is not available: parameters and variables are not ava

-- a declared variable
DECLARE VARIABLE x INT
=>
1:1 DECLARE is not available: session variables are not available.

-- a set variable
SET VAR x = 1
=>
1:9 SET VAR is not available; SET 'key' = 'value' is.

-- execute immediate into a variable
EXECUTE IMMEDIATE 'SELECT 1' INTO x USING 1
=>
1:9 EXECUTE IMMEDIATE is not available; send the statement itself.

-- a script with variables
BEGIN DECLARE x INT; END
=>
1:7 Scripts and transactions are not available; EXECUTE STATEMENT SET BEGI

-- an atomic script
BEGIN ATOMIC SELECT 1; END
=>
1:7 Scripts and transactions are not available; EXECUTE STATEMENT SET BEGI

-- a branch
IF 1 = 1 THEN SELECT 1; END IF
=>
1:1 IF is not available: scripts are not available.

-- a loop
WHILE TRUE DO SELECT 1; END WHILE
=>
1:1 WHILE is not available: scripts are not available.

-- an insert behind FROM
FROM t INSERT INTO t SELECT *
=>
1:8 Syntax error at 'INSERT': a query is expected.

-- a local directory
INSERT OVERWRITE LOCAL DIRECTORY '/tmp/x' SELECT 1
=>
1:8 INSERT OVERWRITE DIRECTORY is not available: the server's files are no

-- a location
CREATE TABLE t (a INT) LOCATION '/etc'
=>
1:24 LOCATION is not a clause of CREATE TABLE here; WITH ('key' = 'value')

-- a spark table
CREATE TABLE t USING parquet LOCATION '/etc'
=>
1:16 USING is not a clause of CREATE TABLE here; WITH ('key' = 'value') sha

-- an external table
CREATE EXTERNAL TABLE t (a INT)
=>
1:8 CREATE EXTERNAL is not available; CREATE TABLE, CREATE TEMPORARY TABLE

-- a function of SQL
CREATE TEMPORARY FUNCTION f() RETURNS INT RETURN 1
=>
1:18 CREATE FUNCTION is not available; CREATE TABLE, CREATE TEMPORARY TABLE

-- a file
ADD FILE '/x'
=>
1:1 ADD is not available: code and files cannot be added to the server.

-- jars listed
LIST JARS
=>
1:1 LIST is not available: the server's files are not shown.

-- a time zone
SET TIME ZONE 'UTC'
=>
1:10 SET TIME is not available; SET 'key' = 'value' is.

-- the file system's shell
DFS -ls /
=>
1:1 Syntax error at 'DFS': a statement such as SELECT, INSERT, CREATE TABL

-- the shell
!ls
=>
1:1 Syntax error at '!': a statement such as SELECT, INSERT, CREATE TABLE,

-- an add to be explained
EXPLAIN ADD JAR 'x'
=>
1:9 ADD is not available: code and files cannot be added to the server.

-- code shown
EXPLAIN CODEGEN SELECT 1
=>
1:9 EXPLAIN CODEGEN is not available; EXPLAIN alone tells the files kept a

-- a moment by its number and a precision
SELECT TO_TIMESTAMP_LTZ(a, 3) FROM t
=>
1:8 TO_TIMESTAMP_LTZ of a number and a precision is not available; timestamp_millis(n)

-- several inserts explained
EXPLAIN STATEMENT SET BEGIN INSERT INTO t SELECT 1; END
=>
1:9 EXPLAIN STATEMENT SET is not available; EXPLAIN each INSERT

-- a plan executed
EXECUTE PLAN '/x'
=>
1:9 EXECUTE PLAN is not available

-- some partitions shown
SHOW PARTITIONS d.t PARTITION (dt = 'z')
=>
1:21 SHOW PARTITIONS … PARTITION (…) is not available; a query of d.t$partitions

-- a time cut down
SELECT FLOOR(ts TO HOUR) FROM t
=>
1:17 FLOOR(… TO …) is not available; date_trunc

-- a time cut up
SELECT CEIL(ts TO DAY) FROM t
=>
1:16 CEIL(… TO …) is not available; date_trunc

-- a part of a JSON text with a type
SELECT JSON_VALUE(a, '$.b' RETURNING DOUBLE) FROM t
=>
1:28 JSON_VALUE(… RETURNING …) is not available; get_json_object

-- a part of a JSON text in an array
SELECT JSON_QUERY(a, '$.b' WITH WRAPPER) FROM t
=>
1:28 JSON_QUERY(… WITH …) is not available

-- a part of a JSON text looked for
SELECT JSON_EXISTS(a, '$.b' TRUE ON ERROR) FROM t
=>
1:29 JSON_EXISTS(… TRUE …) is not available

-- a JSON text made
SELECT JSON_OBJECT('k' VALUE 1)
=>
1:24 JSON_OBJECT(… VALUE …) is not available; to_json

-- a JSON text made by keys
SELECT JSON_OBJECT(KEY 'k' VALUE 1)
=>
1:24 JSON_OBJECT(… 'k' …) is not available; to_json

-- a JSON text of an array
SELECT JSON_ARRAY(1, 2 NULL ON NULL)
=>
1:24 JSON_ARRAY(… NULL …) is not available; to_json

-- a JSON text of a group
SELECT JSON_OBJECTAGG(KEY k VALUE v) FROM t
=>
1:27 JSON_OBJECTAGG(… k …) is not available; to_json

-- sessions in GROUP BY
SELECT count(*) FROM t GROUP BY SESSION(ts, INTERVAL '1' HOUR)
=>
1:33 SESSION inside a query's columns or GROUP BY is not available

-- a partition added
ALTER TABLE t ADD IF NOT EXISTS PARTITION (dt = 'x')
=>
1:19 ALTER TABLE ADD PARTITION is not available

-- a distribution added
ALTER TABLE t ADD DISTRIBUTION BY HASH(id) INTO 4 BUCKETS
=>
1:19 DISTRIBUTION is not available; the options 'bucket'

-- a distribution changed
ALTER TABLE t MODIFY DISTRIBUTION BY HASH(id) INTO 4 BUCKETS
=>
1:22 DISTRIBUTION is not available

-- a distribution dropped
ALTER TABLE t DROP DISTRIBUTION
=>
1:20 DISTRIBUTION is not available

-- a part of a ROW added
ALTER TABLE t ADD (r.d INT)
=>
1:21 Changes of what lies inside a column (r.…) are not available

-- a part of a ROW changed
ALTER TABLE t MODIFY r.b.c BIGINT
=>
1:23 Changes of what lies inside a column (r.…) are not available

-- a default with a column's new type
ALTER TABLE t MODIFY c BIGINT DEFAULT 7
=>
1:31 MODIFY takes no DEFAULT. ALTER COLUMN c SET DEFAULT is a statement of its own.

-- a default with a column's new type and comment
ALTER TABLE t MODIFY (c BIGINT COMMENT 'x' DEFAULT 7 FIRST)
=>
1:44 MODIFY takes no DEFAULT

-- the type of a part of a ROW
ALTER TABLE t ALTER COLUMN r.b TYPE BIGINT
=>
1:29 Changes of what lies inside a column (r.…) are not available

-- a part of a ROW renamed
ALTER TABLE t RENAME r.a TO aa
=>
1:23 Changes of what lies inside a column (r.…) are not available

-- parts of ROWs dropped
ALTER TABLE t DROP (a, r.aa)
=>
1:25 Changes of what lies inside a column (r.…) are not available
