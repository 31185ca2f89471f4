-- update
UPDATE t SET a = 1
=>
1:1 UPDATE is not available: rows of an append table are never changed

-- delete
DELETE FROM t
=>
1:1 DELETE is not available

-- merge
MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE
=>
1:1 MERGE is not available

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

-- view
CREATE VIEW v AS SELECT 1
=>
1:8 CREATE VIEW is not available

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
